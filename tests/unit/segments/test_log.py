"""A folder of segments that are added and deleted while it is read."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker import segments
from broker.model.errors import Corrupt, SegmentGone, Truncated
from broker.segments import End, Log
from tests.support.native_log import appended, batches, records
from tests.support.segment_files import (
    Stored,
    batches_of,
    first_as_new,
    first_at,
    folder_for_an_example,
    open_files,
    segment_files,
    stored,
    write,
    write_ascending,
    writing,
)

ROOT = Path(__file__).parents[3]
BATCH = records(10, size=90)  # 1,051 bytes
BASES = (0, 190, 380)
END = 500
WRITER_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """50 batches of 10 records in three segments."""
    return write_ascending(tmp_path_factory.mktemp("log"))


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    """The log, for one test."""
    return Path(shutil.copytree(pristine, tmp_path / pristine.name))


def content(log: Log, bytes_max: int = 5_000, **bounds: Any) -> bytes:
    """Return all chunks, one after another."""
    return b"".join(bytes(chunk.data) for chunk in log.chunks(bytes_max, **bounds))


def bytes_of(batches: list[Stored]) -> bytes:
    return b"".join(batch.data for batch in batches)


def remove(folder: Path, base_offset: int) -> None:
    for suffix in ("log", "index", "timeindex"):
        (folder / f"{base_offset:020}.{suffix}").unlink()


# ---- opening ----------------------------------------------------------------------------------


def test_a_folder_is_opened_as_the_log_of_all_its_segments(folder: Path) -> None:
    log = segments.open(folder)

    assert log.base_offsets == BASES
    assert (log.topic, log.partition) == ("topic", 0)
    assert log.sizes() == {0: 19_969, 190: 19_969, 380: 12_612}
    assert repr(log) == f"<Log {folder}: 3 segments>"


def test_a_file_is_opened_as_a_log_of_one_segment(folder: Path) -> None:
    log = segments.open(str(folder / f"{190:020}.log"))

    assert log.base_offsets == (190,)
    assert (log.topic, log.partition) == ("topic", 0)
    assert [chunk.next_offset for chunk in log.chunks()] == [380]
    assert log.end() == End(190, 19_969, 380, "")


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [("a-b-17", "a-b", 17), ("archive", None, None), ("-1", None, None)],
)
def test_a_folders_name_gives_topic_and_partition(
    folder: Path, name: str, topic: str | None, partition: int | None
) -> None:
    log = segments.open(folder.rename(folder.with_name(name)))

    assert (log.topic, log.partition) == (topic, partition)


def test_paths_that_are_not_a_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        segments.open(tmp_path / "topic-0")
    with pytest.raises(FileNotFoundError):
        segments.open(tmp_path / f"{0:020}.log")
    with pytest.raises(ValueError, match="no segment in it"):
        segments.open(tmp_path)
    (tmp_path / "orders.log").touch()
    with pytest.raises(ValueError, match=r"<20 digits>\.log"):
        segments.open(tmp_path / "orders.log")


def test_files_being_deleted_or_compacted_are_not_segments(folder: Path) -> None:
    for suffix in ("log.deleted", "log.cleaned", "log.swap", "snapshot"):
        (folder / f"{190:020}.{suffix}").touch()

    assert segments.open(folder).base_offsets == BASES


# ---- chunks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_max", [1, 5_000, 1 << 20])
def test_chunks_are_whole_batches_that_make_up_the_log(folder: Path, bytes_max: int) -> None:
    log = segments.open(folder)

    assert content(log, bytes_max) == bytes_of(stored(folder))


def test_a_chunk_does_not_cross_segments(folder: Path) -> None:
    chunks = list(segments.open(folder).chunks())

    assert [(chunk.segment, chunk.position) for chunk in chunks] == [(0, 0), (190, 0), (380, 0)]
    assert [(chunk.base_offset, chunk.next_offset) for chunk in chunks] == [
        (0, 190),
        (190, 380),
        (380, 500),
    ]


@pytest.mark.parametrize("start", [0, 5, 189, 190, 195, 380, 499, 500])
@pytest.mark.parametrize("end", [0, 10, 190, 200, 380, 500, None])
def test_chunks_cover_exactly_start_to_end(folder: Path, start: int, end: int | None) -> None:
    expected = [
        batch
        for batch in stored(folder)
        if batch.last_offset >= start and (end is None or batch.base_offset < end)
    ]

    log = segments.open(folder)

    assert content(log, start_offset=start, end_offset=end) == bytes_of(expected)


def test_a_log_that_ends_before_the_given_end_is_refused(folder: Path) -> None:
    chunks = segments.open(folder).chunks(end_offset=END + 1)

    assert [next(chunks).next_offset for _ in BASES] == [190, 380, 500]
    with pytest.raises(Truncated, match="ends at offset 500, expected 501: nothing follows"):
        next(chunks)


def test_a_sealed_segment_may_still_have_its_reserved_tail(folder: Path) -> None:
    os.truncate(folder / f"{0:020}.log", 1 << 20)
    expected = bytes_of(stored(folder))

    assert content(segments.open(folder)) == expected


@pytest.mark.parametrize("is_indexed", [True, False])
def test_damage_in_a_sealed_segment_is_not_the_end(folder: Path, is_indexed: bool) -> None:
    file = folder / f"{190:020}.log"
    with file.open("r+b") as opened:
        opened.seek(5 * len(BATCH))
        opened.write(bytes(61))
    if not is_indexed:
        file.with_suffix(".index").unlink()

    with pytest.raises(
        Corrupt, match=r"zeros, (?:followed by batches|in a sealed segment)"
    ) as caught:
        content(segments.open(folder), 1)
    assert caught.value.position == 5 * len(BATCH)


@pytest.mark.parametrize("size", [0, 5_000])
def test_a_torn_batch_in_a_sealed_segment_is_not_the_end(folder: Path, size: int) -> None:
    with (folder / f"{0:020}.log").open("ab") as file:
        file.write(records(10, size=90, base_offset=190)[:100] + bytes(size))

    with pytest.raises(Corrupt, match="in a sealed segment"):
        content(segments.open(folder))


def test_a_torn_batch_in_the_last_segment_is_the_end(folder: Path) -> None:
    expected = bytes_of(stored(folder))
    with (folder / f"{380:020}.log").open("ab") as file:
        file.write(records(10, size=90, base_offset=END)[:100] + bytes(5_000))
    log = segments.open(folder)

    assert content(log) == expected
    assert log.end() == End(380, 12_612, END, "a batch whose CRC does not fit")
    with pytest.raises(Truncated, match="expected 510: a batch whose CRC does not fit follows"):
        content(log, end_offset=510)


def test_an_end_offset_within_a_gap_ends_before_the_gap(folder: Path) -> None:
    file = folder / f"{380:020}.log"
    kept = [batch for batch in batches_of(file) if batch.base_offset not in {400, 410, 420}]
    file.write_bytes(bytes_of(kept))

    chunks = list(segments.open(folder).chunks(end_offset=415))

    assert chunks[-1].next_offset == 400


# ---- lookups ----------------------------------------------------------------------------------


TIMES = st.integers(-1, 60)


@given(
    shapes=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 300), TIMES), max_size=60),
    interval=st.sampled_from([1, 300, 4_096]),
    gaps=st.sets(st.integers(0, 59)),
    data=st.data(),
)
@settings(deadline=None, max_examples=60)
def test_lookups_equal_brute_force(
    shapes: list[tuple[int, int, int]], interval: int, gaps: set[int], data: st.DataObject
) -> None:
    with folder_for_an_example() as path:
        sent = [records(count, size=size, timestamp=time) for count, size, time in shapes]
        folder = write(path, sent, segment_bytes_max=2_000, index_interval_bytes=interval)
        thin_out(folder, gaps)
        expected = stored(folder)
        log = segments.open(folder)

        for offset in data.draw(st.lists(st.integers(-1, 200), max_size=5)):
            assert place(log.locate(offset)) == place(first_at(expected, offset))
        for time in data.draw(st.lists(TIMES, max_size=5)):
            assert place(log.locate_time(time)) == place(first_as_new(expected, time))
        assert content(log, data.draw(st.integers(1, 3_000))) == bytes_of(expected)


def thin_out(folder: Path, gaps: set[int]) -> None:
    """Remove batches, as compaction does; an index whose entries have moved is wrong then."""
    for file in segment_files(folder)[:-1]:
        found = batches_of(file)
        kept = [batch for place, batch in enumerate(found) if place not in gaps]
        file.write_bytes(bytes_of(kept))
        if len(kept) < len(found):
            file.with_suffix(".timeindex").unlink(missing_ok=True)


def place(batch: Any) -> tuple[int, int] | None:
    return None if batch is None else (batch.segment, batch.position)


def test_timestamps_need_not_ascend(tmp_path: Path) -> None:
    times = [5, 9, 3, 7, 9, 1]
    folder = write(
        tmp_path,
        [records(1, size=500, timestamp=time) for time in times],
        segment_bytes_max=1_200,
        index_interval_bytes=1,
    )
    log = segments.open(folder)

    found = [log.locate_time(time) for time in (1, 5, 6, 9, 10)]

    assert len(log.base_offsets) == 3
    assert [batch and batch.base_offset for batch in found] == [0, 0, 1, 1, None]


# ---- segments that are added ---------------------------------------------------------------------


def test_segments_added_while_a_log_is_read_are_read_too(tmp_path: Path) -> None:
    with writing(tmp_path, segment_bytes_max=3_000) as (logs, log):
        appended(log, BATCH)
        logs.sync(log)
        reader = segments.open(logs.folder())
        chunks = reader.chunks(1)
        bases = [next(chunks).base_offset]
        for _ in range(20):
            appended(log, BATCH)
            logs.sync(log)
            bases.append(next(chunks).base_offset)
        rest = list(chunks)

    assert bases == list(range(0, 210, 10))
    assert rest == []
    assert len(reader.base_offsets) == 11


def test_lookups_find_batches_appended_after_the_log_was_opened(tmp_path: Path) -> None:
    with writing(tmp_path, segment_bytes_max=3_000) as (logs, log):
        reader = segments.open(logs.folder())
        assert reader.locate(0) is None
        for time in range(20):
            appended(log, records(10, size=90, timestamp=time))
        logs.sync(log)

        found, as_new = reader.locate(155), reader.locate_time(15)

        assert found is not None
        assert found == as_new
        assert found.base_offset == 150
        assert reader.end().offset == 200


def test_a_roll_between_the_last_read_and_the_listing_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(tmp_path, segment_bytes_max=3_000) as (logs, log):
        appended(log, BATCH)
        logs.sync(log)
        reader = segments.open(logs.folder())
        list_again = reader.refresh

        def append_and_list_again() -> None:
            monkeypatch.undo()
            for _ in range(3):  # one more into this segment, two into the next
                appended(log, BATCH)
            logs.sync(log)
            list_again()

        monkeypatch.setattr(reader, "refresh", append_and_list_again)

        assert [chunk.base_offset for chunk in reader.chunks(1)] == [0, 10, 20, 30]


# ---- segments that are deleted -------------------------------------------------------------------


def test_a_log_whose_first_segments_were_deleted_after_the_listing_begins_later(
    folder: Path,
) -> None:
    log = segments.open(folder)
    remove(folder, 0)

    assert next(log.chunks()).base_offset == 190
    assert log.locate(5) == log.locate(190)
    assert log.base_offsets == (190, 380)
    assert log.sizes() == {190: 19_969, 380: 12_612}


def test_a_reader_overtaken_by_retention_raises(folder: Path) -> None:
    log = segments.open(folder)
    chunks = log.chunks()
    next(chunks)
    remove(folder, 0)  # which the reader holds open
    remove(folder, 190)

    with pytest.raises(SegmentGone, match="offset 190 is gone, the log begins at 380"):
        next(chunks)


def test_a_reader_keeps_the_segment_it_reads_open(folder: Path) -> None:
    expected = bytes_of(stored(folder))
    chunks = segments.open(folder).chunks(5_000)
    first = next(chunks)
    remove(folder, 0)

    assert b"".join(bytes(chunk.data) for chunk in (first, *chunks)) == expected


def test_a_segment_merged_by_compaction_is_found_in_the_other_one(folder: Path) -> None:
    kept = [batch for batch in stored(folder) if batch.base_offset % 20 == 0]
    chunks = segments.open(folder).chunks(5_000)
    bases = [next(chunks).base_offset]

    merged = folder / "merged"
    merged.write_bytes(b"".join(batch.data for batch in kept if batch.segment < 380))
    remove(folder, 0)
    remove(folder, 190)
    merged.rename(folder / f"{0:020}.log")
    found = [batch for chunk in chunks for batch in batches(bytes(chunk.data))]

    bases += [int.from_bytes(batch[:8]) for batch in found]
    assert bases == [0, *range(40, 190, 10), *range(200, 380, 20), *range(380, 500, 10)]


def test_a_deleted_topic_raises(folder: Path) -> None:
    log = segments.open(folder)
    chunks = log.chunks()
    next(chunks)
    folder.rename(folder.with_name("topic-0.0123-delete"))

    with pytest.raises(SegmentGone, match="the log is gone"):
        next(chunks)
    with pytest.raises(SegmentGone, match="the log is gone"):
        log.end()
    with pytest.raises(SegmentGone, match="the segment is gone"):
        log.segment(0)


def test_lookups_in_a_folder_that_changes_constantly_give_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = segments.open(folder)
    monkeypatch.setattr(log, "refresh", lambda: None)
    remove(folder, 0)

    with pytest.raises(SegmentGone, match="segments were removed at each of 10 tries"):
        log.locate(0)


# ---- closing ----------------------------------------------------------------------------------


def test_closing_a_log_closes_the_segments_of_its_iterations(folder: Path) -> None:
    with segments.open(folder) as log:
        chunks = log.chunks(1)
        view = next(chunks).data
        segment = log.segment(190)
    expected = batches_of(folder / f"{0:020}.log")[0].data

    assert bytes(view) == expected
    with pytest.raises(ValueError, match="closed"):
        next(chunks)
    with pytest.raises(ValueError, match="closed"):
        segment.locate(190)
    assert len(open_files(folder)) == 1  # of the mapping, which the view needs
    del view
    assert open_files(folder) == []


def test_a_dropped_iteration_closes_its_segment(folder: Path) -> None:
    next(segments.open(folder).chunks(1))

    assert open_files(folder) == []


# ---- concurrent with a writer
# ---------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from tests.support.native_log import Logs, records

logs = Logs(Path(sys.argv[1]))
log = logs.create(is_group_commit=False, segment_bytes_max=300_000)
print("ready", flush=True)
for number in range(int(sys.argv[2])):
    log.append(records(1 + number % 7, size=number % 1500, timestamp=number))
    logs.turn.end()
logs.commit.stop()
logs.turn.poll_synced()
"""
WRITTEN = 6_000


def test_a_reader_concurrent_with_a_writing_process_sees_every_batch_once_and_whole(
    tmp_path: Path,
) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path), str(WRITTEN)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with writer, segments.open(ready(writer, tmp_path)) as log:
        found: list[bytes] = []
        next_offset = 0
        is_written = False
        while not is_written:
            is_written = writer.poll() is not None  # then one more look
            for chunk in log.chunks(50_000, start_offset=next_offset):
                assert chunk.base_offset == next_offset
                next_offset = chunk.next_offset
                found += batches(bytes(chunk.data))

    assert writer.returncode == 0
    assert [strip(batch) for batch in found] == [
        strip(records(1 + number % 7, size=number % 1500, timestamp=number))
        for number in range(WRITTEN)
    ]


def ready(writer: "subprocess.Popen[bytes]", path: Path) -> Path:
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    return path / "topic-0"


def strip(batch: bytes) -> bytes:
    """Return a batch without the fields that the log sets: its offset and epoch."""
    return batch[8:12] + batch[16:]
