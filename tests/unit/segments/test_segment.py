"""One segment file: chunks of whole batches, lookups, and where it ends."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from broker._native.kernel.checksum import crc32c
from broker._native.log import recovery
from broker.model import limits
from broker.model.errors import Corrupt, Truncated
from broker.segments import Batch, End, Segment
from tests.support.native_log import appended, records
from tests.support.segment_files import (
    batches_of,
    first_as_new,
    first_at,
    folder_for_an_example,
    open_files,
    segment_files,
    write,
    write_ascending,
    writing,
)

BATCH = records(10, size=90)  # 1,051 bytes
ENOUGH_FOR_A_TAIL = 4 * limits.TAIL_RESERVE_AFTER_BYTES // len(BATCH)
COUNT = 40
BASE = 100
ENTRY_SIZE = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One segment of 40 batches of 10 records, with 19 index entries."""
    return write_ascending(tmp_path_factory.mktemp("log"), COUNT, segment_bytes_max=1 << 20)


@pytest.fixture
def file(folder: Path, tmp_path: Path) -> Path:
    """The segment, for one test."""
    return copied(folder, tmp_path)


def copied(folder: Path, path: Path) -> Path:
    [file] = segment_files(Path(shutil.copytree(folder, path / folder.name)))
    return file


@pytest.fixture
def segment(file: Path) -> Iterator[Segment]:
    """Lend the segment, open."""
    with Segment(file) as segment:
        yield segment


def content(segment: Segment, bytes_max: int = 5_000, **bounds: Any) -> bytes:
    """Return all chunks, one after another."""
    return b"".join(bytes(chunk.data) for chunk in segment.chunks(bytes_max, **bounds))


def overwrite(file: Path, position: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(data)


def drop_indexes(file: Path) -> None:
    file.with_suffix(".index").unlink()
    file.with_suffix(".timeindex").unlink()


# ---- chunks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_max", [1, 1051, 1052, 5_000, 20_000, 1 << 20])
@pytest.mark.parametrize("is_indexed", [True, False])
def test_chunks_are_whole_batches_that_make_up_the_file(
    file: Path, bytes_max: int, is_indexed: bool
) -> None:
    if not is_indexed:
        drop_indexes(file)
    starts = {batch.position for batch in batches_of(file)}

    with Segment(file) as segment:
        chunks = list(segment.chunks(bytes_max))

    assert b"".join(bytes(chunk.data) for chunk in chunks) == file.read_bytes()
    assert {chunk.position for chunk in chunks} <= starts
    assert all(chunk.data.size <= max(bytes_max, len(BATCH)) for chunk in chunks)
    assert len(chunks) == -(-COUNT // max(1, bytes_max // len(BATCH)))


def test_a_chunk_has_its_offset_range(segment: Segment) -> None:
    chunks = list(segment.chunks(5_000))

    assert [(chunk.base_offset, chunk.next_offset) for chunk in chunks] == [
        (offset, offset + 40) for offset in range(0, 400, 40)
    ]
    assert {chunk.segment for chunk in chunks} == {0}


def test_a_chunk_is_a_read_only_array_of_bytes(segment: Segment) -> None:
    [chunk] = segment.chunks()

    assert type(chunk.data) is np.ndarray
    assert chunk.data.dtype == np.uint8
    assert chunk.data.ndim == 1
    with pytest.raises(ValueError, match="read-only"):
        chunk.data[0] = 1


def test_a_batch_larger_than_a_chunk_is_returned_alone(tmp_path: Path) -> None:
    small, large = records(1), records(100, size=100)
    [file] = segment_files(write(tmp_path, [small, large, small]))

    with Segment(file) as segment:
        sizes = [chunk.data.size for chunk in segment.chunks(1_000)]

    assert sizes == [len(small), len(large), len(small)]


def test_a_chunk_size_must_be_positive(segment: Segment) -> None:
    with pytest.raises(ValueError, match="bytes_max: 0"):
        segment.chunks(0)


@pytest.mark.parametrize("start", [0, 1, 55, 60, 399])
def test_chunks_begin_with_the_batch_that_contains_the_start_offset(
    segment: Segment, start: int
) -> None:
    assert next(segment.chunks(start_offset=start)).base_offset == start // 10 * 10


def test_a_start_at_the_end_returns_no_chunks(segment: Segment) -> None:
    assert list(segment.chunks(start_offset=400)) == []


@pytest.mark.parametrize("end", range(0, 401, 10))
def test_chunks_never_exceed_the_end_offset(segment: Segment, end: int) -> None:
    chunks = list(segment.chunks(5_000, end_offset=end))

    assert sum(chunk.data.size for chunk in chunks) == end // 10 * len(BATCH)


@pytest.mark.parametrize("end", [41, 45, 49])  # the index has 49
def test_an_end_offset_within_a_batch_is_refused_when_it_is_reached(
    segment: Segment, end: int
) -> None:
    chunks = segment.chunks(end_offset=end)

    assert next(chunks).next_offset == 40
    with pytest.raises(ValueError, match=f"end_offset: {end} is inside of the batch 40 to 49"):
        next(chunks)


@pytest.mark.parametrize("end", [0, 1, 1050, 1051, 1052, 5_000, 20_000, 42_039, 42_040, 1 << 30])
def test_chunks_never_exceed_the_end_position(segment: Segment, end: int) -> None:
    data = content(segment, 4_000, end_position=end)

    assert len(data) == min(end, COUNT * len(BATCH)) // len(BATCH) * len(BATCH)


def test_chunks_can_be_copies(segment: Segment, file: Path) -> None:
    [chunk] = segment.chunks(copy=True)
    os.truncate(file, 0)

    assert chunk.data.size == COUNT * len(BATCH)
    assert bytes(chunk.data).startswith(BATCH[:8])


# ---- while it is written to -------------------------------------------------------------------


def test_batches_appended_between_chunks_are_returned_too(tmp_path: Path) -> None:
    with writing(tmp_path) as (logs, log):
        appended(log, BATCH)
        logs.sync(log)
        with Segment(*segment_files(logs.folder())) as segment:
            chunks = segment.chunks(1)
            bases = [next(chunks).base_offset]
            for _ in range(200):  # beyond the tail that was reserved first
                appended(log, BATCH)
                logs.sync(log)
                bases.append(next(chunks).base_offset)
            rest = list(chunks)

    assert bases == list(range(0, 2010, 10))
    assert rest == []


def test_the_reserved_tail_is_not_a_batch(tmp_path: Path) -> None:
    count = ENOUGH_FOR_A_TAIL
    [file] = segment_files(write(tmp_path, [BATCH] * count, close=False))
    assert file.stat().st_size > count * len(BATCH)

    with Segment(file) as segment:
        assert len(content(segment)) == count * len(BATCH)
        assert segment.end() == End(0, count * len(BATCH), 10 * count, "")


def test_a_tail_truncated_ahead_of_a_reader_is_never_accessed(
    tmp_path: Path,
) -> None:
    with writing(tmp_path) as (logs, log):
        for _ in range(ENOUGH_FOR_A_TAIL):
            appended(log, BATCH)
        logs.sync(log)
        [file] = segment_files(logs.folder())
        assert file.stat().st_size > log.size
        with Segment(file) as segment:
            chunks = segment.chunks(1)
            first = next(chunks)  # maps the file with its tail
            recovery.close(log)

            assert segment.size == log.size == file.stat().st_size
            offsets = [chunk.base_offset for chunk in (first, *chunks)]
            assert offsets == list(range(0, 10 * ENOUGH_FOR_A_TAIL, 10))


def torn(batch: bytes) -> list[bytes]:
    """Return a batch in states that a reader may see during a write; the rest reads as zeros."""
    cuts = [1, 8, 12, 16, 17, 21, 60, 61, 62, len(batch) // 2, len(batch) - 2]  # the last is 0
    return [batch[:cut] for cut in cuts]


@pytest.mark.parametrize("piece", torn(records(10, size=90, base_offset=400)), ids=len)
@pytest.mark.parametrize("reserve", [0, 10_000])
def test_a_torn_batch_ends_the_chunks(file: Path, piece: bytes, reserve: int) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole + piece + bytes(reserve))

    with Segment(file) as segment:
        assert content(segment) == whole
        assert content(segment, 1) == whole
        assert segment.end()[:3] == (0, len(whole), 400)
        assert segment.locate(400) is None


def backwards(batch: bytes) -> bytes:
    """Return a valid batch except for its last offset delta of -2."""
    covered = batch[21:23] + (-2).to_bytes(4, signed=True) + batch[27:]
    return batch[:17] + crc32c(covered).to_bytes(4) + covered


@pytest.mark.parametrize(
    ("behind", "reason"),
    [
        (b"", ""),
        (bytes(100), ""),
        (b"garbage" * 20, "batch: a length that no batch has"),
        (records(1, base_offset=399), "a batch of offset 399, expected 400 or more"),
        (records(2, base_offset=400)[:-1], "a batch cut short"),
        (records(2, base_offset=400)[:-1] + b"!", "a batch whose CRC does not fit"),
        (backwards(records(2, base_offset=400)), "a batch of offsets 400 to 398"),
    ],
)
def test_the_end_states_its_reason(file: Path, behind: bytes, reason: str) -> None:
    with file.open("ab") as opened:
        opened.write(behind)

    with Segment(file) as segment:
        assert segment.end() == End(0, COUNT * len(BATCH), 400, reason)


def test_a_torn_batch_is_returned_once_it_is_complete(file: Path) -> None:
    more = records(2, base_offset=400)
    whole = file.read_bytes()
    file.write_bytes(whole + more[:70] + bytes(1_000))
    with Segment(file) as segment:
        assert content(segment) == whole

        overwrite(file, len(whole), more)

        assert content(segment) == whole + more


@pytest.mark.parametrize("copy", [True, False])
def test_a_file_truncated_below_a_readers_position_is_refused(file: Path, copy: bool) -> None:
    with Segment(file) as segment:
        chunks = segment.chunks(20_000, copy=copy)
        next(chunks)

        os.truncate(file, 10 * len(BATCH))

        with pytest.raises(Truncated, match="cut to 10510 bytes while it was read"):
            next(chunks)


@pytest.mark.parametrize("copy", [True, False])
def test_a_file_truncated_while_a_chunk_is_located_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, copy: bool
) -> None:
    with Segment(file) as segment:
        list(segment.chunks(copy=copy))  # maps it
        find = segment._next_run

        def find_and_cut(*arguments: Any) -> Any:
            found = find(*arguments)
            os.truncate(file, 10_000)
            return found

        monkeypatch.setattr(segment, "_next_run", find_and_cut)

        with pytest.raises(Truncated, match="cut to 10000 bytes while it was read"):
            next(segment.chunks(copy=copy))


@pytest.mark.parametrize("size", [0, 10_000])
def test_a_file_truncated_before_it_is_mapped_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    with Segment(file) as segment:
        find = segment._next_run

        def find_and_cut(*arguments: Any) -> Any:
            found = find(*arguments)
            os.truncate(file, size)
            return found

        monkeypatch.setattr(segment, "_next_run", find_and_cut)

        with pytest.raises(Truncated, match=f"cut to {size} bytes while it was read"):
            next(segment.chunks())


def test_a_file_truncated_ahead_of_a_reader_ends_there(file: Path) -> None:
    with Segment(file) as segment:
        chunks = segment.chunks(5_000)
        next(chunks)

        os.truncate(file, 10 * len(BATCH))

        assert [chunk.next_offset for chunk in chunks] == [80, 100]


def test_bytes_that_are_not_a_batch_are_corrupt_if_batches_follow(file: Path) -> None:
    overwrite(file, 5 * len(BATCH) + 8, b"\xff\xff\xff\xff")

    with Segment(file) as segment:
        with pytest.raises(
            Corrupt, match="a length that no batch has, followed by batches"
        ) as caught:
            list(segment.chunks(1))
        assert caught.value.position == 5 * len(BATCH)


def test_an_index_does_not_hide_a_batch_with_offsets_above_the_following_ones(
    file: Path,
) -> None:
    overwrite(file, 0, (1 << 40).to_bytes(8, "big"))

    with Segment(file) as segment, pytest.raises(Corrupt, match="a batch of offset"):
        list(segment.chunks(1 << 20))


def test_a_batch_after_a_damaged_message_is_found(tmp_path: Path) -> None:
    message = LegacyRecordBatchBuilder(0, 0, 1 << 20)
    for offset in (0, 1):
        message.append(offset, 0, b"key", bytes(100))
    damaged = bytearray(message.build())
    damaged[25 + len(b"key")] += 1  # the first value's length, not seen by a header check
    file = tmp_path / f"{0:020}.log"
    file.write_bytes(damaged)

    with Segment(file) as segment:
        found = segment.locate(1)

    assert found is not None
    assert (found.position, found.base_offset) == (len(damaged) // 2, 1)


def test_an_index_entry_for_batches_written_since_is_not_a_sign_of_damage(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = file.read_bytes()
    overwrite(file, 5 * len(BATCH), bytes(len(whole) - 5 * len(BATCH)))  # not written yet
    with Segment(file) as segment:
        look = segment._has_batches_after

        def write_and_look(position: int) -> bool:
            overwrite(file, 0, whole)
            return look(position)

        monkeypatch.setattr(segment, "_has_batches_after", write_and_look)

        assert content(segment) == whole


# ---- lookups ----------------------------------------------------------------------------------


def test_every_offset_is_found_in_its_batch(segment: Segment, file: Path) -> None:
    batches = batches_of(file)

    for offset in range(-5, 405):
        found, expected = segment.locate(offset), first_at(batches, offset)
        assert (found and found.position) == (expected and expected.position)


def test_every_timestamp_is_found_in_the_first_batch_at_or_after_it(
    segment: Segment, file: Path
) -> None:
    batches = batches_of(file)

    for timestamp in range(-2, COUNT + 2):
        found, expected = segment.locate_time(timestamp), first_as_new(batches, timestamp)
        assert (found and found.position) == (expected and expected.position)


def test_a_located_batch_has_the_fields_of_its_header(segment: Segment) -> None:
    assert segment.locate(25) == Batch(0, 2 * len(BATCH), len(BATCH), 20, 29, 2)


def test_an_empty_segment_has_no_batches(tmp_path: Path) -> None:
    file = tmp_path / f"{BASE:020}.log"
    file.touch()

    with Segment(file) as segment:
        assert list(segment.chunks()) == []
        assert segment.locate(BASE) is None
        assert segment.locate_time(0) is None
        assert segment.end() == End(BASE, 0, BASE, "")
        assert len(segment.offset_index) == len(segment.time_index) == 0


# ---- indexes ----------------------------------------------------------------------------------


def test_the_offset_index_is_a_structured_array(segment: Segment) -> None:
    entries = segment.offset_index

    assert entries.dtype == np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
    assert [tuple(entry) for entry in entries[:2].tolist()] == [(29, 2102), (49, 4204)]
    assert entries["position"].tolist() == [
        (place // 10) * len(BATCH) for place in entries["relative_offset"].tolist()
    ]


def test_the_time_index_is_a_structured_array(segment: Segment) -> None:
    entries = segment.time_index

    assert entries.dtype == np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
    assert [tuple(entry) for entry in entries[:2].tolist()] == [(2, 29), (4, 49)]


@pytest.mark.parametrize("reserved", [1, 8, 12, 10 << 20])
def test_the_reserved_tail_of_an_index_is_omitted(file: Path, reserved: int) -> None:
    with Segment(file) as segment:
        offsets, times = segment.offset_index.tolist(), segment.time_index.tolist()
    for suffix in (".index", ".timeindex"):
        with file.with_suffix(suffix).open("ab") as index:
            index.write(bytes(reserved))

    with Segment(file) as segment:
        assert segment.offset_index.tolist() == offsets
        assert segment.time_index.tolist() == times


def test_an_index_that_grows_is_read_again(tmp_path: Path) -> None:
    with writing(tmp_path, index_interval_bytes=1) as (logs, log):
        appended(log, BATCH)
        logs.sync(log)
        with Segment(*segment_files(logs.folder())) as segment:
            lengths = [len(segment.offset_index)]
            for _ in range(2):
                for _ in range(5):
                    appended(log, BATCH)
                recovery.close(log)
                lengths.append(len(segment.offset_index))

    assert lengths == [0, 5, 10]


SMALL_INT = st.integers(-3, 40_000)


@st.composite
def harmed(draw: st.DrawFn, index: bytes, entry_size: int) -> bytes:
    """Return an index file after some damage."""
    kind = draw(st.sampled_from(["cut", "longer", "overwritten", "numbers", "zeros"]))
    if kind == "cut":
        return index[: draw(st.integers(0, len(index)))]
    if kind == "longer":
        return index + draw(st.binary(max_size=3 * entry_size))
    if kind == "zeros":
        return bytes(draw(st.integers(0, 1_000)))
    position = draw(st.integers(0, len(index) - 1))
    if kind == "numbers":  # in range, and mostly wrong
        number = draw(SMALL_INT).to_bytes(4, signed=True)
        position -= position % 4
        return index[:position] + number + index[position + 4 :]
    noise = draw(st.binary(min_size=1, max_size=40))
    return (index[:position] + noise + index[position + len(noise) :])[: len(index)]


@given(data=st.data())
@settings(deadline=None, max_examples=100)
def test_a_wrong_index_changes_no_result(folder: Path, data: st.DataObject) -> None:
    with folder_for_an_example() as path:
        file = copied(folder, path)
        for suffix, entry_size in ((".index", 8), (".timeindex", 12)):
            index = file.with_suffix(suffix)
            index.write_bytes(data.draw(harmed(index.read_bytes(), entry_size)))
        batches = batches_of(file)
        offset = data.draw(st.integers(0, 401))
        timestamp = data.draw(st.integers(-1, COUNT + 1))
        bytes_max = data.draw(st.integers(1, 50_000))

        with Segment(file) as segment:
            found, as_new = segment.locate(offset), segment.locate_time(timestamp)
            expected, expected_as_new = first_at(batches, offset), first_as_new(batches, timestamp)
            assert (found and found.position) == (expected and expected.position)
            assert (as_new and as_new.position) == (expected_as_new and expected_as_new.position)
            assert content(segment, bytes_max) == file.read_bytes()
            assert segment.end() == End(0, COUNT * len(BATCH), 400, "")


# ---- gaps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_indexed", [True, False])
def test_offsets_removed_by_compaction_find_the_next_batch(file: Path, is_indexed: bool) -> None:
    kept = [batch for batch in batches_of(file) if batch.base_offset % 30 == 0]
    file.write_bytes(b"".join(batch.data for batch in kept))
    if not is_indexed:
        drop_indexes(file)

    with Segment(file) as segment:
        assert content(segment) == file.read_bytes()
        assert [segment.locate(offset) for offset in (15, 30, 39, 40)] == [
            Batch(0, position, len(BATCH), base, base + 9, base // 10)
            for position, base in ((1051, 30), (1051, 30), (1051, 30), (2102, 60))
        ]
        assert content(segment, end_offset=45) == content(segment, end_offset=60)


# ---- opening and closing ----------------------------------------------------------------------


def test_a_view_outlives_the_segment_and_the_file(file: Path) -> None:
    whole = file.read_bytes()
    with Segment(file) as segment:
        [chunk] = segment.chunks()
        half = chunk.data[: len(whole) // 2]
    del chunk
    file.unlink()

    assert bytes(half) == whole[: len(whole) // 2]


def test_a_closed_segment_cannot_be_read(file: Path) -> None:
    segment = Segment(file)
    chunks = segment.chunks(1)
    next(chunks)
    segment.close()
    segment.close()  # does nothing

    with pytest.raises(ValueError, match="closed"):
        next(chunks)
    with pytest.raises(ValueError, match="closed"):
        segment.locate(0)


def test_a_closed_segment_leaves_no_file_open(file: Path) -> None:
    with Segment(file) as segment:
        list(segment.chunks())
    assert open_files(file.parent) == []


def test_a_segment_is_named_by_its_base_offset(file: Path) -> None:
    with Segment(file) as segment:
        assert segment.base_offset == 0
        assert repr(segment) == f"<Segment {file}>"
    with pytest.raises(ValueError, match=r"<20 digits>\.log"):
        Segment(file.with_name("orders.log"))
    with pytest.raises(FileNotFoundError):
        Segment(file.with_name(f"{7:020}.log"))


# ---- message sets -----------------------------------------------------------------------------


def message(magic: int, offset: int, timestamp: int) -> bytes:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 20)
    builder.append(offset, timestamp=timestamp, key=b"k", value=b"value", headers=[])
    return bytes(builder.build())


@pytest.mark.parametrize("magic", [0, 1])
def test_logs_of_old_kafka_brokers_are_read(tmp_path: Path, magic: int) -> None:
    file = tmp_path / f"{BASE:020}.log"
    messages = [message(magic, BASE + place, place) for place in range(20)]
    file.write_bytes(b"".join(messages))
    size = len(messages[0])

    with Segment(file) as segment:
        assert content(segment, 100) == file.read_bytes()
        assert segment.locate(105) == Batch(BASE, 5 * size, size, 105, 105, 5 if magic else -1)
        assert segment.end() == End(BASE, 20 * size, 120, "")


@pytest.mark.parametrize("magic", [0, 1])
def test_a_torn_message_ends_the_chunks(tmp_path: Path, magic: int) -> None:
    file = tmp_path / f"{BASE:020}.log"
    first, second = message(magic, BASE, 1), message(magic, BASE + 1, 2)

    for cut in range(len(second)):
        file.write_bytes(first + second[:cut] + bytes(len(second) - cut))
        with Segment(file) as segment:
            assert content(segment) == first
