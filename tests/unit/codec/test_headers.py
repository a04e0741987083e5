"""Headers of batches as rows, and the counts of an audit over any number of bytes."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.codec import Audit, BatchHeader, Corrupt, audit, scan_headers
from tests.oracles.message_set_oracle import Message
from tests.oracles.record_batch_oracle import Header
from tests.oracles.records_oracle import wrap
from tests.support.record_bytes import (
    CODECS,
    GZIP,
    INT32,
    INT64,
    LOG_APPEND_TIME,
    TIMESTAMP,
    batch,
    marker,
    of_two,
    some,
    unfit_message,
    wrapper,
)

INT16 = st.integers(-(2**15), 2**15 - 1)
DATA = (
    some(3)
    + Message(3, b"key", b"value", magic=0).encode()
    + wrapper([Message(0, timestamp=5), Message(1, timestamp=6)], offset=5)
    + some(2, 6, codec=GZIP, producer_id=8, producer_epoch=1, base_sequence=4, leader_epoch=7)
)


# ---- scan_headers --------------------------------------------------------------------------------

batch_headers = st.builds(
    Header,
    base_offset=INT64,
    leader_epoch=INT32,
    crc=st.integers(0, 2**32 - 1),
    attributes=INT16,
    last_offset_delta=INT32,
    base_timestamp=INT64,
    max_timestamp=INT64,
    producer_id=INT64,
    producer_epoch=INT16,
    base_sequence=INT32,
    record_count=INT32,
)


@given(st.lists(st.tuples(batch_headers, st.binary(max_size=20)), max_size=80))
@settings(max_examples=100, deadline=None)
def test_a_row_has_the_fields_of_the_header(batches: list[tuple[Header, bytes]]) -> None:
    encoded = [header.encode(payload) for header, payload in batches]

    found = scan_headers(b"".join(encoded))

    assert len(found) == len(batches)
    assert found.end == sum(map(len, encoded))
    position = 0
    for (header, _), data, row in zip(batches, encoded, found, strict=True):
        assert row == BatchHeader(
            position=position,
            base_offset=header.base_offset,
            last_offset=wrap(header.base_offset + header.last_offset_delta),
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp,
            producer_id=header.producer_id,
            size=len(data),
            leader_epoch=header.leader_epoch,
            base_sequence=header.base_sequence,
            record_count=header.record_count,
            crc=header.crc or 0,
            attributes=header.attributes,
            producer_epoch=header.producer_epoch,
            magic=2,
        )
        position += len(data)


def test_a_message_is_reported_as_a_batch_of_one() -> None:
    data = Message(5, b"key", None, timestamp=9, attributes=LOG_APPEND_TIME, crc=77).encode()

    assert list(scan_headers(data)) == [
        BatchHeader(0, 5, 5, 9, 9, -1, len(data), -1, -1, 1, 77, LOG_APPEND_TIME, -1, 1)
    ]


def test_a_message_of_magic_0_has_no_timestamp() -> None:
    (row,) = scan_headers(Message(5, magic=0).encode())

    assert (row.base_timestamp, row.max_timestamp, row.magic) == (-1, -1, 0)


def test_the_number_of_messages_in_a_wrapper_is_unknown() -> None:
    (row,) = scan_headers(wrapper([Message(), Message(1)]))

    assert (row.record_count, row.base_offset, row.last_offset) == (-1, 1, 1)


def test_numpy_returns_the_same_rows() -> None:
    found = scan_headers(DATA)

    array = found.to_numpy()

    assert array.dtype.names == BatchHeader._fields
    assert [tuple(row) for row in array.tolist()] == list(map(tuple, found))
    assert array.dtype.itemsize == 80
    assert not array.flags.writeable


def test_numpy_and_struct_read_the_same_fields() -> None:
    array = scan_headers(DATA).to_numpy()
    row = struct.Struct("=6q4iIhhb7x")

    assert row.size == array.dtype.itemsize
    assert list(row.iter_unpack(array.tobytes())) == array.tolist()
    assert {name: array.dtype[name].str[1:] for name in array.dtype.names or ()} == {
        "position": "i8",
        "base_offset": "i8",
        "last_offset": "i8",
        "base_timestamp": "i8",
        "max_timestamp": "i8",
        "producer_id": "i8",
        "size": "i4",
        "leader_epoch": "i4",
        "base_sequence": "i4",
        "record_count": "i4",
        "crc": "u4",
        "attributes": "i2",
        "producer_epoch": "i2",
        "magic": "i1",
    }


@pytest.mark.parametrize("data", [b"", bytearray(), np.zeros(0, np.uint8)])
def test_no_bytes_have_no_headers(data: Any) -> None:
    found = scan_headers(data)

    assert (len(found), found.end, list(found)) == (0, 0, [])
    assert found.to_numpy().shape == (0,)


def test_a_header_is_accessible_by_its_index() -> None:
    found = scan_headers(DATA)

    assert [found[i] for i in range(len(found))] == list(found)
    assert found[-1] == list(found)[-1]
    for index in (len(found), -len(found) - 1):
        with pytest.raises(IndexError):
            found[index]


def test_an_incomplete_batch_has_no_row() -> None:
    last = some(2, 8)

    for size in range(len(last)):
        found = scan_headers(DATA + last[:size])
        assert (len(found), found.end) == (4, len(DATA))


@pytest.mark.parametrize(
    "fault",
    [some(1, magic=3), some(1, length=48), Message(size=13).encode(), bytes(61), b"\xff" * 61],
    ids=["magic", "length", "message", "zeros", "ones"],
)
def test_bytes_that_begin_neither_a_batch_nor_a_message_are_refused_with_their_position(
    fault: bytes,
) -> None:
    with pytest.raises(Corrupt) as caught:
        scan_headers(DATA + fault)

    assert caught.value.position == len(DATA)


def test_records_are_not_read() -> None:
    data = of_two(b"\xff" * 10, crc=5) + Message(key=b"key", crc=5).encode()[:-5] + b"\xff" * 5

    assert len(scan_headers(data)) == 2


def test_a_non_contiguous_buffer_is_refused() -> None:
    for read in (scan_headers, audit):
        with pytest.raises(BufferError, match="contiguous"):
            read(memoryview(DATA * 2)[::2])


# ---- audit ---------------------------------------------------------------------------------------

COUNTERS = [
    "batches",
    "records",
    "size",
    "compressed_batches",
    "compressed_size",
    "control_batches",
    "transactional_batches",
    "crc_errors",
    "damaged_batches",
    "gaps",
    "missing_offsets",
    "disorders",
    "max_timestamp",
    "min_timestamp",
    "first_offset",
    "next_offset",
    "is_valid",
]


def counts(found: Audit) -> dict[str, int]:
    """Return every counter by its name."""
    return {name: getattr(found, name) for name in COUNTERS}


def of_batches(*parts: bytes) -> dict[str, int]:
    """Return the counts that differ from those of no bytes."""
    nothing = counts(Audit())
    return {
        name: value
        for name, value in counts(audit(b"".join(parts))).items()
        if value != nothing[name]
    }


def test_an_empty_input_has_no_offsets_and_no_timestamps() -> None:
    assert {name: value for name, value in counts(audit(b"")).items() if value != 0} == {
        "max_timestamp": -1,
        "min_timestamp": -1,
        "first_offset": -1,
        "next_offset": -1,
        "is_valid": True,
    }


def test_batches_records_and_bytes_are_counted() -> None:
    assert of_batches(some(3), some(2, 3)) == {
        "batches": 2,
        "records": 5,
        "size": len(some(3) + some(2, 3)),
        "max_timestamp": TIMESTAMP + 2,
        "min_timestamp": TIMESTAMP,
        "first_offset": 0,
        "next_offset": 5,
    }


def test_messages_are_counted_as_batches_of_one() -> None:
    found = of_batches(Message(0, timestamp=5).encode(), Message(1, timestamp=3).encode())

    assert (found["batches"], found["records"], found["next_offset"]) == (2, 2, 2)
    assert (found["min_timestamp"], found["max_timestamp"]) == (3, 5)


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_are_counted_with_their_bytes(codec: int) -> None:
    compressed = some(20, 3, codec=codec)

    found = of_batches(some(3), compressed)

    assert (found["compressed_batches"], found["compressed_size"]) == (1, len(compressed))
    assert found["records"] == 23


def test_messages_within_a_wrapper_are_not_counted() -> None:
    found = of_batches(wrapper([Message(), Message(1)]))

    assert (found["batches"], found["compressed_batches"]) == (1, 1)
    assert "records" not in found


def test_control_and_transactional_batches_are_counted() -> None:
    found = of_batches(some(2, attributes=0x10), marker(1, 2, is_commit=True))

    assert (found["control_batches"], found["transactional_batches"]) == (1, 2)


def test_the_attributes_of_a_message_are_not_transactional() -> None:
    assert of_batches(Message(attributes=0x30).encode()).keys() == {
        "batches",
        "records",
        "size",
        "first_offset",
        "next_offset",
    }


@pytest.mark.parametrize(
    "damaged",
    [some(2, 3, crc=7), some(2, 3, codec=GZIP, crc=7), Message(3, b"k", b"v", crc=7).encode()],
)
def test_a_wrong_crc_is_counted_and_its_header_ignored(damaged: bytes) -> None:
    assert of_batches(some(3), damaged, some(2, 3)) == of_batches(some(3), some(2, 3)) | {
        "batches": 3,
        "size": len(some(3) + damaged + some(2, 3)),
        "crc_errors": 1,
        "is_valid": False,
    }


@pytest.mark.parametrize(
    "damaged",
    [
        some(2, 3, record_count=3),
        some(2, 3, record_count=1),
        some(2, 3, record_count=-1),
        some(2, 3, codec=GZIP, record_count=-1),
        batch([], 3, record_count=-1),
        of_two(b"\xff" * 10, 3),
        of_two(b"", 3),
        unfit_message(3),
    ],
)
def test_records_that_do_not_fit_are_counted_and_their_header_ignored(damaged: bytes) -> None:
    assert of_batches(some(3), damaged, some(2, 3)) == of_batches(some(3), some(2, 3)) | {
        "batches": 3,
        "size": len(some(3) + damaged + some(2, 3)),
        "damaged_batches": 1,
        "is_valid": False,
    }


def test_gaps_and_their_missing_offsets_are_counted() -> None:
    found = of_batches(some(2), some(2, 5), some(2, 7), Message(19).encode())

    assert (found["gaps"], found["missing_offsets"]) == (2, 3 + 10)
    assert "is_valid" not in found


def test_before_a_wrapper_no_gap_can_be_counted() -> None:
    found = of_batches(some(2), wrapper([Message(), Message(1)], offset=3), some(1, 4))

    assert "gaps" not in found
    assert found["next_offset"] == 5


def test_batches_that_begin_before_the_end_of_the_previous_are_counted() -> None:
    found = of_batches(some(3), some(3, 2), some(1, 5))

    assert found["disorders"] == 1
    assert found["is_valid"] is False


@given(st.lists(st.tuples(INT64, INT32, INT64, INT64), max_size=20))
@settings(max_examples=200, deadline=None)
def test_no_header_makes_a_counter_overflow(
    headers: list[tuple[int, int, int, int]],
) -> None:
    data = b"".join(
        Header(
            base_offset=offset,
            last_offset_delta=delta,
            base_timestamp=base,
            max_timestamp=largest,
            record_count=0,
        ).encode(b"")
        for offset, delta, base, largest in headers
    )

    found = audit(data)

    assert found.batches == len(headers)
    assert found.missing_offsets >= 0
    if headers:
        assert found.min_timestamp == min(base for *_, base, _ in headers)
        assert found.max_timestamp == max(-1, *(largest for *_, largest in headers))
        assert found.first_offset == headers[0][0]


def test_the_count_of_missing_offsets_saturates() -> None:
    far = some(1, 2**63 - 10)

    found = audit((some(1) + far) * 3)

    assert (found.gaps, found.disorders) == (3, 2)
    assert found.missing_offsets == 2**63 - 1


@pytest.mark.parametrize("size", [1, 7, 60, 100, 1000])
def test_counting_continues_over_later_bytes(size: int) -> None:
    whole = DATA + some(3, 20, crc=7) + some(2, 30) + DATA
    state = None
    given = b""
    for start in range(0, len(whole), size):
        given += whole[start : start + size]
        before = 0 if state is None else state.size
        state = audit(given[before:], state)

    assert state is not None
    assert counts(state) == counts(audit(whole))


def test_the_state_is_updated_and_returned() -> None:
    state = audit(some(3))

    assert audit(some(2, 3), state) is state
    assert state.records == 5


def test_an_incomplete_batch_is_not_counted() -> None:
    for size in range(len(some(2, 3))):
        assert counts(audit(some(3) + some(2, 3)[:size])) == counts(audit(some(3)))


def test_bytes_that_begin_neither_a_batch_nor_a_message_end_the_count_but_keep_it() -> None:
    state = Audit()

    with pytest.raises(Corrupt) as caught:
        audit(some(3) + bytes(61), state)

    assert caught.value.position == state.size == len(some(3))
    assert state.records == 3


def test_the_representation_shows_the_important_counts() -> None:
    assert repr(audit(some(3))) == (
        f"<Audit 3 records in 1 batches, {len(some(3))} bytes, offsets 0 to 3, "
        "0 CRC errors, 0 damaged, 0 gaps, 0 disorders>"
    )
