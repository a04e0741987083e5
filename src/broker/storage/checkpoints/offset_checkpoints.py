"""The recovery point, the start and, of a replica, the high watermark of each log.

These are Kafka's three checkpoints of a data directory. The last has only the logs of partitions
with several replicas: without them, everything that a log has is visible.

The cleaner's checkpoint is read as well, because what is compacted was synced before: without it, a
start that has lost the recovery point would take a gap of a compacted log for its end.

The files identify logs by topic and partition alone, so an entry must not outlive its topic: a new
topic of that name would lose its first records to the log start of the old one, and would be read
with the gaps that only compacted logs have. So an entry is removed from the file before a new log
of that name takes its first record.

Recovery points are written with the values of some time ago, because more must be synced first.
Logs may be deleted and created meanwhile, so a written value is never above the present one. A log
start, which may have been promised to a client meanwhile, is written with its present value. So is
a high watermark, which may be lower than it was, but never higher.

A replica that is cut because its leader does not have its last records has lower offsets than the
files: `lower` writes them before the log is cut.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeAlias

from broker._native.log.partition_log import PartitionLog
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint

Key: TypeAlias = tuple[str, int]  # topic and partition
Points: TypeAlias = Mapping[Key, int]  # the recovery point of each log at one moment


class Offsets(NamedTuple):
    """The content of the files."""

    recovery_points: Mapping[Key, int]
    log_starts: Mapping[Key, int]
    high_watermarks: Mapping[Key, int]


class OffsetCheckpoints:
    """The offsets of all logs in memory, and those that are in the files."""

    def __init__(self, path: Path) -> None:
        """Read the files; a missing or damaged entry counts as 0."""
        self._path = path
        self._recovery_points = text_files.read_offsets(path / text_files.RECOVERY_POINTS)
        self._log_starts = text_files.read_offsets(path / text_files.LOG_START_OFFSETS)
        self._watermarks = text_files.read_offsets(path / text_files.HIGH_WATERMARKS)
        self._written = Offsets(
            dict(self._recovery_points), dict(self._log_starts), dict(self._watermarks)
        )
        self._lowered: dict[Key, int] = {}  # recovery points, since the last `take`
        for key, offset in text_files.read_offsets(path / text_files.CLEANER_OFFSETS).items():
            self._recovery_points[key] = max(offset, self.recovery_point(key))
        self._writing = Lock()

    def recovery_point(self, key: Key) -> int:
        """Return the offset up to which a log is known to be synced."""
        return self._recovery_points.get(key, 0)

    def written_recovery_point(self, key: Key) -> int:
        """Return the recovery point that is in the file, which a start after a crash would use."""
        return self._written.recovery_points.get(key, 0)

    def log_start(self, key: Key) -> int:
        """Return the first readable offset of a log."""
        return self._log_starts.get(key, 0)

    def high_watermark(self, key: Key) -> int | None:
        """Return the high watermark of a replica, None if it has none yet or was never one."""
        return self._watermarks.get(key)

    def note_watermark(self, key: Key, high_watermark: int | None) -> None:
        """Set the high watermark of a replica; None: the partition has no other replica."""
        if high_watermark is None:
            self._watermarks.pop(key, None)
        else:
            self._watermarks[key] = high_watermark

    def lower(self, key: Key, offset: int, log_start_offset: int) -> None:
        """Lower all offsets of a log to where it will end, durably; in any thread.

        Its start becomes `log_start_offset`, whatever it was.
        """
        with self._writing:
            self._lowered[key] = min(offset, self._lowered.get(key, offset))
            for offsets in (self._recovery_points, self._watermarks):
                if offset < offsets.get(key, 0):
                    offsets[key] = offset
            if log_start_offset > 0:
                self._log_starts[key] = log_start_offset
            else:
                self._log_starts.pop(key, None)
        self.write_forgotten()

    def note(self, log: PartitionLog, durable_end: int) -> None:
        """Set the recovery point and the start of a log."""
        key = (log.topic, log.partition)
        if durable_end > 0:
            self._recovery_points[key] = durable_end
        else:
            self._recovery_points.pop(key, None)
        self.note_start(key, log.log_start_offset)

    def note_start(self, key: Key, log_start_offset: int) -> None:
        """Raise the start of a log to where it is, or will be; a lower one is ignored."""
        if log_start_offset > self._log_starts.get(key, 0):
            self._log_starts[key] = log_start_offset

    def forget(self, key: Key) -> bool:
        """Remove a log; return whether the files have it, or may have it after a running write."""
        self._recovery_points.pop(key, None)
        self._log_starts.pop(key, None)
        self._watermarks.pop(key, None)
        return self._writing.locked() or any(key in each for each in self._written)

    def take(self) -> Points:
        """Return the present recovery points, for `write` once everything below them is durable."""
        self._lowered.clear()
        return dict(self._recovery_points)

    def held_back(self, points: Points, keys: Iterable[Key]) -> Points:
        """Return the points with those of some logs reset to what the file has."""
        held = dict(points)
        written = self._written.recovery_points
        for key in keys:
            for each in (held, self._recovery_points):
                each.pop(key, None)
                if key in written:
                    each[key] = written[key]
        return held

    def write(self, points: Points) -> None:
        """Write the files whose content has changed; in any thread."""
        with self._writing:
            self._write(points)

    def write_forgotten(self) -> None:
        """Write what is forgotten or lower than in the files; no recovery point is raised."""
        with self._writing:
            self._write(self._written.recovery_points)

    def write_log_starts(self) -> None:
        """Write the file of log start offsets, if they have changed."""
        with self._writing:
            self._write_starts()

    def _write(self, points: Points) -> None:
        self._write_starts()
        watermarks = dict(self._watermarks)
        if watermarks != self._written.high_watermarks:
            checkpoint.write_offsets(self._path / text_files.HIGH_WATERMARKS, watermarks)
            self._written = self._written._replace(high_watermarks=watermarks)
        known, lowered = dict(self._recovery_points), dict(self._lowered)
        points = {
            key: min(point, known[key], lowered.get(key, point))
            for key, point in points.items()
            if key in known
        }
        if points != self._written.recovery_points:
            checkpoint.write_offsets(self._path / text_files.RECOVERY_POINTS, points)
            self._written = self._written._replace(recovery_points=points)

    def _write_starts(self) -> None:
        starts = dict(self._log_starts)
        if starts != self._written.log_starts:
            checkpoint.write_offsets(self._path / text_files.LOG_START_OFFSETS, starts)
            self._written = self._written._replace(log_starts=starts)
