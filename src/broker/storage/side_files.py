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

TEMPORARY = ".tmp"
_SNAPSHOTS_KEPT = 3


class _Written(NamedTuple):
    """What the files of one log have."""

    epochs: tuple[tuple[int, int], ...]
    snapshot_offset: int  # of the newest


class Staged(NamedTuple):
    """Files of one log that wait for their names."""

    names: list[str]  # without TEMPORARY
    written: _Written  # what the files have then


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

    def write_snapshot(self, log: PartitionLog, offset: int, content: bytes) -> None:
        """Write the producers of a log at an offset; of older ones the newest two stay."""
        folder = Path(log.folder)
        file_ops.write_file_atomic(str(folder / file_name(offset, SNAPSHOT)), content)
        before = self._written.get(log.folder, _NOTHING)
        self._written[log.folder] = before._replace(
            snapshot_offset=max(before.snapshot_offset, offset)
        )
        _remove_old_snapshots(folder)

    def stage(self, log: PartitionLog, *, with_snapshot: bool) -> Staged | None:
        """Write what is new of a log, not durable, under temporary names; None: nothing is.

        Whoever calls this makes them durable, and then calls `rename`.
        """
        folder = Path(log.folder)
        before = self._written.get(log.folder, _NOTHING)
        contents: dict[str, bytes] = {}
        entries = self._new_epochs(log)
        if entries:
            contents[str(folder / checkpoint.LEADER_EPOCHS)] = checkpoint.leader_epochs(
                entries
            ).encode()
        offset = before.snapshot_offset
        if with_snapshot and log.log_end_offset > offset:
            offset, content = log.producer_snapshot()
            contents[str(folder / file_name(offset, SNAPSHOT))] = content
        for name, content in contents.items():
            file_ops.write_file(name + TEMPORARY, content)
        written = _Written(tuple(entries) or before.epochs, offset)
        return Staged(list(contents), written) if contents else None

    def rename(self, log: PartitionLog, staged: Staged) -> None:
        """Give staged files their names; durable with the next sync of the folder."""
        for name in staged.names:
            file_ops.rename(name + TEMPORARY, name)
        before = self._written.get(log.folder, _NOTHING)
        self._written[log.folder] = staged.written
        if 0 < before.snapshot_offset < staged.written.snapshot_offset:
            _remove_old_snapshots(Path(log.folder))

    def _new_epochs(self, log: PartitionLog) -> list[tuple[int, int]]:
        """The epochs, if the file has others; a log that was never written to has none."""
        entries = log.epoch_entries
        is_known = tuple(entries) == self._written.get(log.folder, _NOTHING).epochs
        return [] if is_known or log.log_end_offset == 0 else entries


def _remove_old_snapshots(folder: Path) -> None:
    names = file_ops.list_folder(str(folder))
    for offset in offsets_of(names, SNAPSHOT)[:-_SNAPSHOTS_KEPT]:
        file_ops.remove(str(folder / file_name(offset, SNAPSHOT)))
