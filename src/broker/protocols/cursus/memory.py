"""What the dialect remembers for all of its connections, not over a restart."""

from collections.abc import Callable
from typing import Final

from broker._native.wire.cursus_publish import RoundRobin
from broker.model.identifiers import random_below
from broker.protocols.cursus.staged import Transactions
from broker.protocols.cursus.streams import Streams

_SUFFIX_MIN: Final = 1_000  # all have four digits
_SUFFIXES: Final = 9_000


class Memory:
    """Whose turn it is, what names new members, open streams, what transactions have staged."""

    __slots__ = ("_below", "streams", "transactions", "turns")

    def __init__(self, below: Callable[[int], int] = random_below) -> None:
        """Start anew; `below` draws a number from 0 up to, without, another."""
        self._below = below
        self.turns = RoundRobin()
        self.streams = Streams()
        self.transactions = Transactions()

    def next_partition(self, partition_count: int) -> int:
        """Where the next message goes that has no key."""
        return self.turns.next(partition_count)

    def member_suffix(self) -> str:
        """What makes the id of a new member unique, four digits."""
        return str(_SUFFIX_MIN + self._below(_SUFFIXES))
