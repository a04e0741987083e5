"""A log of 10,000 segments: opened by reading each one's end, read anywhere, few files open."""

import random
import struct
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from tests.support.native_log import NOW_MS, Logs, appended, placed, records

COUNT = 10_000
REMOVED_COUNT = 2_000  # of a log of its own: the other tests share one
BATCH = records()
OPEN_MAX = 100


class Many(NamedTuple):
    """A log of many segments, and how many files it held open when it had been opened."""

    logs: Logs
    log: PartitionLog
    open_files: int


def write_segments(folder: Path, count: int) -> None:
    """Write sealed segments of one record each, as a clean stop leaves them."""
    folder.mkdir()
    for base in range(count):
        for suffix, content in (
            ("log", placed(BATCH, base)),
            ("index", struct.pack(">ii", 0, 0)),
            ("timeindex", struct.pack(">qi", NOW_MS, 0)),
        ):
            (folder / f"{base:020}.{suffix}").write_bytes(content)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Many:
    """One log for all tests that only read it."""
    logs = Logs(tmp_path_factory.mktemp("many"))
    logs.turn.files.count_max = OPEN_MAX
    write_segments(logs.folder(), COUNT)
    file_ops.start_recording()
    log = logs.attach(COUNT)
    sizes = [
        size
        for name, path, _, size, *_ in file_ops.recorded()
        if name == "read" and path.endswith(".log")
    ]
    file_ops.stop_recording()
    assert len(sizes) == COUNT
    assert max(sizes) < len(BATCH)  # a part of a header: whether the index fits
    return Many(logs, log, logs.turn.files.count)


def test_an_open_log_of_many_segments_holds_no_file_open(many: Many) -> None:
    assert many.log.segment_count == COUNT
    assert many.open_files == 0


def test_any_offset_is_read_with_few_files_open(many: Many) -> None:
    logs, log, _ = many
    some = random.Random(1)

    for offset in (0, COUNT - 1, *(some.randrange(COUNT) for _ in range(2_000))):
        assert log.read(offset, 1000) == placed(BATCH, offset)

    assert logs.turn.files.count <= OPEN_MAX


def test_a_reader_reads_through_all_segments(many: Many) -> None:
    log = many.log
    offset = 0
    while offset < COUNT:
        batch = log.read(offset, 1)
        assert int.from_bytes(batch[:8]) == offset
        offset += 1


def test_nearly_all_segments_are_removed_at_once(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write_segments(logs.folder(), REMOVED_COUNT)
    log = logs.attach(REMOVED_COUNT)
    log.move_log_start(REMOVED_COUNT - 1)

    assert len(log.drop_segments(REMOVED_COUNT)) == REMOVED_COUNT - 1

    assert log.read(REMOVED_COUNT - 1, 1000) == placed(BATCH, REMOVED_COUNT - 1)
    assert appended(log, BATCH) == REMOVED_COUNT
    logs.sync(log)
    assert log.high_watermark == REMOVED_COUNT + 1


def test_a_log_whose_full_segments_are_being_synced_is_not_closed_for_their_files(
    logs: Logs, recording: None
) -> None:
    """The sync opens the folder, which closes files: the same sync was begun twice then."""
    logs.turn.files.count_max = 3
    log = logs.create(segment_bytes_max=1)
    for _ in range(20):
        log.append(BATCH)

    logs.settle(log)

    synced = Counter(
        Path(path).name for name, path, *_ in file_ops.recorded() if name == "sync_data"
    )
    assert (log.durable_end, log.unsealed_count) == (20, 0)
    assert max(synced[f"{base:020}.log"] for base in range(19)) == 1
