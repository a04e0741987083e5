"""V1's lines as Go parses them: envelopes, fields, numbers."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.protocols.v1.commands import (
    WHITE_SPACE,
    Envelope,
    boolean,
    encoded,
    integer,
    name,
    numbers,
    ok_line,
    parse,
)
from broker.protocols.v1.errors import RefusedError


def test_bars_after_the_third_belong_to_the_arguments() -> None:
    assert parse(b"V1|1|PRODUCE|t k:a|b") == Envelope("1", "PRODUCE", ["t", "k:a|b"])


def test_a_command_may_be_in_lower_case() -> None:
    assert parse(b"V1|1|Produce|").command == "PRODUCE"


@pytest.mark.parametrize("space", [*WHITE_SPACE, " \t", "\u2003\v"])
def test_arguments_are_separated_by_white_space_of_any_kind(space: str) -> None:
    line = f"{space}V1|{space}1{space}|{space}PING|{space}a{space}b{space}".encode()

    assert parse(line) == Envelope("1", "PING", ["a", "b"])


@pytest.mark.parametrize("letter", ["\x1c", "\x1d", "\x1e", "\x1f", "\u200b", "\ufeff", "\x00"])
def test_letters_are_those_of_go(letter: str) -> None:
    assert parse(f"V1|1|PING|a{letter}b".encode()).args == [f"a{letter}b"]


@given(st.binary())
def test_arbitrary_bytes_are_preserved(data: bytes) -> None:
    try:
        envelope = parse(b"V1|1|PING|" + data)
    except RefusedError:
        raise AssertionError(data) from None

    joined = b"".join(encoded(each) for each in envelope.args)
    spaces = {encoded(each) for each in WHITE_SPACE}
    rest = data
    for each in spaces:
        rest = rest.replace(each, b"")
        joined = joined.replace(each, b"")
    assert joined == rest


@given(st.binary(max_size=200))
def test_arbitrary_lines_are_an_envelope_or_refused(line: bytes) -> None:
    with suppress(RefusedError):
        assert parse(line).correlation_id


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("007", 7),
        ("-12", -12),
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775808", -(1 << 63)),
    ],
)
def test_numbers_are_parsed_as_go_parses_them(text: str, number: int) -> None:
    assert integer(text, "offset") == number


@pytest.mark.parametrize(
    "text",
    [
        "", "+", "-", "1_000", "0x10", "1.0", "1e3", "٣", "--1",
        "9223372036854775808", "-9223372036854775809", "9" * 5_000,
    ],
)  # fmt: skip
def test_anything_else_is_not_a_number(text: str) -> None:
    with pytest.raises(RefusedError, match=r"^invalid offset$"):
        integer(text, "offset")


def test_a_stored_name_must_be_utf_8() -> None:
    assert name("gruppe-ä", "group") == "gruppe-ä"
    with pytest.raises(RefusedError, match=r"^invalid group"):
        name("\udcff", "group")


def test_lists_and_booleans_are_written_as_go_prints_them() -> None:
    assert (numbers([]), numbers([0, 1, 2]), boolean(True), boolean(False)) == (
        "[]", "[0 1 2]", "true", "false",
    )  # fmt: skip


def test_a_response_without_a_payload_ends_after_ok() -> None:
    assert ok_line("7", "") == b"V1|7|OK\n"
