"""A clean stop: everything of every log on the disk, and only then the mark that says so.

    1  each log    what is staged is written, the reserved tail cut
    2  each log    epochs and producers' snapshot under temporary names, where they changed
    3  a sync      of the logs, of those files and of the indexes
    4  each log    the names
    5  a sync      of the names

A log that was not touched in this life, or is synced and cut already, takes no part in it.
"""

from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.partition_log import PartitionLog
from broker.storage.side_files import TEMPORARY, SideFiles, Staged
from broker.storage.syncing import is_one_sync_cheaper


class Closed(NamedTuple):
    """A closed log and its end offset; -1: it is offline, nothing is known."""

    log: PartitionLog
    end_offset: int


def close_logs(path: Path, logs: list[PartitionLog], side_files: SideFiles) -> list[Closed]:
    """Close logs of a data directory; StorageError when a file cannot be written or synced."""
    closed = [Closed(log, recovery.cut(log)) for log in logs]
    whole = [log for log, end_offset in closed if end_offset >= 0]
    staged = _stage(whole, side_files, with_snapshots=True)
    unsynced = [log for log in whole if log.needs_sync or log.has_unsynced_indexes]
    is_synced = is_one_sync_cheaper(len({*unsynced, *staged}))
    if is_synced:
        file_ops.sync_filesystem(str(path))
    for log in unsynced:
        if log.needs_sync:
            recovery.settle(log, is_synced=is_synced)
        if not is_synced:
            log.sync_indexes()
    _put_in_place(path, staged, side_files, is_synced=is_synced)
    return closed


def write_epochs(path: Path, logs: list[PartitionLog], side_files: SideFiles) -> None:
    """Write the epochs of those logs that have new ones, while they are used."""
    staged = _stage(logs, side_files, with_snapshots=False)
    is_synced = is_one_sync_cheaper(len(staged))
    if is_synced:
        file_ops.sync_filesystem(str(path))
    _put_in_place(path, staged, side_files, is_synced=is_synced)


def _stage(
    logs: list[PartitionLog], side_files: SideFiles, *, with_snapshots: bool
) -> dict[PartitionLog, Staged]:
    staged = ((log, side_files.stage(log, with_snapshot=with_snapshots)) for log in logs)
    return {log: files for log, files in staged if files is not None}


def _put_in_place(
    path: Path, staged: dict[PartitionLog, Staged], side_files: SideFiles, *, is_synced: bool
) -> None:
    """Sync staged files, unless that has been done, rename them, and sync their names."""
    for log, files in staged.items():
        for name in () if is_synced else files.names:
            file_ops.sync_file(name + TEMPORARY)
        side_files.rename(log, files)
    if is_one_sync_cheaper(len(staged)):
        file_ops.sync_filesystem(str(path))
        return
    for log in staged:
        file_ops.sync_folder(log.folder)
