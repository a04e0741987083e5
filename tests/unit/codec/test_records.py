"""Records as objects, one after another, whose fields are created on access."""

import copy
import gc
import itertools
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.codec import CodecError, Corrupt, LimitExceeded, Record, decode_columns, records
from broker.model.limits import RECORDS_CHUNK_BYTES
from tests.oracles.message_set_oracle import Message
from tests.oracles.record_batch_oracle import Record as WireRecord
from tests.oracles.records_oracle import Row
from tests.support.record_bytes import (
    CODECS,
    COLUMNS,
    GZIP,
    TIMESTAMP,
    batch,
    contents,
    headers,
    marker,
    objects,
    record,
    rows,
    some,
    wrapper,
)

LARGE = [record(i, b"key-%d" % i, b"v" * 100) for i in range(100)]
DATA = (
    batch([WireRecord(5, 0, b"key", None, [(b"name", b"content"), (b"", None)])], 10)
    + some(2, 11)
    + Message(13, None, b"value", timestamp=7).encode()
)


# ---- objects -------------------------------------------------------------------------------------


def test_a_record_has_the_written_fields() -> None:
    first, *_, last = records(DATA)

    assert (first.offset, first.timestamp, first.timestamp_type) == (10, TIMESTAMP + 5, 0)
    assert (first.key, first.value) == (b"key", None)
    assert first.headers == [(b"name", b"content"), (b"", None)]
    assert (last.offset, last.timestamp, last.timestamp_type) == (13, 7, 0)
    assert (last.key, last.value, last.headers) == (None, b"value", [])


parts = st.lists(
    st.lists(
        st.builds(WireRecord, st.integers(0, 9), st.integers(0, 9), contents, contents, headers),
        max_size=4,
    ),
    max_size=5,
)


@given(parts, st.integers(0, 4))
@settings(max_examples=100, deadline=None)
def test_the_objects_equal_the_rows_of_the_columns(
    batches: list[list[WireRecord]], codec: int
) -> None:
    data = b"".join(batch(part, 10 * i, codec=codec) for i, part in enumerate(batches) if part)

    assert objects(data) == rows(decode_columns(data, columns=COLUMNS))


def test_the_representation_names_offset_timestamp_key_and_value() -> None:
    (found,) = records(batch([record(0, b"k" * 100, None)], 5))

    assert repr(found) == (
        f"<Record offset=5 timestamp={TIMESTAMP} key={repr(b'k' * 100)[:40]} value=None>"
    )


def test_control_batches_are_omitted() -> None:
    data = marker(1, 0, is_commit=True) + some(2, 1) + marker(1, 3, is_commit=False)

    assert [each.offset for each in records(data)] == [1, 2]


@pytest.mark.parametrize(
    "field", ["offset", "timestamp", "timestamp_type", "key", "value", "headers"]
)
def test_a_record_that_was_not_read_from_a_batch_has_no_fields(field: str) -> None:
    with pytest.raises(TypeError, match="created by reading"):
        getattr(Record(), field)


def test_a_record_cannot_be_copied() -> None:
    with pytest.raises(TypeError, match="a view of the bytes"):
        copy.copy(next(records(DATA)))


def test_a_field_cannot_be_set() -> None:
    (found,) = records(some(1))

    with pytest.raises(AttributeError):
        found.key = b"other"  # type: ignore[misc]


# ---- lifetimes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [0, *CODECS])
def test_records_outlive_the_iterator_and_the_input(codec: int) -> None:
    def read() -> list[Record]:
        data = bytearray(b"".join(batch(LARGE, 100 * i, codec=codec) for i in range(50)))
        return list(records(data))

    found = read()
    gc.collect()
    junk = [bytes(100_000) for _ in range(50)]

    assert [each.offset for each in found] == list(range(5000))
    assert {each.value for each in found} == {b"v" * 100}
    assert [each.key for each in found[-100:]] == [b"key-%d" % i for i in range(100)]
    assert len(junk) == 50


def test_a_bytearray_cannot_be_resized_while_a_record_references_it() -> None:
    data = bytearray(DATA)
    (first, *_) = records(data)

    with pytest.raises(BufferError):
        data.clear()
    del first, _
    data.clear()


def test_a_freed_record_releases_its_bytes() -> None:
    data = bytearray(DATA)
    for each in records(data):
        assert each.offset >= 10
    del each

    data.clear()


# ---- chunks --------------------------------------------------------------------------------------


def test_many_batches_are_read_a_chunk_at_a_time() -> None:
    data = b"".join(batch(LARGE, 100 * i) for i in range(100))
    assert len(data) > 4 * RECORDS_CHUNK_BYTES

    assert [each.offset for each in records(data)] == list(range(10_000))


@pytest.mark.parametrize("size", [RECORDS_CHUNK_BYTES, 5 * RECORDS_CHUNK_BYTES])
@pytest.mark.parametrize("more", [-100, -61, -10, -1, 0, 1, 100])
def test_a_batch_may_be_larger_than_a_chunk(size: int, more: int) -> None:
    data = some(2) + batch([record(0, b"key", b"v" * (size + more))], 2) + some(2, 3)

    found = list(records(data))

    assert [each.offset for each in found] == [0, 1, 2, 3, 4]
    assert len(found[2].value or b"") == size + more


def test_batches_without_records_are_skipped() -> None:
    empty = batch([])

    assert [each.offset for each in records(empty * 20_000 + some(1, 7) + empty * 20_000)] == [7]


def test_an_incomplete_last_batch_is_omitted() -> None:
    for size in range(len(some(3))):
        assert [each.offset for each in records(some(2) + some(3, 2)[:size])] == [0, 1]


@pytest.mark.parametrize("before", [0, 1, 3000])
@pytest.mark.parametrize(
    "fault",
    [
        some(1, crc=7),
        some(1, record_count=2),
        some(1, magic=5),
        some(1, length=5),
        some(1, attributes=7),
        some(1, codec=GZIP, record_count=2),
        Message(crc=7).encode(),
        wrapper([Message(crc=7)]),
    ],
    ids=["crc", "count", "magic", "length", "codec", "compressed", "message", "wrapper"],
)
def test_an_error_has_its_position_in_the_whole_input(before: int, fault: bytes) -> None:
    data = some(2) * before + fault

    with pytest.raises(CodecError) as caught:
        list(records(data))

    assert caught.value.position == len(some(2)) * before
    assert str(caught.value).endswith(f"at byte {caught.value.position}")


def test_the_chunks_before_an_error_are_returned() -> None:
    data = b"".join(batch(LARGE, 100 * i) for i in range(100)) + some(1, crc=7)
    found: list[int] = []

    with pytest.raises(Corrupt):
        found.extend(each.offset for each in records(data))

    assert found == list(range(len(found)))
    assert len(found) > 5000


def test_an_error_is_raised_again_when_the_iteration_continues() -> None:
    found = records(some(1, crc=7))

    for _ in range(2):
        with pytest.raises(Corrupt):
            next(found)


def test_an_exhausted_iterator_stays_exhausted() -> None:
    found = records(some(1))

    assert len(list(found)) == 1
    assert list(found) == []
    assert iter(found) is found


def test_without_the_crc_check_a_wrong_crc_is_no_error() -> None:
    assert len(list(records(some(2, crc=7), check_crc=False))) == 2


@pytest.mark.parametrize("codec", CODECS)
def test_the_decompressed_size_of_a_chunk_is_limited(codec: int) -> None:
    data = batch(LARGE, codec=codec)
    size = len(batch(LARGE)) - 61

    assert len(list(records(data, bytes_max=size))) == 100
    with pytest.raises(LimitExceeded):
        list(records(data, bytes_max=size - 1))


# ---- input ---------------------------------------------------------------------------------------


def test_any_buffer_of_bytes_is_accepted(tmp_path: Path) -> None:
    expected = objects(DATA)
    (tmp_path / "data").write_bytes(DATA)
    with (tmp_path / "data").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    for buffer in (
        bytearray(DATA),
        memoryview(b"before" + DATA)[6:],
        mapped,
        np.frombuffer(DATA, np.uint8),
        np.frombuffer(DATA + bytes(-len(DATA) % 8), np.int64),
    ):
        assert objects(buffer)[: len(expected)] == expected


@pytest.mark.parametrize("data", [b"", bytearray(), memoryview(b""), np.zeros(0, np.uint8)])
def test_no_bytes_give_no_records(data: Any) -> None:
    assert list(records(data)) == []


@pytest.mark.parametrize(
    "buffer", [memoryview(DATA * 2)[::2], np.frombuffer(DATA * 2, np.uint8)[::2]]
)
def test_a_non_contiguous_buffer_is_refused(buffer: Any) -> None:
    with pytest.raises((BufferError, ValueError, TypeError), match="contiguous"):
        list(records(buffer))


@pytest.mark.parametrize("data", ["text", None, 5])
def test_an_object_without_a_buffer_is_a_type_error(data: Any) -> None:
    with pytest.raises(TypeError):
        list(records(data))


def test_two_iterators_over_the_same_bytes_are_independent() -> None:
    data = some(5)

    pairs = list(itertools.product(records(data), records(data)))

    assert [(one.offset, other.offset) for one, other in pairs] == [
        (one, other) for one in range(5) for other in range(5)
    ]


def test_records_compare_by_their_fields() -> None:
    assert objects(some(1, 3)) == [Row(3, TIMESTAMP, 0, b"k3", b"v0", [])]
