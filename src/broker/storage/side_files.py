"""What stands beside a log's segments: the producers' snapshots and the leader epochs.

What of it is on the disk is remembered, so that only what has changed is written: a log that was
not touched costs a stop nothing.
"""

from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.storage import checkpoint
from broker.storage.folder_plan import offsets_of
from broker.storage.segment_files import SNAPSHOT, file_name

_SNAPSHOTS_KEPT = 3


class _Written(NamedTuple):
    """What the files of one log have."""

    epochs: tuple[tuple[int, int], ...]
    snapshot_offset: int  # of the newest


_NOTHING = _Written((), 0)


class SideFiles:
    """The small files of all logs of a data directory."""

    __slots__ = ("_written",)

    def __init__(self) -> None:
        """Nothing is known to be written."""
        self._written: dict[str, _Written] = {}

    def found(self, log: PartitionLog, snapshot_offset: int) -> None:
        """A log was opened with all its epochs, and with a snapshot at this offset."""
        self._written[log.folder] = _Written(tuple(log.epoch_entries), snapshot_offset)

    def forget(self, log: PartitionLog) -> None:
        """A log is gone."""
        self._written.pop(log.folder, None)

    def write_epochs(self, log: PartitionLog) -> None:
        """Write a log's epochs if there are new ones."""
        entries = self._new_epochs(log)
        if entries:
            checkpoint.write_leader_epochs(Path(log.folder), entries)
            self._set(log, epochs=tuple(entries))

    def write_snapshot(self, log: PartitionLog, offset: int, content: bytes) -> None:
        """Write the producers of a log at an offset; of older ones the newest two stay."""
        folder = Path(log.folder)
        file_ops.write_file_atomic(str(folder / file_name(offset, SNAPSHOT)), content)
        self._set(log, snapshot_offset=offset)
        _remove_old_snapshots(folder)

    def stage(self, log: PartitionLog) -> list[str]:
        """Write what is new of a log, not durable, under temporary names: the names without .tmp.

        Whoever calls this makes them durable, and then calls `rename_staged`.
        """
        folder = Path(log.folder)
        staged: list[str] = []
        entries = self._new_epochs(log)
        if entries:
            staged.append(str(folder / checkpoint.LEADER_EPOCHS))
            file_ops.write_file(staged[-1] + ".tmp", checkpoint.leader_epochs(entries).encode())
        if log.log_end_offset > self._written.get(log.folder, _NOTHING).snapshot_offset:
            offset, content = log.producer_snapshot()
            staged.append(str(folder / file_name(offset, SNAPSHOT)))
            file_ops.write_file(staged[-1] + ".tmp", content)
        return staged

    def rename_staged(self, log: PartitionLog, staged: list[str]) -> None:
        """Give staged files their names; durable with the next sync of the folder."""
        for name in staged:
            file_ops.rename(name + ".tmp", name)
        has_older = self._written.get(log.folder, _NOTHING).snapshot_offset > 0
        self.found(log, log.log_end_offset)
        if has_older:
            _remove_old_snapshots(Path(log.folder))

    def _new_epochs(self, log: PartitionLog) -> list[tuple[int, int]]:
        """The epochs, if the file has others; a log that was never written to has none."""
        entries = log.epoch_entries
        is_known = tuple(entries) == self._written.get(log.folder, _NOTHING).epochs
        return [] if is_known or log.log_end_offset == 0 else entries

    def _set(
        self,
        log: PartitionLog,
        *,
        epochs: tuple[tuple[int, int], ...] | None = None,
        snapshot_offset: int = 0,
    ) -> None:
        before = self._written.get(log.folder, _NOTHING)
        self._written[log.folder] = _Written(
            before.epochs if epochs is None else epochs,
            max(before.snapshot_offset, snapshot_offset),
        )


def _remove_old_snapshots(folder: Path) -> None:
    names = file_ops.list_folder(str(folder))
    for offset in offsets_of(names, SNAPSHOT)[:-_SNAPSHOTS_KEPT]:
        file_ops.remove(str(folder / file_name(offset, SNAPSHOT)))
