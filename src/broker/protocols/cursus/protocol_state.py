"""The state that all of the protocol's connections share; it is lost at a restart."""

from collections.abc import Callable
from typing import Final

from broker._native.protocols.cursus.publish import RoundRobin
from broker.model.identifiers import random_below
from broker.protocols.cursus.event_streams.tables import EventStreams
from broker.protocols.cursus.named_producers.tables import NamedProducers
from broker.protocols.cursus.staged import Transactions
from broker.protocols.cursus.streams import Streams

_SUFFIX_MIN: Final = 1_000  # all have four digits
_SUFFIXES: Final = 9_000


class ProtocolState:
    """Round robin of partitions, suffixes of new members, open streams, staged transactions.

    Attributes:
        named_producers: set when the protocol is attached to a broker.
        event_streams: streams of events.
    """

    __slots__ = ("_below", "event_streams", "named_producers", "streams", "transactions", "turns")

    named_producers: NamedProducers

    def __init__(self, below: Callable[[int], int] = random_below) -> None:
        """Start empty; `below(n)` returns a random integer from 0 to n - 1."""
        self._below = below
        self.event_streams = EventStreams()
        self.turns = RoundRobin()
        self.streams = Streams()
        self.transactions = Transactions()

    def member_suffix(self) -> str:
        """Return four random digits that are appended to the id of a new member."""
        return str(_SUFFIX_MIN + self._below(_SUFFIXES))
