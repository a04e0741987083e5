"""Offsets of groups that are set, and what is kept of the earlier ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from broker.cli.group import saved_offsets, seeking
from broker.cli.group.seeking import Sought, apply
from broker.client.brokers import Description
from broker.client.metadata import Cluster, Partition
from broker.model.errors import ErrorCode, PolylogError, RequestError, TimedOut

CLUSTER = cast("Cluster", None)  # no test here asks one
BEFORE = {("a", 0): 1, ("b", 0): 2}
ROWS = [Sought("a", 0, 1, 5, 0, ""), Sought("b", 0, 2, 5, 0, "")]
REFUSED = RequestError(ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(seeking, "describe", lambda _: Description("c", None, ()))


def fail(
    monkeypatch: pytest.MonkeyPatch, error: PolylogError, now: Mapping[Partition, int]
) -> None:
    """Let a commit fail that leaves these offsets."""

    def commit(*_: Any) -> None:
        raise error

    monkeypatch.setattr(seeking, "commit_offsets", commit)
    monkeypatch.setattr(seeking, "committed_offsets", lambda *_: dict(now))


def test_the_offsets_before_a_refused_change_do_not_hide_those_of_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    earlier = saved_offsets.save("c", "g", {("a", 0): 7})
    fail(monkeypatch, REFUSED, BEFORE)

    with pytest.raises(RequestError):
        apply(CLUSTER, "g", BEFORE, ROWS)

    assert saved_offsets.newest("c", "g") == earlier


@pytest.mark.parametrize(
    ("error", "now"),
    [(REFUSED, {("a", 0): 5, ("b", 0): 2}), (TimedOut("it may have happened"), BEFORE)],
)
def test_the_offsets_before_a_change_that_may_have_happened_are_kept(
    monkeypatch: pytest.MonkeyPatch, error: PolylogError, now: dict[Partition, int]
) -> None:
    fail(monkeypatch, error, now)

    with pytest.raises(type(error)):
        apply(CLUSTER, "g", BEFORE, ROWS)

    kept = saved_offsets.newest("c", "g")
    assert kept is not None
    assert saved_offsets.read(kept) == BEFORE
