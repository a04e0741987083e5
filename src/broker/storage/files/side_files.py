"""The small files of a log: the producers' snapshots and the leader epochs.

What was written is kept in memory, so that only changes are written: a stop writes nothing for an
unused log.
"""

from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.segments import text_files
from broker.segments.names import SNAPSHOT, file_name, offsets_of
from broker.storage.checkpoints import checkpoint

TEMPORARY = ".tmp"
_SNAPSHOTS_KEPT = 3


class _Written(NamedTuple):
    """The content of one log's files."""

    epochs: tuple[tuple[int, int], ...]
    snapshot_offset: int  # of the newest


class Staged(NamedTuple):
    """Files of one log that still have temporary names."""

    names: list[str]  # the final ones, without TEMPORARY
    written: _Written  # their content


_NOTHING = _Written((), 0)


class SideFiles:
    """The small files of all logs of a data directory."""

    def __init__(self) -> None:
        """Begin without knowledge of any file."""
        self._written: dict[str, _Written] = {}

    def found(self, log: PartitionLog, snapshot_offset: int) -> None:
        """Record that an opened log has its epochs and a snapshot at this offset on the disk."""
        self._written[log.folder] = _Written(tuple(log.epoch_entries), snapshot_offset)

    def forget(self, log: PartitionLog) -> None:
        """Remove a deleted log."""
        self._written.pop(log.folder, None)

    def write_snapshot(self, log: PartitionLog, offset: int, content: bytes) -> None:
        """Write the producers' snapshot of a log at an offset, and keep the two before it."""
        folder = Path(log.folder)
        file_ops.write_file_atomic(str(folder / file_name(offset, SNAPSHOT)), content)
        before = self._written.get(log.folder, _NOTHING)
        self._written[log.folder] = before._replace(
            snapshot_offset=max(before.snapshot_offset, offset)
        )
        _remove_old_snapshots(folder)

    def stage(self, log: PartitionLog, *, with_snapshot: bool) -> Staged | None:
        """Write the changed files of a log under temporary names, unsynced; None: no changes.

        The caller syncs them, and then calls `rename`.
        """
        folder = Path(log.folder)
        before = self._written.get(log.folder, _NOTHING)
        contents: dict[str, bytes] = {}
        entries = self._new_epochs(log)
        if entries:
            contents[str(folder / text_files.LEADER_EPOCHS)] = checkpoint.leader_epochs(
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
        """Rename staged files to their final names; durable with the next sync of the folder."""
        for name in staged.names:
            file_ops.rename(name + TEMPORARY, name)
        before = self._written.get(log.folder, _NOTHING)
        self._written[log.folder] = staged.written
        if 0 < before.snapshot_offset < staged.written.snapshot_offset:
            _remove_old_snapshots(Path(log.folder))

    def _new_epochs(self, log: PartitionLog) -> list[tuple[int, int]]:
        """Return the epochs if they have changed; [] for a log that was never written to."""
        entries = log.epoch_entries
        is_known = tuple(entries) == self._written.get(log.folder, _NOTHING).epochs
        return [] if is_known or log.log_end_offset == 0 else entries


def _remove_old_snapshots(folder: Path) -> None:
    names = file_ops.list_folder(str(folder))
    for offset in offsets_of(names, SNAPSHOT)[:-_SNAPSHOTS_KEPT]:
        file_ops.remove(str(folder / file_name(offset, SNAPSHOT)))
