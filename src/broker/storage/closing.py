"""A clean stop: every log synced, its small files written, and only then the mark that says so.

    1  each log    what is staged is written, the reserved tail cut, the file synced
    2  each log    epochs and producers' snapshot under temporary names, where they changed
    3  a sync      of those files and of the indexes
    4  each log    the names
    5  a sync      of the names

Step 1 is one fdatasync per log that was written to, in several threads: its result is of that file
alone and on every kernel to be trusted. Steps 3 and 5 are one syncfs(2) each when there are many
logs, because for 2,000 of them that takes 0.09 s where the single syncs of their five small files
and folders take 2 s (measured on a virtual disk, ext4). With few logs the single syncs are faster
than whatever else the file system has to write. What syncfs could leave out on an old kernel is
found to be damaged, and made again, by the next start.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.partition_log import PartitionLog
from broker.model.limits import FILES_SYNCED_ONE_BY_ONE_MAX, SYNC_THREADS
from broker.storage.side_files import SideFiles

_Item = TypeVar("_Item")


class Closed(NamedTuple):
    """A closed log and its end offset; -1: it is offline, nothing is known."""

    log: PartitionLog
    end_offset: int


def close_logs(path: Path, logs: list[PartitionLog], side_files: SideFiles) -> list[Closed]:
    """Close logs of a data directory; StorageError when a file cannot be written or synced."""
    closed: list[Closed] = []
    in_threads(logs, lambda log: closed.append(Closed(log, recovery.close(log))), SYNC_THREADS)
    staged = {log: side_files.stage(log) for log, end_offset in closed if end_offset >= 0}
    changed = [log for log in staged if staged[log] or log.has_unsynced_indexes]
    if len(changed) > FILES_SYNCED_ONE_BY_ONE_MAX:
        file_ops.sync_filesystem(str(path))
    else:
        for log in changed:
            log.sync_indexes()
            for name in staged[log]:
                file_ops.sync_file(name + ".tmp")
    renamed = [log for log in changed if staged[log]]
    for log in renamed:
        side_files.rename_staged(log, staged[log])
    if len(renamed) > FILES_SYNCED_ONE_BY_ONE_MAX:
        file_ops.sync_filesystem(str(path))
    else:
        for log in renamed:
            file_ops.sync_folder(log.folder)
    return closed


def in_threads(items: Iterable[_Item], work: Callable[[_Item], object], threads_max: int) -> None:
    """Work on all items, some at a time; raises what the first that failed has raised."""
    all_items = list(items)
    waiting = iter(all_items)  # a list's iterator gives each item to one thread

    def work_on() -> None:
        for item in waiting:
            work(item)

    count = min(threads_max, len(all_items))
    if count == 0:
        return
    with ThreadPoolExecutor(count, thread_name_prefix="broker-close") as threads:
        for done in [threads.submit(work_on) for _ in range(count)]:
            done.result()
