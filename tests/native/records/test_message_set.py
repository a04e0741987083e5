"""The native writer of message sets: what its callers may do with it."""

import array
import threading
from typing import Any

import pytest

from broker._native.records.column_source import ColumnSource
from broker._native.records.message_set import encode_message, encode_messages
from broker.model.errors import Corrupt, LimitExceeded

DATA = bytes(range(16))


def int32(*values: int) -> "array.array[int]":
    return array.array("i", values)


def source_of(lengths: "array.array[int]", *offsets: int) -> ColumnSource:
    source = ColumnSource(len(lengths))
    source.spans("value", DATA, int32(*[0] * len(lengths)), lengths)
    if offsets:
        source.offsets(array.array("q", offsets))
    return source


@pytest.mark.parametrize("magic", [-1, 2, 2**31 - 1])
def test_only_magic_0_and_1_are_written(magic: int) -> None:
    with pytest.raises(ValueError, match="expected 0 or 1"):
        encode_messages(source_of(int32(1), 0), magic=magic)
    with pytest.raises(ValueError, match="expected 0 or 1"):
        encode_message(b"", magic=magic, attributes=0, offset=0, timestamp=0)


def test_a_message_needs_an_offset() -> None:
    with pytest.raises(ValueError, match="offset"):
        encode_messages(source_of(int32(1)), magic=0)


def test_no_rows_make_no_bytes() -> None:
    assert encode_messages(ColumnSource(0), magic=0) == b""


@pytest.mark.parametrize(("magic", "size"), [(0, 26), (1, 34)])
def test_an_empty_message_has_the_smallest_size(magic: int, size: int) -> None:
    assert len(encode_messages(source_of(int32(-1), 5), magic=magic)) == size
    assert len(encode_message(b"", magic=magic, attributes=0, offset=0, timestamp=0)) == size


def test_relative_offsets_count_from_the_first_message() -> None:
    found = encode_messages(source_of(int32(0, 0), -(2**63), 2**63 - 1), magic=1, are_relative=True)

    assert [found[:8], found[34:42]] == [bytes(8), b"\xff" * 8]


def test_a_row_outside_its_buffer_is_named() -> None:
    with pytest.raises(Corrupt, match="row 1: its value"):
        encode_messages(source_of(int32(1, 17), 0, 1), magic=0)


def test_a_set_above_the_limit_is_refused_before_it_is_allocated() -> None:
    source = source_of(int32(1, 1), 0, 1)

    assert len(encode_messages(source, magic=0, bytes_max=54)) == 54
    with pytest.raises(LimitExceeded, match="row 1: a message set of 54 bytes or more"):
        encode_messages(source, magic=0, bytes_max=53)


@pytest.mark.parametrize("limit", [-1, 2**30 + 1])
def test_a_limit_below_any_set_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="expected at most"):
        encode_messages(source_of(int32(1), 0), magic=0, bytes_max=limit)


def test_columns_changed_while_they_are_encoded_are_written_whole_or_refused() -> None:
    count = 2_000
    lengths = int32(*[1] * count)
    source = source_of(lengths, *range(count))
    stop = threading.Event()

    def change() -> None:
        size = 0
        while not stop.is_set():
            size = (size + 7) % 20 - 3
            for row in range(0, count, 7):
                lengths[row] = size

    changing = threading.Thread(target=change)
    changing.start()
    outcomes: list[Any] = []
    try:
        for _ in range(200):
            try:
                outcomes.append(len(encode_messages(source, magic=1)))
            except Corrupt as error:
                outcomes.append(str(error))
    finally:
        stop.set()
        changing.join()
    assert len(outcomes) == 200
