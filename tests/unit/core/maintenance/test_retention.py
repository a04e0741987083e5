"""Retention over real files: removed from the log, made durable, deleted, in this order."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from broker._native.log.partition_log import PartitionLog
from broker.core.maintenance.retention import Retention
from broker.model import limits
from broker.model.config import Config, load
from broker.model.topic_config import TopicConfig
from tests.support.manual_clock import ManualClock
from tests.support.native_log import NOW_MS, Logs, appended, bases_of, records

BROKER: Config = load()


class Disk:
    """Fakes of the I/O thread and the checkpoint, which record their calls."""

    def __init__(self) -> None:
        self.works = True
        self.events: list[str] = []

    async def run(self, work: Callable[[], None]) -> bool:
        work()
        self.events.append("files")
        return True

    async def save(self, planned: Sequence[tuple[PartitionLog, int]]) -> bool:
        self.events += [f"{log.log_start_offset} to {offset}" for log, offset in planned]
        return self.works


class Bench:
    """One topic's logs under upkeep."""

    def __init__(self, path: Path, segments: int, **config: str) -> None:
        self.logs = Logs(path)
        self.disk = Disk()
        self.clock = ManualClock(NOW_MS)
        self.config = TopicConfig(
            {key.replace("_", "."): text for key, text in config.items()}, BROKER
        )
        self.log = self.logs.create(segment_bytes_max=1)
        for place in range(segments):
            appended(self.log, records(timestamp=NOW_MS + place))
            self.logs.settle(self.log)  # or one segment takes what follows: the log has its share
        self.retention = Retention(self.all, self.clock, self.disk.run, self.disk.save)

    def all(self) -> Iterable[tuple[PartitionLog, TopicConfig]]:
        return [(self.log, self.config)]

    def check(self) -> None:
        asyncio.run(self.retention.apply_retention())

    def remove(self) -> None:
        asyncio.run(self.retention.remove_due_files())

    def names(self, pattern: str) -> list[int]:
        return sorted(int(file.name[:20]) for file in self.logs.folder().glob(pattern))


def test_old_segments_are_removed_from_the_log_and_later_from_the_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 4, retention_ms="1000", file_delete_delay_ms="50")
    bench.clock.advance(1002)

    bench.check()

    assert bench.log.log_start_offset == 2
    assert bases_of(bench.log) == [2, 3]
    assert bench.names("*.log.deleted") == [0, 1]
    bench.clock.advance(49)
    bench.remove()
    assert bench.names("*.deleted") != []
    bench.clock.advance(1)
    bench.remove()
    assert bench.names("*.deleted") == []
    assert bench.names("*.log") == [2, 3]


def test_with_little_disk_space_files_are_removed_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 4, retention_ms="1000", file_delete_delay_ms="600000")
    bench.clock.advance(1002)
    bench.check()

    bench.remove()
    assert bench.names("*.deleted") != []
    bench.retention.is_urgent = True
    bench.remove()

    assert bench.names("*.deleted") == []


def test_the_log_start_is_durable_before_it_is_visible(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 4, retention_ms="1000")
    bench.clock.advance(1002)

    bench.check()

    assert bench.disk.events[:2] == ["0 to 2", "files"]


def test_nothing_is_deleted_if_the_log_start_cannot_be_written(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 4, retention_ms="1000")
    bench.clock.advance(1002)
    bench.disk.works = False

    bench.check()

    assert bench.log.log_start_offset == 0
    assert bench.names("*.log") == [0, 1, 2, 3]


def test_a_check_without_old_segments_writes_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 4, retention_ms="1000")

    bench.check()

    assert bench.disk.events == []


def test_a_topic_with_policy_compact_keeps_its_old_records(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 4, retention_ms="1000", cleanup_policy="compact")
    bench.clock.advance(10_000)

    bench.check()

    assert bases_of(bench.log) == [0, 1, 2, 3]


def test_a_topic_with_policy_compact_delete_loses_its_old_records(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 4, retention_ms="1000", cleanup_policy="compact,delete")
    bench.clock.advance(1002)

    bench.check()

    assert bases_of(bench.log) == [2, 3]


def test_an_old_log_without_new_records_is_emptied(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 2, retention_ms="1000")
    bench.clock.advance(10_000)

    bench.check()
    assert bench.log.log_start_offset == 2
    bench.logs.settle(bench.log)
    bench.check()

    assert bases_of(bench.log) == [2]


def test_segments_without_timestamps_age_by_the_change_of_their_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 0, retention_ms="1000")
    for _ in range(3):
        appended(bench.log, records(timestamp=-1))
    bench.logs.settle(bench.log)
    bench.clock.set_wall_ms(int((tmp_path / "topic-0").stat().st_mtime * 1000))

    bench.check()
    assert bases_of(bench.log) == [0, 1, 2]
    bench.clock.advance(1_000_000)
    bench.check()

    assert bench.log.log_start_offset == 3


@pytest.mark.parametrize("count", [limits.RETENTION_SEGMENTS_PER_STEP * 2 + 3])
def test_many_segments_are_removed_in_small_steps(tmp_path: Path, count: int) -> None:
    bench = Bench(tmp_path, count, retention_bytes="1")

    bench.check()

    assert bases_of(bench.log) == [count - 1]
    assert bench.disk.events.count("files") == 3
