"""Topic patterns written for Spark's Kafka source, which have Java's syntax."""

import string

import pytest

from broker.pipeline.java_patterns import compile_java

NAMES = ["clicks", "Clicks-2", "a.b", "_x", "42", "user_events.v1"]


def found(pattern: str) -> list[str]:
    compiled = compile_java(pattern)
    return [each for each in NAMES if compiled.search(each)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("lick", ["clicks", "Clicks-2"]),  # findFirstIn: anywhere
        (r"^\p{Alpha}+$", ["clicks"]),
        (r"^\p{Alnum}+$", ["clicks", "42"]),
        (r"\p{Upper}", ["Clicks-2"]),
        (r"\p{Lu}", ["Clicks-2"]),
        (r"^\pL+$", ["clicks"]),
        (r"^\p{L}+-\p{Nd}$", ["Clicks-2"]),
        (r"^\p{IsAlphabetic}+$", ["clicks"]),
        (r"^\p{script=Latin}+$", ["clicks"]),
        (r"^[\p{Alpha}\p{Punct}]+$", ["clicks", "a.b", "_x"]),
        (r"^\P{Lower}+$", ["42"]),
        (r"^\p{^Lower}+$", ["42"]),
        (r"^[\P{Alpha}]+$", ["42"]),
        (r"^[^\p{Alpha}]+$", ["42"]),
        (r"\p{Pd}", ["Clicks-2"]),
        (r"\p{Pc}", ["_x", "user_events.v1"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"\Qa.b", ["a.b"]),
        (r"^(?<first>\d)(?!\k<first>)", ["42"]),
        (r"b\z", ["a.b"]),
        (r"b\Z", ["a.b"]),
        (r"^[^\h\v]+\.b$", ["a.b"]),
        (r"\h|\v|\R", []),
        (r"^\H\V\H$", ["a.b"]),
        (r"\x{5f}x|\0137x", ["_x"]),
        (r"(?i)^CLICKS", ["clicks", "Clicks-2"]),
        (r"^(?i:c)licks$", ["clicks"]),
        (r"^[]a.b]+$", ["a.b"]),
        (r"^[a-c.]++$", ["a.b"]),
        (r"^\w+$", ["clicks", "_x", "42"]),
    ],
)
def test_a_pattern_matches_what_java_matches(pattern: str, names: list[str]) -> None:
    assert found(pattern) == names


def test_predefined_classes_are_ascii_as_in_java() -> None:
    assert not compile_java(r"^\w$").search("é")
    assert not compile_java(r"^\d$").search("٣")
    assert compile_java(r"^\P{Alpha}$").search("é")


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("Lower", string.ascii_lowercase),
        ("Upper", string.ascii_uppercase),
        ("Alpha", string.ascii_letters),
        ("Digit", string.digits),
        ("Alnum", string.ascii_letters + string.digits),
        ("Punct", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
        ("Blank", " \t"),
        ("XDigit", string.hexdigits),
        ("Space", " \t\n\x0b\f\r"),
    ],
)
def test_a_posix_class_has_the_members_documented_by_java(name: str, members: str) -> None:
    compiled = compile_java(rf"\p{{{name}}}")

    assert {each for each in map(chr, range(300)) if compiled.search(each)} == set(members)


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (r"\p{javaLowerCase}", r"\\p\{javaLowerCase\}"),
        (r"\p{InGreek}", r"\\p\{InGreek\}"),
        ("[a-z&&[^b]]", "&&"),
        ("[a[b]]", "a class within a class"),
        ("a(?i)b", r"\(\?i\) elsewhere"),
        ("(?U)a", "the flag U"),
        (r"\X", r"\\X"),
        (r"\Ga", r"\\G"),
        (r"[\H]", r"\\H within"),
        ("a(", "regular expression .*position"),
        ("a\\", "regular expression"),
        ("(?<=a*)b", "fixed-width"),
    ],
)
def test_syntax_that_python_lacks_is_named(pattern: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        compile_java(pattern)
