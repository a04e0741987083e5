"""Takes all logs of a directory offline once one of them has failed because the directory has.

A log fails when it is read, written or synced. Of one that is idle this broker would still be the
leader, or a member of the ISR, and others would wait for it from the next write on. The first
directory is left out: without that one the broker ends.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from broker._native.log.partition_log import PartitionLog
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.steps import in_steps
from broker.model import limits
from broker.storage.directories import Directories

_log = logging.getLogger(__name__)


class FailedDirectories:
    """The directories that have failed in this run."""

    def __init__(
        self,
        directories: Directories,
        io_thread: IoThread,
        logs: Callable[[], Iterable[tuple[PartitionLog, object]]],
    ) -> None:
        """Keep what it needs; `logs` iterates over every log, with what is not needed here."""
        self._directories = directories
        self._io_thread = io_thread
        self._logs = logs
        self._failed: set[str] = set()

    async def logs_failed(self, logs: Iterable[PartitionLog]) -> None:
        """Look at the directories of logs that have gone offline."""
        found: dict[str, PartitionLog] = {}
        async for log in in_steps(logs, limits.LOGS_ANNOUNCED_PER_STEP):
            found.setdefault(_directory(log), log)
        for directory, log in found.items():
            if directory != str(self._directories.home) and directory not in self._failed:
                await self._look(directory, Path(log.folder))

    def loaded(self, log: PartitionLog) -> None:
        """Take a log offline that was loaded while its directory failed."""
        if _directory(log) in self._failed:
            log.end_service()

    async def _look(self, directory: str, folder: Path) -> None:
        if self._directories.takes(folder.parent):
            await self._io_thread.run(partial(self._directories.check, [folder]))
        if self._directories.takes(folder.parent):
            return
        self._failed.add(directory)
        count = 0
        async for log, _ in in_steps(self._logs(), limits.LOGS_ANNOUNCED_PER_STEP):
            # (One that is cut belongs to a thread, which writes to the directory, too.)
            if _directory(log) == directory and not log.is_loading:
                count += log.end_service()
        if count:
            _log.error(
                "other logs of a failed directory offline: path=%s count=%d", directory, count
            )


def _directory(log: PartitionLog) -> str:
    return log.folder.rpartition("/")[0]
