r"""Java's properties files: what java.util.Properties reads of each line."""

import pytest

from broker.model.errors import ConfigError
from broker.model.properties import Property, read_properties


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("a=b", "a", "b"),
        ("a:b", "a", "b"),
        ("a b", "a", "b"),
        ("  a  =  b ", "a", "b "),
        ("a\t:\tb", "a", "b"),
        ("a = = b", "a", "= b"),
        ("a=b=c:d", "a", "b=c:d"),
        ("a", "a", ""),
        ("a=", "a", ""),
        (r"a\ b\=c\:d=e", "a b=c:d", "e"),
        (r"a=b\tc\nd\\e", "a", "b\tc\nd\\e"),
        (r"a=\u00e4\z", "a", "äz"),
        ("a=b # c", "a", "b # c"),
        ("a=b,\\\n    c,\\\r\n\td", "a", "b,c,d"),
        ("a=b\\\\", "a", "b\\"),
        ("a=b\\", "a", "b"),
        ("a=b\\\n# c", "a", "b# c"),
    ],
)
def test_a_line_is_read_as_by_java(text: str, name: str, value: str) -> None:
    assert read_properties(text) == [Property(name, value, 1)]


@pytest.mark.parametrize(
    "text", ["", "\n \t\n", "# a=b\n  ! c=d\n", "#a=b\\\n#c=d", "\\\n# a", "\\"]
)
def test_comments_and_empty_lines_are_no_properties(text: str) -> None:
    assert read_properties(text) == []


def test_each_property_has_the_number_of_its_first_line() -> None:
    found = read_properties("# one\n\na=1\\\n  2\\\n\nb=3\r\nc=4\rd=5")

    assert found == [
        Property("a", "12", 3),
        Property("b", "3", 6),
        Property("c", "4", 7),
        Property("d", "5", 8),
    ]


@pytest.mark.parametrize("digits", ["12", "12g4", ""])
def test_a_character_without_four_digits_is_refused_with_its_line(digits: str) -> None:
    with pytest.raises(ConfigError, match=r"^2: \\u is followed by four hexadecimal digits"):
        read_properties(f"a=1\nb=\\u{digits}")


def test_two_halves_of_a_character_are_one_as_in_java() -> None:
    assert read_properties(r"a=\ud83d\ude00") == [Property("a", "\U0001f600", 1)]


@pytest.mark.parametrize("half", [r"\ud83d", r"\ude00", r"\ude00\ud83d"])
def test_half_a_character_is_refused_with_its_line(half: str) -> None:
    with pytest.raises(ConfigError, match=r"^2: .*half of a character"):
        read_properties(f"a=1\nb={half}x")
