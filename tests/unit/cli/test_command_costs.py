"""The benchmark of what a command costs before it does something."""

from collections.abc import Sequence

import pytest

from benchmarks.cli import bench
from benchmarks.cli.bench import Cost


@pytest.mark.parametrize(
    ("slow", "missed", "code"),
    [((), 0, 0), (("version",), 1, 1), (("topic", "trim", "--help"), 1, 1)],
    ids=["all met", "a command", "a help text"],
)
def test_a_command_that_misses_its_goal_is_marked_and_fails_the_suite(
    slow: tuple[str, ...],
    missed: int,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measure(words: Sequence[str]) -> Cost:
        return Cost(bench.LOCAL_S * 2 if tuple(words[2:]) == slow else 0.01, 1.0)

    monkeypatch.setattr(bench, "measure", measure)

    assert bench.main(["--rounds", "2"]) == code

    out = capsys.readouterr().out
    count = len(bench.commands())
    assert f"{count - missed} of {count} commands within their goal" in out
    assert ("NOT MET" in out) == bool(missed)
