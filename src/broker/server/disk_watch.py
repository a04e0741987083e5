"""Checks the disk about once a second, and at once when a write has found no space.

statvfs, reserve (I/O thread) → core/maintenance/disk_space.py
  → flags of the native turn, urgency, log line
  → reserve shrunk or grown (I/O thread) → failed writes are repeated
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from broker._native.kernel import file_ops
from broker._native.log.turn import Turn
from broker.core.health import Health
from broker.core.maintenance.disk_space import (
    FREE_IT,
    DiskSpace,
    Level,
    Observation,
    Space,
    bound_bytes,
)
from broker.core.scheduling.events import is_set_within
from broker.core.scheduling.io_thread import IoThread
from broker.core.service import Service
from broker.model import limits
from broker.model.errors import StorageError
from broker.storage.reserve import Reserve

_log = logging.getLogger(__name__)
_MEANING = {
    Level.NORMAL: "the disk has enough space",
    Level.LOW: "the disk is running out of space",
    Level.TRIM: f"expired segments and deleted topics are removed without delay; {FREE_IT}",
    Level.REFUSE: f"records of clients are refused until space is free: {FREE_IT}",
    Level.READ_ONLY: f"records and commits are refused until space is free: {FREE_IT}",
}


class DiskWatch(Service):
    """Applies the level of the data directory's disk to the broker.

    Attributes:
        measure: returns the fields of Space for a path.
    """

    name = "disk watch"

    def __init__(
        self,
        path: Path,
        turn: Turn,
        io_thread: IoThread,
        when_changed: Callable[[Level], None],
        health: Health,
        others: Sequence[Path] = (),
    ) -> None:
        """Keep what it needs; `when_changed` gets each new level, `health` also what is free.

        The level is that of the fullest disk: of `path` and of `others`, which have no reserve.
        """
        self._others = others
        self._health = health
        self.measure: Callable[[str], tuple[int, int, int, int]] = file_ops.space
        self._path = path
        self._turn = turn
        self._io_thread = io_thread
        self._when_changed = when_changed
        self._space = DiskSpace()
        self._reserve = Reserve(path)
        self._level = self._space.level
        self._measured = Space(0, 0, 0, 0)
        self._has_failed = False  # a write has failed since the last check
        self._is_called = asyncio.Event()
        turn.when_full = self._call

    def start(self) -> None:
        """Check before logs are recovered; a leftover reserve is shrunk if space is needed.

        Raises StorageError when statvfs fails. A reserve is only grown later, by `run`.
        """
        space, reserved = self._measure()
        observation = self._decide(space, reserved)
        self._apply(observation.level, space)
        self._reserve.resize(min(reserved, observation.reserve_bytes))

    async def run(self) -> None:
        """Check periodically; runs until cancelled."""
        while True:
            try:
                await self._look()
            except StorageError as error:
                _log.warning("disk not checked: error=%s", error)
            await is_set_within(self._is_called, limits.DISK_LOOK_SECONDS)

    async def stop(self) -> None:
        """Remove the reserve: no other program should find its space occupied."""
        try:
            self._reserve.remove()
        except StorageError as error:
            _log.warning("disk reserve not removed: error=%s", error)

    @property
    def state(self) -> tuple[str, Space, int]:
        """The data directory, the space of the fullest disk at the last check, and its level."""
        return str(self._path), self._measured, int(self._level)

    def _call(self) -> None:
        self._has_failed = True
        self._is_called.set()

    async def _look(self) -> None:
        self._is_called.clear()
        space, reserved = await self._io_thread.run(self._measure)
        observation = self._decide(space, reserved)
        resize = partial(self._reserve.resize, observation.reserve_bytes)
        # It grows before clients are accepted again, and shrinks after they are refused.
        if observation.reserve_bytes > reserved:
            await self._io_thread.run(resize)
        self._apply(observation.level, space)
        if observation.reserve_bytes < reserved:
            await self._io_thread.run(resize)
        self._turn.retry_full()

    def _measure(self) -> tuple[Space, int]:
        spaces = [Space(*self.measure(str(self._path)))]
        for other in self._others:
            with suppress(StorageError, FileNotFoundError):  # its logs go offline
                spaces.append(Space(*self.measure(str(other))))
        return min(spaces, key=_left), self._reserve.size()

    def _decide(self, space: Space, reserved: int) -> Observation:
        has_failed, self._has_failed = self._has_failed, False
        return self._space.look(space, reserved, has_failed=has_failed)

    def _apply(self, level: Level, space: Space) -> None:
        before, self._level = self._level, level
        self._measured = space
        self._health.disk_level, self._health.disk_free_bytes = level, space.free_bytes
        if level is not before:
            self._turn.is_tight = level >= Level.TRIM
            self._turn.refuses_clients = level >= Level.REFUSE
            self._turn.is_read_only = level >= Level.READ_ONLY
            _log_level(level, before, space)
            self._when_changed(level)


def _left(space: Space) -> int:
    """Return how many bytes are free above the bound of refusing records."""
    return space.free_bytes - bound_bytes(Level.REFUSE, space.total_bytes)


def _log_level(level: Level, before: Level, space: Space) -> None:
    better = min(level + 1, Level.READ_ONLY) if level < before else level
    _log.log(
        logging.INFO if level is Level.NORMAL else logging.WARNING,
        "disk space has changed: level=%s before=%s free_bytes=%d total_bytes=%d bound_bytes=%d"
        " free_inodes=%d meaning=%s",
        level.name,
        before.name,
        space.free_bytes,
        space.total_bytes,
        bound_bytes(Level(better), space.total_bytes),
        space.free_inodes,
        _MEANING[level],
    )
