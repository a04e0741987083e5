"""The memory that groups take, as far as clients decide it, and its budget.

Sizes are a lower estimate of the memory of Python objects. They are updated as groups change, so
that no walk over groups is needed. The sum over all coordinator partitions decides whether a group
may grow (`GroupMemoryBudget`).
"""

from collections.abc import Callable, Iterable

from broker.model import limits


class GroupMemoryBudget:
    """The limits of the number of groups and of their memory, over the whole broker."""

    def __init__(self, bytes_max: int, groups_max: int = limits.GROUPS_MAX) -> None:
        """Begin without a source of usage; it is read on demand, as shards come and go."""
        self._bytes_max = bytes_max
        self._groups_max = groups_max
        self._usage: Callable[[], Iterable[tuple[int, int]]] = lambda: ()

    def measure(self, memory_usage: Callable[[], Iterable[tuple[int, int]]]) -> None:
        """Set the source of usage: the number of groups, and their bytes, of each shard."""
        self._usage = memory_usage

    @property
    def allows_group(self) -> bool:
        """Whether one more group may be created."""
        groups = sum(count for count, _ in self._usage())
        return groups < self._groups_max and self.bytes_left >= limits.GROUP_BYTES

    def allows_bytes(self, added: int) -> bool:
        """Return whether memory may grow by so many bytes; always true for 0 and less."""
        return added <= 0 or added <= self.bytes_left

    @property
    def bytes_left(self) -> int:
        """The bytes left for all groups; negative if more is in use than is allowed."""
        return self._bytes_max - sum(size for _, size in self._usage())
