"""The offset checkpoints of a data directory that several brokers of one host share.

The files are those of one broker (offset_checkpoints.py). Each broker replaces the entries of the
logs that it has open and keeps all others, while it holds a lock that the others wait for. A log is
open in one broker at a time, so an entry has one writer. A broker that has ended leaves its entries
to the brokers that open its logs next. No partition has several replicas.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

from broker._native.log.partition_log import PartitionLog
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint
from broker.storage.checkpoints.offset_checkpoints import Key, OffsetCheckpoints, Offsets, Points

_Stamp: TypeAlias = tuple[tuple[int, int, int], ...]  # differs after each replacement of a file
_FILES = (text_files.RECOVERY_POINTS, text_files.LOG_START_OFFSETS)


class SharedOffsetCheckpoints(OffsetCheckpoints):
    """The offsets of the logs that this broker has open, in files with those of all brokers."""

    def __init__(self, path: Path, exclusive: Callable[[], AbstractContextManager[None]]) -> None:
        """Read the files; `exclusive` returns the lock, whose wait may end with StorageError."""
        super().__init__(path)
        self._exclusive = exclusive
        self._stamp = _stamp(path)
        self._open: set[Key] = set()
        self._recovery_points = {}
        self._log_starts = {}
        self._watermarks = {}

    def adopt(self, key: Key) -> None:
        """Begin to keep the entries of a log that this broker opens; in any thread."""
        with self._writing:
            self._refresh()
            self._open.add(key)
            for own, written in zip(
                (self._recovery_points, self._log_starts), self._written[:2], strict=True
            ):
                own.pop(key, None)
                if key in written:
                    own[key] = written[key]

    def set_recovery_point(self, log: PartitionLog, log_end_offset: int) -> None:
        """Set the recovery point of a log that another broker has closed in order."""
        self._recovery_points[log.topic, log.partition] = log_end_offset

    def leave(self, key: Key) -> None:
        """Keep the entries of a log no more; those in the files stay."""
        self._open.discard(key)
        self._recovery_points.pop(key, None)
        self._log_starts.pop(key, None)

    def forget(self, key: Key) -> bool:
        """Remove the entries of a log that is open; the next write removes them from the files."""
        self._recovery_points.pop(key, None)
        self._log_starts.pop(key, None)
        return True

    def write(self, points: Points) -> None:
        """Write the files with these recovery points of open logs; in any thread."""
        with self._writing, self._exclusive():
            self._refresh()
            self._write_starts()
            self._write_points(points)

    def write_forgotten(self) -> None:
        """Write what is forgotten or lower than in the files; no recovery point is raised."""
        with self._writing, self._exclusive():
            self._refresh()
            self._write_starts()
            self._write_points(self._written.recovery_points)

    def write_log_starts(self) -> None:
        """Write the file of log start offsets, if those of open logs have changed."""
        with self._writing, self._exclusive():
            self._refresh()
            self._write_starts()

    def _write_points(self, points: Points) -> None:
        opened, known = set(self._open), dict(self._recovery_points)
        written = self._written.recovery_points
        merged = {key: point for key, point in written.items() if key not in opened}
        for key in opened & known.keys() & (points.keys() | written.keys()):
            # A log may have been opened after the points were taken: the file has a higher one.
            merged[key] = min(known[key], max(points.get(key, 0), written.get(key, 0)))
        if merged != written:
            checkpoint.write_offsets(self._path / text_files.RECOVERY_POINTS, merged)
            self._written = self._written._replace(recovery_points=merged)
            self._stamp = _stamp(self._path)

    def _write_starts(self) -> None:
        opened, known = set(self._open), dict(self._log_starts)
        written = self._written.log_starts
        merged = {key: start for key, start in written.items() if key not in opened}
        merged.update((key, known[key]) for key in opened & known.keys())
        if merged != written:
            checkpoint.write_offsets(self._path / text_files.LOG_START_OFFSETS, merged)
            self._written = self._written._replace(log_starts=merged)
            self._stamp = _stamp(self._path)

    def _refresh(self) -> None:
        """Read the files again if another broker has replaced one of them."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            points, starts = (text_files.read_offsets(self._path / name) for name in _FILES)
            self._written = Offsets(points, starts, {})
            self._stamp = stamp


def _stamp(path: Path) -> _Stamp:
    found = []
    for name in _FILES:
        try:
            status = (path / name).stat()
        except FileNotFoundError:
            found.append((0, 0, 0))
        else:
            found.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)
