"""The decoder itself, under an decompress that does what no library of ours does."""

import itertools
import struct
from collections.abc import Callable
from typing import Any

import pytest

from broker._native.records.column_decoder import COLUMN_NAMES, decode_columns
from broker.codec import Columns, Corrupt, LimitExceeded, Unsupported
from tests.oracles.message_set_oracle import Message
from tests.oracles.record_batch_oracle import Header, Record, varint
from tests.support.record_bytes import contents_of, numbers, record, rows, some

GIB = 1 << 30
Decompress = Callable[[int, memoryview, memoryview], int]


def decode(data: Any, decompress: Decompress, **options: Any) -> Columns:
    """Return all columns; compressed batches are decompressed by the given function."""
    options.setdefault("bytes_max", 1 << 20)
    return Columns(*decode_columns(data, COLUMN_NAMES, decompress, **options))


def copied(codec: int, data: memoryview, output: memoryview) -> int:
    """Return the data unchanged, as if decompressed."""
    if len(data) > len(output):
        raise LimitExceeded(f"{len(data)} bytes into {len(output)}")
    output[: len(data)] = data
    return len(data)


def compressed(parts: list[Record], base_offset: int = 0) -> bytes:
    """Return a batch that claims to be compressed."""
    payload = b"".join(part.encode() for part in parts)
    header = Header(
        base_offset=base_offset,
        attributes=1,
        last_offset_delta=len(parts) - 1,
        record_count=len(parts),
    )
    return header.encode(payload)


# ---- what decompress is given, and what it may do ------------------------------------------------


def test_decompress_receives_the_codec_the_records_and_an_output_buffer() -> None:
    seen: list[tuple[int, bytes, bool, bool]] = []

    def decompress(codec: int, data: memoryview, output: memoryview) -> int:
        seen.append((codec, bytes(data), data.readonly, output.readonly))
        return copied(codec, data, output)

    parts = [record(0), record(1)]
    decode(compressed(parts), decompress)

    assert seen == [(1, b"".join(part.encode() for part in parts), True, False)]


@pytest.mark.parametrize("count", [-1, -(2**31), 1 << 40])
def test_an_impossible_size_returned_by_decompress_is_an_internal_error(count: int) -> None:
    with pytest.raises((SystemError, OverflowError)):
        decode(compressed([record(0)]), lambda *_: count)


def test_an_error_raised_by_decompress_carries_the_position_of_the_batch() -> None:
    def decompress(*_: object) -> int:
        raise Unsupported("not today", 5)

    with pytest.raises(Unsupported, match="batch: not today at byte 83") as caught:
        decode(some(2) + compressed([record(0)]), decompress)

    assert caught.value.position == len(some(2))


def test_an_exception_of_decompress_that_is_not_a_codec_error_propagates() -> None:
    def decompress(*_: object) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        decode(compressed([record(0)]), decompress)


def test_the_output_buffer_doubles_until_a_batch_fits_or_the_limit_is_reached() -> None:
    rooms: list[int] = []

    def decompress(codec: int, data: memoryview, output: memoryview) -> int:
        rooms.append(len(output))
        raise LimitExceeded("never enough")

    with pytest.raises(LimitExceeded, match="more than the 1000000 bytes allowed"):
        decode(compressed([record(0)]), decompress, bytes_max=1_000_000)

    assert rooms[-1] == 1_000_000
    assert len(rooms) < 12
    assert all(after > before for before, after in itertools.pairwise(rooms))


def test_batches_decompressed_earlier_survive_a_move_of_the_buffer() -> None:
    parts = [[Record(0, 0, b"%d" % i, bytes([i]) * 1000, [(b"h", b"%d" % i)])] for i in range(50)]
    content = b"".join(compressed(part, i) for i, part in enumerate(parts))
    calls = 0

    def decompress(codec: int, data: memoryview, output: memoryview) -> int:
        nonlocal calls
        calls += 1
        if calls % 3 and len(output) < 1 << 19:
            raise LimitExceeded("more room, please")
        return copied(codec, data, output)

    columns = decode(content, decompress)

    assert [row[:1] + row[3:] for row in rows(columns)] == [
        (i, *part[0][2:]) for i, part in enumerate(parts)
    ]


# ---- bytes that change while they are read -------------------------------------------------------


@pytest.mark.parametrize("place", range(61))
@pytest.mark.parametrize("value", [0, 1, 0x7F, 0xFF])
@pytest.mark.parametrize(
    "behind",
    [
        some(3, 1),
        compressed([record(0)], 1),
        Message(1, b"key", b"value" * 5).encode(),
        Message(1, b"key", b"value" * 5, attributes=1).encode(),
    ],
    ids=["batch", "compressed", "message", "wrapper"],
)
def test_bytes_that_change_after_validation_are_rows_or_corrupt(
    place: int, value: int, behind: bytes
) -> None:
    first = compressed([record(0)])
    data = bytearray(first + behind)
    if place >= len(behind):
        return

    def decompress(codec: int, source: memoryview, output: memoryview) -> int:
        data[len(first) + place] = value
        return copied(codec, source, output)

    try:
        columns = decode(data, decompress, check_crc=False)
    except Corrupt as error:
        caught = error
    else:
        assert len(rows(columns)) >= 1
        return
    assert caught.position in {None, 0, len(first)}


@pytest.mark.parametrize("length", [-1, 0, 49, 100, 2**30])
def test_a_length_that_changes_after_validation_is_corrupt(length: int) -> None:
    first = compressed([record(0)])
    data = bytearray(first + some(3, 1) + some(3, 4))

    def decompress(codec: int, source: memoryview, output: memoryview) -> int:
        data[len(first) + 8 : len(first) + 12] = struct.pack(">i", length)
        return copied(codec, source, output)

    with pytest.raises(Corrupt):
        decode(data, decompress)


def test_a_count_that_changes_after_validation_allocates_no_memory() -> None:
    first = compressed([record(0)])
    data = bytearray(first + some(3, 1))

    def decompress(codec: int, source: memoryview, output: memoryview) -> int:
        data[len(first) + 57 : len(first) + 61] = struct.pack(">i", 2**31 - 1)
        return copied(codec, source, output)

    with pytest.raises(Corrupt, match="2147483647 records in"):
        decode(data, decompress, check_crc=False)


def test_the_input_cannot_be_resized_while_it_is_read() -> None:
    data = bytearray(compressed([record(0)]))

    def decompress(codec: int, source: memoryview, output: memoryview) -> int:
        with pytest.raises(BufferError):
            data.clear()
        return copied(codec, source, output)

    assert len(decode(data, decompress)) == 1


# ---- 2 GiB ---------------------------------------------------------------------------------------


def huge(size: int) -> Decompress:
    """Unfold to a record of so many bytes of which nearly all are left as they are: zeros."""

    def decompress(codec: int, data: memoryview, output: memoryview) -> int:
        if len(data) > 8:
            return copied(codec, data, output)
        # Length of the record, attributes, time, offset, no key, length of the value, no headers.
        value = size - 5 - 5 - 5
        head = varint(size - 5) + b"\0\0\0\1" + varint(value)
        if size > len(output):
            raise LimitExceeded("too small")
        output[: len(head)] = head
        output[size - 1] = 0
        return size

    return decompress


def test_spans_are_limited_to_31_bits() -> None:
    size = 2 * GIB - 1 - 400
    first = Header(attributes=1).encode(b"huge")
    last = compressed([Record(0, i, b"k%d" % i, b"v%d" % i, [(b"h", b"x")]) for i in range(10)], 1)

    columns = decode(first + last, huge(size), bytes_max=4 * GIB)

    assert numbers(columns, "value_length")[0] == size - 15
    assert contents_of(columns, "key") == [None, *(b"k%d" % i for i in range(10))]
    data = memoryview(columns.data)
    starts, lengths = numbers(columns, "value_start"), numbers(columns, "value_length")
    assert [bytes(data[starts[i] : starts[i] + lengths[i]]) for i in range(1, 11)] == [
        b"v%d" % i for i in range(10)
    ]
    assert contents_of(columns, "header_key") == [b"h"] * 10
    assert min(numbers(columns, "header_value_start")) > 2 * GIB - 500


def test_decompressed_data_stays_below_2_gib() -> None:
    first = Header(attributes=1).encode(b"huge")

    with pytest.raises(LimitExceeded) as caught:
        decode(first * 2, huge(2 * GIB - 1000), bytes_max=4 * GIB)

    assert caught.value.position == len(first)


def test_copied_data_stays_below_2_gib_too() -> None:
    first = Header(attributes=1).encode(b"huge")

    with pytest.raises(LimitExceeded) as caught:
        decode(first + some(500, 1), huge(2 * GIB - 1000), bytes_max=4 * GIB)

    assert caught.value.position == len(first)
