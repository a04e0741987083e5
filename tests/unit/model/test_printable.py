"""Texts of others, as they may be printed."""

import pytest

from broker.model.printable import printable, printable_lines


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("plain \u00e4 \U0001f600", "plain \u00e4 \U0001f600"),
        ("a\nb\r\x00", r"a\nb\r\x00"),
        ("\x1b[2J\x9b2J", r"\x1b[2J\x9b2J"),
        ("\udcff\u202e", r"\udcff\u202e"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, printed: str) -> None:
    assert printable(text) == printed


def test_lines_stay_lines() -> None:
    assert printable_lines("a\x07\nb\x85c\n") == "a\\x07\nb\\x85c\n"
