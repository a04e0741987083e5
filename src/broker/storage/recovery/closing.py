"""Closes logs: everything of every log is put on the disk, before the marker of a clean stop.

    1  each log    write staged batches, truncate the preallocated tail
    2  each log    write epochs and producers' snapshot under temporary names, where they changed
    3              sync the logs, those files and the indexes
    4  each log    rename those files
    5              sync the names

A log that was not used in this run, or is already synced and truncated, is skipped. A log whose
files fail goes offline while the others continue: nothing of it is retried, and its recovery point
stays where it was.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.partition_log import PartitionLog
from broker.model.errors import StorageError
from broker.storage.files.side_files import TEMPORARY, SideFiles, Staged
from broker.storage.recovery.syncing import Failed, is_one_sync_cheaper, sync_filesystems


class Closed(NamedTuple):
    """A closed log and its end offset; -1: it is offline and its end unknown."""

    log: PartitionLog
    end_offset: int


def close_logs(logs: list[PartitionLog], side_files: SideFiles) -> list[Closed]:
    """Close logs; one that cannot be written or synced is taken offline."""
    failed: Failed = {}
    ends: dict[PartitionLog, int] = {}

    def cut(log: PartitionLog) -> None:
        ends[log] = recovery.cut(log)

    _for_each(logs, cut, failed)
    whole = [log for log, end_offset in ends.items() if end_offset >= 0]
    staged = _stage(whole, side_files, failed, with_snapshots=True)
    unsynced = [log for log in whole if log.needs_sync or log.has_unsynced_indexes]
    together = {*unsynced, *staged} - failed.keys()
    is_synced = is_one_sync_cheaper(len(together))
    if is_synced:
        failed.update(sync_filesystems(together))

    def settle(log: PartitionLog) -> None:
        if log.needs_sync:
            recovery.settle(log, is_synced=is_synced)
        if not is_synced:
            log.sync_indexes()

    _for_each(unsynced, settle, failed)
    _put_in_place(staged, side_files, failed, is_synced=is_synced)
    for log, reason in failed.items():
        log.take_offline(reason)
    return [Closed(log, -1 if log in failed else ends[log]) for log in logs]


def write_epochs(logs: list[PartitionLog], side_files: SideFiles) -> Failed:
    """Write new epochs of logs, which may be in use; return the logs where that failed."""
    failed: Failed = {}
    staged = _stage(logs, side_files, failed, with_snapshots=False)
    is_synced = is_one_sync_cheaper(len(staged))
    if is_synced:
        failed.update(sync_filesystems(staged))
    _put_in_place(staged, side_files, failed, is_synced=is_synced)
    return failed


def sync_indexes(logs: Iterable[PartitionLog]) -> Failed:
    """Sync the indexes of full segments, log by log; return the logs where that failed."""
    failed: Failed = {}
    _for_each(logs, PartitionLog.sync_indexes, failed)
    return failed


def _for_each(
    logs: Iterable[PartitionLog], work: Callable[[PartitionLog], None], failed: Failed
) -> None:
    """Call `work` for each log that has not failed, and add those that fail now."""
    for log in logs:
        if log in failed:
            continue
        try:
            work(log)
        except (StorageError, FileNotFoundError) as error:
            failed[log] = str(error)


def _stage(
    logs: Iterable[PartitionLog], side_files: SideFiles, failed: Failed, *, with_snapshots: bool
) -> dict[PartitionLog, Staged]:
    staged: dict[PartitionLog, Staged] = {}

    def stage(log: PartitionLog) -> None:
        files = side_files.stage(log, with_snapshot=with_snapshots)
        if files is not None:
            staged[log] = files

    _for_each(logs, stage, failed)
    return staged


def _put_in_place(
    staged: dict[PartitionLog, Staged],
    side_files: SideFiles,
    failed: Failed,
    *,
    is_synced: bool,
) -> None:
    """Sync staged files, unless that has been done, rename them, and sync their names."""

    def rename(log: PartitionLog) -> None:
        for name in () if is_synced else staged[log].names:
            file_ops.sync_file(name + TEMPORARY)
        side_files.rename(log, staged[log])

    _for_each(staged, rename, failed)
    if is_one_sync_cheaper(len(staged)):
        failed.update(sync_filesystems(staged))
        return
    _for_each(staged, lambda log: file_ops.sync_folder(log.folder), failed)
