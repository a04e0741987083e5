"""How full the data directory's disk is, and what follows from it: pure, without I/O.

    free bytes or inodes below    level        effect
    15 %                          LOW          a line in the log
    8 %                           TRIM         expired segments and deleted topics are removed
                                               without their delay
    5 %, at most 1 GiB            REFUSE       records of clients are refused; the reserve is freed
    2 %, at most 400 MiB          READ_ONLY    commits, groups and new topics are refused too

A level is left for a better one when a quarter more is free than its bound. Fetches, deletes and
changes of settings are served at every level. A write that failed with "no space" counts as REFUSE
until the next check: a quota does not show in what the file system reports. If that happens again
although the file system reports free space, REFUSE lasts for twice as many checks each time, up to
a bound, and for one less after each check without such a failure.

The reserve is a file that occupies space while there is enough. Down to REFUSE, the part of the
reserve that is missing counts as used, so that freeing it does not look like free space. A small
last part of it is kept for deletes until READ_ONLY, which counts that part alone.
"""

from enum import IntEnum
from typing import NamedTuple

from broker.model import limits

FREE_IT = "delete topics or records, lower retention.ms or retention.bytes, or make the disk larger"


class Level(IntEnum):
    """How full the disk is, from free to full."""

    NORMAL = 0
    LOW = 1
    TRIM = 2
    REFUSE = 3
    READ_ONLY = 4


class Space(NamedTuple):
    """Size of a file system, and what this user may still allocate.

    Inodes are 0 and 0 where they are not counted.
    """

    total_bytes: int
    free_bytes: int
    total_inodes: int
    free_inodes: int


class Observation(NamedTuple):
    """The result of a check: the level from now on, and the size that the reserve should have."""

    level: Level
    reserve_bytes: int


class DiskSpace:
    """The level of one disk."""

    def __init__(self) -> None:
        """Start at the level NORMAL."""
        self.level = Level.NORMAL
        self._hold_looks = 0  # for how many checks a failed write keeps the level at REFUSE
        self._held_looks = 0  # how many of them are left

    def look(self, space: Space, reserve_bytes: int, *, has_failed: bool) -> Observation:
        """Determine the level from the free space while the reserve has `reserve_bytes`.

        `has_failed`: a write has failed for lack of space since the last check.
        """
        was_open = self.level < Level.REFUSE
        entered = _level(space, reserve_bytes, 1.0)
        kept = _level(space, reserve_bytes, limits.DISK_LEVEL_LEFT_AT)
        self.level = max(entered, min(kept, self.level))
        looks_free = self.level < Level.REFUSE
        if self._held_looks:
            self._held_looks -= 1
        elif has_failed and was_open and looks_free:
            self._hold_looks = min(max(2 * self._hold_looks, 1), limits.DISK_HOLD_LOOKS_MAX)
            self._held_looks = self._hold_looks
        elif was_open and not has_failed:
            self._hold_looks = max(self._hold_looks - 1, 0)
        if has_failed or self._held_looks:
            self.level = max(self.level, Level.REFUSE)
        return Observation(self.level, _reserve_wanted(self.level, space, reserve_bytes))


def bound_bytes(level: Level, total_bytes: int) -> int:
    """Return how many bytes have to be free so that a level is not entered."""
    percent, bytes_max = limits.DISK_LEVELS[level - 1]
    return min(total_bytes * percent // 100, bytes_max)


def whole_reserve(total_bytes: int) -> int:
    """Return the full size of the reserve."""
    return min(limits.DISK_RESERVE_BYTES_MAX, total_bytes // limits.DISK_RESERVE_SHARE)


def last_reserve(total_bytes: int) -> int:
    """Return the size of the last part of the reserve, which is kept for deletes."""
    return whole_reserve(total_bytes) // limits.DISK_LAST_RESERVE_SHARE


def _level(space: Space, reserve_bytes: int, factor: float) -> Level:
    """Return the worst level of which less is free than `factor` times its bound."""
    for level in (Level.READ_ONLY, Level.REFUSE, Level.TRIM, Level.LOW):
        free = _free_bytes(level, space, reserve_bytes)
        if free < factor * bound_bytes(level, space.total_bytes):
            return level
        if space.total_inodes and space.free_inodes < factor * _bound_inodes(level, space):
            return level
    return Level.NORMAL


def _free_bytes(level: Level, space: Space, reserve_bytes: int) -> int:
    """Return what would be free if the level's part of the reserve were complete."""
    part = last_reserve if level is Level.READ_ONLY else whole_reserve
    return space.free_bytes - max(0, part(space.total_bytes) - reserve_bytes)


def _bound_inodes(level: Level, space: Space) -> int:
    percent, _ = limits.DISK_LEVELS[level - 1]
    return min(space.total_inodes * percent // 100, limits.DISK_INODES[level - 1])


def _reserve_wanted(level: Level, space: Space, reserve_bytes: int) -> int:
    if level < Level.REFUSE:
        return whole_reserve(space.total_bytes)
    if level is Level.REFUSE:
        return min(reserve_bytes, last_reserve(space.total_bytes))
    return 0
