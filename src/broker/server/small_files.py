"""Writes of small files while the broker serves; a lost data directory ends the process."""

import errno
import logging
from collections.abc import Callable
from pathlib import Path

from broker.core.scheduling.io_thread import IoThread
from broker.model.errors import StorageError
from broker.storage.log_dir import LogDir

_DISK_IS_GONE = (errno.EIO, errno.EROFS, errno.ENODEV)

_log = logging.getLogger(__name__)


class SmallFiles:
    """Runs work on the data directory's small files in the I/O thread."""

    def __init__(self, log_dir: LogDir, io_thread: IoThread, when_lost: Callable[[], None]) -> None:
        """Keep what it needs; `when_lost` is called when nothing can be written any more."""
        self._log_dir = log_dir
        self._io_thread = io_thread
        self._when_lost = when_lost

    @property
    def folder(self) -> Path:
        """The data directory, or what this broker has of one that several brokers share."""
        return self._log_dir.own

    async def write(self, work: Callable[[], None]) -> bool:
        """Run work in the I/O thread; return whether it succeeded. Its errors are logged."""
        try:
            await self._io_thread.run(work)
        except (StorageError, FileNotFoundError) as error:
            if _is_of_a_lost_disk(error) and await self._is_directory_lost():
                _log.critical("the data directory has failed: error=%s", error)
                self._when_lost()
            else:
                _log.warning("small file not written: error=%s", error)
            return False
        return True

    async def probe(self) -> bool:
        """Write a file to find out whether the data directory can be written."""
        return await self.write(self._log_dir.probe)

    async def _is_directory_lost(self) -> bool:
        """Whether no file of the data directory can be written, not just one of some log."""
        try:
            await self._io_thread.run(self._log_dir.probe)
        except (StorageError, FileNotFoundError) as error:
            return _is_of_a_lost_disk(error)
        return False


def _is_of_a_lost_disk(error: Exception) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _DISK_IS_GONE
