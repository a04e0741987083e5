"""How far each log is synced and where it starts: Kafka's two checkpoints of a data directory.

What is compacted has been synced, too: without that, a recovery point that is lost would have a
start take the gaps of a compacted log for its end. So the cleaner's checkpoint is read as well.

They tell logs apart by topic and partition alone, so an entry must not outlive its topic: one that
is made again under the same name would lose its first records to the log start of the old one, and
be read with the gaps that only compacted logs have. So an entry goes from the file before a new log
of that name takes its first record.

Recovery points are written as they were some time ago, since there is more to sync first. Meanwhile
logs go and others take their names: what is written is no further than what is known now. A log
start, which may have been promised to a client meanwhile, is written as it is now.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeAlias

from broker._native.log.partition_log import PartitionLog
from broker.storage import checkpoint

Key: TypeAlias = tuple[str, int]  # topic and partition
Points: TypeAlias = Mapping[Key, int]  # up to where each log is synced, as it was at one moment


class Offsets(NamedTuple):
    """What the files have."""

    recovery_points: Mapping[Key, int]
    log_starts: Mapping[Key, int]


class OffsetCheckpoints:
    """The offsets of all logs in memory, and what of them the files have."""

    def __init__(self, path: Path) -> None:
        """Read the files; what is not there or damaged counts as 0."""
        self._path = path
        self._recovery_points = checkpoint.read_offsets(path / checkpoint.RECOVERY_POINTS)
        self._log_starts = checkpoint.read_offsets(path / checkpoint.LOG_START_OFFSETS)
        self._written = Offsets(dict(self._recovery_points), dict(self._log_starts))
        for key, offset in checkpoint.read_offsets(path / checkpoint.CLEANER_OFFSETS).items():
            self._recovery_points[key] = max(offset, self.recovery_point(key))
        self._writing = Lock()

    def recovery_point(self, key: Key) -> int:
        """Up to where all of a log is known to be synced."""
        return self._recovery_points.get(key, 0)

    def written_recovery_point(self, key: Key) -> int:
        """The same as a start after a crash would see it."""
        return self._written.recovery_points.get(key, 0)

    def log_start(self, key: Key) -> int:
        """The first readable offset of a log."""
        return self._log_starts.get(key, 0)

    def note(self, log: PartitionLog, durable_end: int) -> None:
        """Take over how far a log is synced and where it starts."""
        key = (log.topic, log.partition)
        if durable_end > 0:
            self._recovery_points[key] = durable_end
        else:
            self._recovery_points.pop(key, None)
        self.note_start(key, log.log_start_offset)

    def note_start(self, key: Key, log_start_offset: int) -> None:
        """Take over where a log starts, or is about to: a start that was noted is never undone."""
        if log_start_offset > self._log_starts.get(key, 0):
            self._log_starts[key] = log_start_offset

    def forget(self, key: Key) -> bool:
        """There is no such log any more. Whether the files tell of it, now or in a moment."""
        self._recovery_points.pop(key, None)
        self._log_starts.pop(key, None)
        is_being_written = self._writing.locked()
        written = self._written
        return is_being_written or key in written.recovery_points or key in written.log_starts

    def take(self) -> Points:
        """The recovery points as they are now, for `write` once they are true after any crash."""
        return dict(self._recovery_points)

    def held_back(self, points: Points, keys: Iterable[Key]) -> Points:
        """The same, but for logs whose recovery points have to stay as the file has them."""
        held = dict(points)
        written = self._written.recovery_points
        for key in keys:
            for each in (held, self._recovery_points):
                each.pop(key, None)
                if key in written:
                    each[key] = written[key]
        return held

    def write(self, points: Points) -> None:
        """Replace the files that have something else; in any thread."""
        with self._writing:
            self._write(points)

    def write_forgotten(self) -> None:
        """Take from the files what was forgotten: no recovery point moves."""
        with self._writing:
            self._write(self._written.recovery_points)

    def write_log_starts(self) -> None:
        """Replace the file of log start offsets, if it has others."""
        with self._writing:
            self._write_starts()

    def _write(self, points: Points) -> None:
        self._write_starts()
        known = dict(self._recovery_points)
        points = {key: min(point, known[key]) for key, point in points.items() if key in known}
        if points != self._written.recovery_points:
            checkpoint.write_offsets(self._path / checkpoint.RECOVERY_POINTS, points)
            self._written = self._written._replace(recovery_points=points)

    def _write_starts(self) -> None:
        starts = dict(self._log_starts)
        if starts != self._written.log_starts:
            checkpoint.write_offsets(self._path / checkpoint.LOG_START_OFFSETS, starts)
            self._written = self._written._replace(log_starts=starts)
