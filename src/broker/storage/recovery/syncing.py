"""Decides between one sync for many files and a sync for each.

For 2,000 logs one syncfs(2) took 0.09 s, where an fdatasync for each took 0.23 s in eight threads
and 0.9 s in one (ext4 on a virtual disk, kernel 6.18); a clean stop has five such syncs per log.
But syncfs also writes other programs' dirty pages of the file system, so a few files are synced one
by one.
"""

import os
from collections.abc import Callable, Iterable
from typing import TypeAlias

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.model.errors import StorageError
from broker.model.limits import LOGS_SYNCED_ONE_BY_ONE_MAX

_KERNEL_THAT_REPORTS = (5, 8)  # earlier ones do not report failed writes from syncfs(2)


def _kernel_version() -> tuple[int, int]:
    major, minor, *_ = os.uname().release.replace("-", ".").split(".")
    return int(major), int(minor)


def is_one_sync_cheaper(log_count: int) -> bool:
    """Return whether so many logs are synced together."""
    return log_count > LOGS_SYNCED_ONE_BY_ONE_MAX and _kernel_version() >= _KERNEL_THAT_REPORTS


Failed: TypeAlias = dict[PartitionLog, str]  # with the reason


def sync_filesystems(logs: Iterable[PartitionLog]) -> Failed:
    """Sync the file systems of the logs' directories; return the logs of those where that fails."""
    return _sync_parents(logs, file_ops.sync_filesystem)


def sync_directories(logs: Iterable[PartitionLog]) -> Failed:
    """Make the names of the logs' folders durable; return the logs for which that fails."""
    return _sync_parents(logs, file_ops.sync_folder)


def _sync_parents(logs: Iterable[PartitionLog], sync: Callable[[str], None]) -> Failed:
    by_directory: dict[str, list[PartitionLog]] = {}
    for log in logs:
        by_directory.setdefault(log.folder.rpartition("/")[0], []).append(log)
    failed: Failed = {}
    for directory, its_logs in by_directory.items():
        try:
            sync(directory)
        except (StorageError, FileNotFoundError) as error:
            failed |= dict.fromkeys(its_logs, str(error))
    return failed
