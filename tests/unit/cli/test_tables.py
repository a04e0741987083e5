"""Tables on terminals that are narrow: names stay whole, texts are broken between words."""

import io

import pytest

from broker.cli.tables import print_table

COLUMNS = ("group", "partition", "lag_seconds", "host", "reason")
GROUP = "readers-of-orders"
ROWS = [
    (GROUP, "0", "1,048.50", "-", "it has no members: no consumer is connected"),
    (GROUP, "1", "-", "-", "-"),
]


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def printed(width: int, monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool = True) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal() if is_terminal else io.StringIO()
    print_table(COLUMNS, ROWS, stream, is_single=False)
    return [each.rstrip() for each in stream.getvalue().splitlines()]


def test_a_wide_terminal_has_a_line_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(120, monkeypatch)

    assert lines == [each.rstrip() for each in printed(120, monkeypatch, is_terminal=False)]
    assert len(lines) == 1 + len(ROWS)


@pytest.mark.parametrize("width", [80, 60, 52])
def test_a_text_is_broken_between_words_and_a_name_is_not(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(width, monkeypatch)

    assert max(map(len, lines)) <= width
    assert sum(each.startswith(f"{GROUP}  ") for each in lines) == len(ROWS)
    words = {word for each in lines for word in each.split()}
    assert {"partition", "1,048.50", "members:", "connected", "seconds"} <= words
    assert ("host" in words) == (width >= 60)


def test_a_table_that_cannot_fit_keeps_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(45, monkeypatch)

    assert max(map(len, lines)) > 45
    assert sum(each.startswith(f"{GROUP}  ") for each in lines) == len(ROWS) == len(lines) - 1
