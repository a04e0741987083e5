"""How full the data directory's disk is, and what follows: a state machine without a disk.

    free bytes or inodes below    level        what is done, what is refused
    15 %                          LOW          a line in the log
    8 %                           TRIM         what retention and deletes let go of goes at once
    5 %, at most 1 GiB            REFUSE       clients' records; the reserve is given up
    2 %, at most 400 MiB          READ_ONLY    commits, groups and new topics too

A level is left for a better one when there is a quarter more than it asks for. Fetches, deletes and
changes of settings go on at every level. A write that found no room counts as REFUSE until the next
look: a quota does not show in what the file system says. When it has looked like room and was none
again and again, for more looks each time, up to a bound; it takes as many quiet ones to forget.

The reserve is a file that takes room as long as there is enough. Down to REFUSE the levels count
what is missing of it as taken, so that giving it up does not look like room. A small last part of
it is kept for deletes until READ_ONLY, which counts that part alone.
"""

from enum import IntEnum
from typing import NamedTuple

from broker.model import limits


class Level(IntEnum):
    """How full, the worst last."""

    NORMAL = 0
    LOW = 1
    TRIM = 2
    REFUSE = 3
    READ_ONLY = 4


class Space(NamedTuple):
    """What a file system has in all, and what this user may still take of it.

    Inodes are 0 and 0 where they are not counted.
    """

    total_bytes: int
    free_bytes: int
    total_inodes: int
    free_inodes: int


class Observation(NamedTuple):
    """What a look has found: the level from now on, and how large the reserve is to be then."""

    level: Level
    reserve_bytes: int


class DiskSpace:
    """The level of one disk."""

    __slots__ = ("_held_looks", "_hold_looks", "level")

    def __init__(self) -> None:
        """Take it that there is room."""
        self.level = Level.NORMAL
        self._hold_looks = 0  # for how many a write that finds no room counts
        self._held_looks = 0  # how many are left of them

    def look(self, space: Space, reserve_bytes: int, *, found_none: bool) -> Observation:
        """Decide by what the disk has while the reserve takes so many bytes of it.

        `found_none`: a write has found no room since the last look.
        """
        was_open = self.level < Level.REFUSE
        entered = _level(space, reserve_bytes, 1.0)
        kept = _level(space, reserve_bytes, limits.DISK_LEVEL_LEFT_AT)
        self.level = max(entered, min(kept, self.level))
        looks_free = self.level < Level.REFUSE
        if self._held_looks:
            self._held_looks -= 1
        elif found_none and was_open and looks_free:
            self._hold_looks = min(max(2 * self._hold_looks, 1), limits.DISK_HOLD_LOOKS_MAX)
            self._held_looks = self._hold_looks - 1
        elif was_open and not found_none:
            self._hold_looks = max(self._hold_looks - 1, 0)
        if found_none or self._held_looks:
            self.level = max(self.level, Level.REFUSE)
        return Observation(self.level, _reserve_wanted(self.level, space, reserve_bytes))


def bound_bytes(level: Level, total_bytes: int) -> int:
    """How many bytes have to be free so that a level is not entered."""
    percent, bytes_max = limits.DISK_LEVELS[level - 1]
    return min(total_bytes * percent // 100, bytes_max)


def whole_reserve(total_bytes: int) -> int:
    """How large the reserve of a disk is."""
    return min(limits.DISK_RESERVE_BYTES_MAX, total_bytes // limits.DISK_RESERVE_SHARE)


def last_reserve(total_bytes: int) -> int:
    """The part of it that deletes have for themselves."""
    return whole_reserve(total_bytes) // limits.DISK_LAST_RESERVE_SHARE


def _level(space: Space, reserve_bytes: int, factor: float) -> Level:
    """The worst level of which less is free than `factor` times its bound."""
    for level in (Level.READ_ONLY, Level.REFUSE, Level.TRIM, Level.LOW):
        free = _free_bytes(level, space, reserve_bytes)
        if free < factor * bound_bytes(level, space.total_bytes):
            return level
        if space.total_inodes and space.free_inodes < factor * _bound_inodes(level, space):
            return level
    return Level.NORMAL


def _free_bytes(level: Level, space: Space, reserve_bytes: int) -> int:
    """What is free once the part of the reserve that the level counts on is there again."""
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
