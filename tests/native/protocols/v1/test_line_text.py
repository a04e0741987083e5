"""Values in a CONSUME line: unchanged, or encoded so that nothing is lost."""

import re
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.protocols.v1.line_text import escape_value
from broker.protocols.v1.commands import WHITE_SPACE
from tests.oracles import carried_oracle

LETTERS = st.sampled_from(
    ["a", "hw", "=", ",", "%", "\xa0", "\u2003", "\u2060", "€", "😀", "\x7f", "\x80"]
)
PIECES = st.binary(max_size=4) | LETTERS.map(str.encode)
VALUES = st.lists(PIECES, max_size=12).map(b"".join)


@pytest.mark.parametrize(
    "value", [b"", b"a", b"a:b|c=d", b"hw", b"h|w=", b"100%", b"%2C", "grün€😀".encode()]
)
def test_characters_allowed_in_a_line_are_unchanged(value: bytes) -> None:
    assert escape_value(value) == (value, False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"a,b", b"a%2Cb"),
        (b"x,7:y", b"x%2C7:y"),
        (b"hw=7", b"hw%3D7"),
        (b"a=b,c", b"a%3Db%2Cc"),
        (b"50%,b", b"50%25%2Cb"),
        (b"a b", b"a%20b"),
        (b"a\r\nV1|2|OK|x", b"a%0D%0AV1|2|OK|x"),
        (b"\x00\x1f\x7f", b"%00%1F%7F"),
        ("ä\u2003".encode(), "ä%E2%80%83".encode()),
        ("\x85\xa0".encode(), b"%C2%85%C2%A0"),
        (b"\xff\xfe", b"%FF%FE"),
        (b"\xe2\x80a", b"%E2%80a"),
        (b"\xe2\x80", b"%E2%80"),
        (b"\xed\xa0\x80", b"%ED%A0%80"),
        (b"\xc0\xaf", b"%C0%AF"),
        (b"\xe0\x80\x80", b"%E0%80%80"),
        (b"\xf0\x80\x80\x80", b"%F0%80%80%80"),
        (b"\xf4\x90\x80\x80", b"%F4%90%80%80"),
        (b"\xf5\x80\x80\x80", b"%F5%80%80%80"),
        (b"\xf0\xe2\x80\x80", b"%F0%E2%80%80"),
    ],
)
def test_characters_not_allowed_in_a_line_are_percent_encoded(value: bytes, text: bytes) -> None:
    assert escape_value(value) == (text, True)


@pytest.mark.parametrize("space", [each.encode() for each in WHITE_SPACE])
def test_all_kinds_of_white_space_are_encoded(space: bytes) -> None:
    assert escape_value(space) == (b"".join(b"%%%02X" % byte for byte in space), True)


@given(VALUES)
def test_the_encoding_equals_the_python_oracles(value: bytes) -> None:
    assert escape_value(value) == carried_oracle.carried(value)


@given(VALUES)
def test_any_value_can_be_restored_and_none_breaks_the_line(value: bytes) -> None:
    text, is_encoded = escape_value(value)

    assert (unquote_to_bytes(text) if is_encoded else text) == value
    assert not re.search(f"[\x00-\x1f\x7f,{WHITE_SPACE}]|hw=", text.decode())
