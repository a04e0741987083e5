"""What the groups of one coordinator partition take of the memory, as far as members decide it.

An estimate from below of what Python objects take, kept as groups change, so that nothing is walked
to know it. Who may grow is decided by the sum of all partitions (`GroupMemoryBudget`).
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from broker.model import limits


class Weighed(Protocol):
    """What keeps something of groups."""

    @property
    def weight(self) -> int:
        """How many bytes it takes."""


class GroupMemoryBudget:
    """How many groups the whole broker may have, and how much they may hold."""

    def __init__(self, bytes_max: int, groups_max: int = limits.GROUPS_MAX) -> None:
        """Count on demand: shards are loaded and dropped, and say nothing of it."""
        self._bytes_max = bytes_max
        self._groups_max = groups_max
        self._held: Callable[[], Iterable[tuple[int, int]]] = lambda: ()

    def count(self, held: Callable[[], Iterable[tuple[int, int]]]) -> None:
        """Count what these hold: groups and bytes of each shard."""
        self._held = held

    @property
    def has_group(self) -> bool:
        """Whether one more group may be known."""
        held = list(self._held())
        groups, size = map(sum, zip(*held, strict=True)) if held else (0, 0)
        return groups < self._groups_max and size + limits.GROUP_BYTES <= self._bytes_max

    def has_bytes(self, growth: int) -> bool:
        """Whether so much more may be held; what does not grow always may."""
        return growth <= 0 or growth <= self.bytes_left

    @property
    def bytes_left(self) -> int:
        """How much may be added to what all groups hold; negative when there is too much."""
        return self._bytes_max - sum(size for _, size in self._held())


class GroupSizes:
    """The weights of groups by name, and their sum."""

    __slots__ = ("_by_name", "total")

    def __init__(self) -> None:
        """Begin with nothing."""
        self._by_name: dict[str, int] = {}
        self.total = 0

    def update(self, name: str, group: Weighed | None) -> None:
        """A group may weigh something else now; None: it is gone."""
        before = self._by_name.pop(name, 0)
        now = 0 if group is None else group.weight
        if group is not None:
            self._by_name[name] = now
        self.total += now - before
