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
from broker.storage.side_files import SideFiles
from broker.storage.syncing import is_one_sync_cheaper


class Closed(NamedTuple):
    """A closed log and its end offset; -1: it is offline, nothing is known."""

    log: PartitionLog
    end_offset: int


def close_logs(path: Path, logs: list[PartitionLog], side_files: SideFiles) -> list[Closed]:
    """Close logs of a data directory; StorageError when a file cannot be written or synced."""
    closed = [Closed(log, recovery.cut(log)) for log in logs]
    staged = {log: side_files.stage(log) for log, end_offset in closed if end_offset >= 0}
    changed = [log for log in staged if staged[log] or log.needs_sync or log.has_unsynced_indexes]
    _sync(path, changed, staged)
    renamed = [log for log in changed if staged[log]]
    for log in renamed:
        side_files.rename_staged(log, staged[log])
    _sync_names(path, renamed)
    return closed


def _sync(path: Path, logs: list[PartitionLog], staged: dict[PartitionLog, list[str]]) -> None:
    is_synced = is_one_sync_cheaper(len(logs))
    if is_synced:
        file_ops.sync_filesystem(str(path))
    for log in logs:
        if log.needs_sync:
            recovery.settle(log, is_synced=is_synced)
        if not is_synced:
            log.sync_indexes()
            for name in staged[log]:
                file_ops.sync_file(name + ".tmp")


def _sync_names(path: Path, logs: list[PartitionLog]) -> None:
    if is_one_sync_cheaper(len(logs)):
        file_ops.sync_filesystem(str(path))
        return
    for log in logs:
        file_ops.sync_folder(log.folder)
