"""Batches and message sets are valid when all of their fields are true."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.codec import CodecError, Corrupt, LimitExceeded, Truncated, Unsupported, validate
from tests.oracles import message_set_oracle as message_set
from tests.oracles.message_set_oracle import Message
from tests.oracles.record_batch_oracle import Record
from tests.support.record_bytes import (
    CODECS,
    GZIP,
    TRANSACTIONAL,
    batch,
    marker,
    of_two,
    record,
    some,
    unfit_message,
    wrapper,
)

SOUND = some(3) + Message(3, b"key", b"value").encode() + wrapper([Message(4), Message(5)])


def test_records_are_counted() -> None:
    assert validate(b"") == 0
    assert validate(batch([])) == 0
    assert validate(SOUND) == 6


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_records_are_counted(codec: int) -> None:
    assert validate(some(5, codec=codec) + some(2, 5)) == 7


def test_control_records_are_counted() -> None:
    data = some(2, producer_id=1, attributes=TRANSACTIONAL) + marker(1, 2, is_commit=True)

    assert validate(data) == 3


def test_offsets_may_have_gaps() -> None:
    assert validate(batch([record(2), record(5)], 10, last_offset_delta=9)) == 2
    assert validate(wrapper([Message(0), Message(5)], offset=7)) == 2


FAULTS: dict[str, tuple[bytes, type[CodecError], str]] = {
    "crc": (some(2, crc=7), Corrupt, "a CRC"),
    "crc, compressed": (some(2, codec=GZIP, crc=7), Corrupt, "a CRC"),
    "crc of a control batch": (marker(1, 0, is_commit=True)[:-1] + b"\1", Corrupt, "a CRC"),
    "crc of a message": (Message(crc=7).encode(), Corrupt, "a CRC"),
    "crc of a wrapper": (wrapper([Message()], crc=7), Corrupt, "a CRC"),
    "crc within a wrapper": (wrapper([Message(crc=7)]), Corrupt, "inner message 0: a CRC"),
    "magic": (some(2, magic=3), Corrupt, "a magic"),
    "length": (some(2, length=48), Corrupt, "a length"),
    "length of a message": (Message(size=13).encode(), Corrupt, "a length"),
    "lengths in a message": (unfit_message(), Corrupt, "counts"),
    "too many": (some(2, record_count=3), Corrupt, "record 2 of 3"),
    "too few": (some(2, record_count=1), Corrupt, "bytes follow"),
    "negative": (some(2, record_count=-1), Corrupt, "-1 records"),
    "too many, compressed": (some(2, codec=GZIP, record_count=3), Corrupt, "record"),
    "too few, compressed": (some(2, codec=GZIP, record_count=1), Corrupt, "bytes follow"),
    "too many by far": (some(2, codec=GZIP, record_count=2**31 - 1), Corrupt, "2147483647"),
    "lengths of a record": (of_two(record(0).encode() + b"\x0e" * 9), Corrupt, "record 1 of 2"),
    "a header without name": (
        batch([Record(0, 0, None, None, [(None, None)])]),  # type: ignore[list-item]
        Corrupt,
        "record 0 of 1",
    ),
    "a lower offset": (batch([record(1), record(0)], last_offset_delta=1), Corrupt, "offset 0"),
    "the same offset": (batch([record(1), record(1)]), Corrupt, "offset 1, expected 2 to 1"),
    "below the base": (batch([record(-1), record(0)], 5), Corrupt, "offset 4, expected 5 to 5"),
    "above the last": (batch([record(0)], last_offset_delta=-1), Corrupt, "offset 0, expected"),
    "a lower offset in a wrapper": (
        wrapper([Message(3), Message(2)], offset=9),
        Corrupt,
        "offset 10, expected .* to 9",
    ),
    "a codec": (some(2, attributes=5), Unsupported, "codec 5"),
    "cut short": (some(2)[:-1], Truncated, "82 bytes are no whole batch"),
    "a message cut short": (Message().encode()[:-1], Truncated, "33 bytes are no whole batch"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_error_has_its_reason_and_position(name: str) -> None:
    fault, kind, reason = FAULTS[name]

    with pytest.raises(kind, match=reason) as caught:
        validate(SOUND + fault)

    assert caught.value.position == len(SOUND)


@given(st.integers(0, 80), st.integers(0, 255), st.integers(0, 4))
@settings(max_examples=300, deadline=None)
def test_no_changed_byte_under_the_crc_is_valid(place: int, change: int, codec: int) -> None:
    data = bytearray(some(5, codec=codec))
    place = 17 + place % (len(data) - 17)
    data[place] ^= change

    if change == 0:
        assert validate(data) == 5
        return
    with pytest.raises(Corrupt):
        validate(data)


@pytest.mark.parametrize("codec", CODECS)
def test_the_decompressed_size_of_a_batch_is_limited(codec: int) -> None:
    data = batch([record(0, None, b"v" * 10_000)], codec=codec)

    assert validate(data, bytes_max=10_100) == 1
    with pytest.raises(LimitExceeded, match="more than the 10000 bytes allowed"):
        validate(data, bytes_max=10_000)


def test_a_message_set_may_have_any_offsets() -> None:
    assert validate(message_set.encode([Message(0), Message(0), Message(-1)])) == 3
