"""Checks the disk about once a second, and at once when a write has found no space.

statvfs, reserve (I/O thread) → core/maintenance/disk_space.py
  → flags of the native turn, urgency, log line
  → reserve shrunk or grown (I/O thread) → failed writes are repeated
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from broker._native.kernel import file_ops
from broker._native.log.turn import DiskState, Turn
from broker.core.health import Health
from broker.core.maintenance.disk_space import (
    FREE_IT,
    DiskSpace,
    Level,
    Observation,
    Space,
    bound_bytes,
    whole_reserve,
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


class _Disk:
    """The disk of one directory."""

    __slots__ = ("level", "measured", "path", "space", "state")

    def __init__(self, path: Path, state: DiskState) -> None:
        self.path = path
        self.state = state
        self.space = DiskSpace()
        self.level = self.space.level
        self.measured = Space(0, 0, 0, 0)

    def decide(self, space: Space, reserved: int) -> Observation:
        """Return the level that the disk has now."""
        has_failed, self.state.has_failed = self.state.has_failed, False
        return self.space.look(space, reserved, has_failed=has_failed)

    def apply(self, level: Level, space: Space) -> None:
        """Let the logs on the disk follow its level."""
        before, self.level, self.measured = self.level, level, space
        if level is not before:
            self.state.is_tight = level >= Level.TRIM
            self.state.refuses_clients = level >= Level.REFUSE
            self.state.is_read_only = level >= Level.READ_ONLY
            _log_level(self, before)


class DiskWatch(Service):
    """Applies the levels of the directories' disks to the broker.

    Records are refused for the partitions whose own disk is full. What frees space, and what is
    shown, follows the fullest disk; commits and new topics need the data directory's.

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
        others: Mapping[Path, DiskState] | None = None,
    ) -> None:
        """Keep what it needs; `when_changed` gets each new level, `health` also what is free.

        `path` is the data directory; `others` are more directories, which have no reserve.
        """
        self._home = _Disk(path, turn.disk)
        self._others = [_Disk(other, state) for other, state in (others or {}).items()]
        self._health = health
        self.measure: Callable[[str], tuple[int, int, int, int]] = file_ops.space
        self._turn = turn
        self._io_thread = io_thread
        self._when_changed = when_changed
        self._reserve = Reserve(path)
        self._fullest = self._home
        self._level = self._home.level  # the worst one
        self._is_called = asyncio.Event()
        turn.when_full = self._call

    def start(self) -> None:
        """Check before logs are recovered; a leftover reserve is shrunk if space is needed.

        Raises StorageError when statvfs fails. A reserve is only grown later, by `run`.
        """
        spaces, reserved = self._measure()
        observation = self._home.decide(spaces[self._home], reserved)
        self._apply(observation.level, spaces)
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
        return str(self._home.path), self._fullest.measured, int(self._level)

    def _call(self) -> None:
        self._is_called.set()

    async def _look(self) -> None:
        self._is_called.clear()
        spaces, reserved = await self._io_thread.run(self._measure)
        observation = self._home.decide(spaces[self._home], reserved)
        resize = partial(self._reserve.resize, observation.reserve_bytes)
        # It grows before clients are accepted again, and shrinks after they are refused.
        if observation.reserve_bytes > reserved:
            await self._io_thread.run(resize)
        self._apply(observation.level, spaces)
        if observation.reserve_bytes < reserved:
            await self._io_thread.run(resize)
        self._turn.retry_full()

    def _measure(self) -> tuple[dict[_Disk, Space], int]:
        spaces = {self._home: Space(*self.measure(str(self._home.path)))}
        for other in self._others:
            with suppress(StorageError, FileNotFoundError):  # its logs go offline
                spaces[other] = Space(*self.measure(str(other.path)))
        return spaces, self._reserve.size()

    def _apply(self, home_level: Level, spaces: dict[_Disk, Space]) -> None:
        for disk, space in spaces.items():
            level = home_level
            if disk is not self._home:  # nothing of it is reserved, and nothing counts as missing
                level = disk.decide(space, whole_reserve(space.total_bytes)).level
            disk.apply(level, space)
        self._fullest = max(spaces, key=_fullness)
        before, self._level = self._level, self._fullest.level
        self._health.disk_level = self._level
        self._health.disk_free_bytes = self._fullest.measured.free_bytes
        if self._level is not before:
            self._when_changed(self._level)


def _fullness(disk: _Disk) -> tuple[int, int]:
    """Return the level, and how many bytes are missing to the bound of refusing records."""
    space = disk.measured
    return disk.level, bound_bytes(Level.REFUSE, space.total_bytes) - space.free_bytes


def _log_level(disk: _Disk, before: Level) -> None:
    level, space = disk.level, disk.measured
    better = min(level + 1, Level.READ_ONLY) if level < before else level
    _log.log(
        logging.INFO if level is Level.NORMAL else logging.WARNING,
        "disk space has changed: level=%s before=%s free_bytes=%d total_bytes=%d bound_bytes=%d"
        " free_inodes=%d path=%s meaning=%s",
        level.name,
        before.name,
        space.free_bytes,
        space.total_bytes,
        bound_bytes(Level(better), space.total_bytes),
        space.free_inodes,
        disk.path,
        _MEANING[level],
    )
