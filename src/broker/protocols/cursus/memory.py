"""What the dialect remembers for all of its connections, not over a restart."""

import asyncio
from collections.abc import Callable
from typing import Final

from broker.model.identifiers import random_below

_SUFFIX_MIN: Final = 1_000  # all have four digits
_SUFFIXES: Final = 9_000
COMMIT_LOCKS: Final = 64  # groups share them: one of several that commit waits for another


class Memory:
    """Whose turn it is."""

    __slots__ = ("_below", "_commits", "_published")

    def __init__(self, below: Callable[[int], int] = random_below) -> None:
        """Start with nobody waiting; `below` draws a number from 0 up to, without, another."""
        self._below = below
        self._published = 0
        self._commits = [asyncio.Lock() for _ in range(COMMIT_LOCKS)]

    def next_partition(self, partition_count: int) -> int:
        """Where the next message goes that has no key."""
        self._published += 1
        return (self._published - 1) % partition_count

    def member_suffix(self) -> str:
        """What makes the id of a new member unique, four digits."""
        return str(_SUFFIX_MIN + self._below(_SUFFIXES))

    def commit_lock(self, group: str) -> asyncio.Lock:
        """Held while a commit of a group is compared with the one before."""
        return self._commits[hash(group) % COMMIT_LOCKS]
