"""The brokers that have registered, for V1's clients to ask after; this one is always among them.

There is no cluster: the list is what was said, and it is not kept over a restart. Term and index
are those of a store with one voter, which counts its changes.
"""

from typing import Final

from broker.protocols.v1.errors import bad_request

TERM: Final = 1


class Brokers:
    """Who has registered; pure."""

    __slots__ = ("_brokers_max", "_index", "_registered")

    def __init__(self, brokers_max: int) -> None:
        """Remember so many brokers at most."""
        self._registered: set[int] = set()
        self._brokers_max = brokers_max
        self._index = 0

    def register(self, broker_id: int) -> int:
        """Add a broker, or hear of it again; the change's index."""
        if broker_id not in self._registered and len(self._registered) >= self._brokers_max:
            raise bad_request(f"{self._brokers_max} brokers are registered, no more can be")
        self._registered.add(broker_id)
        return self.next_index()

    def known(self, own_id: int) -> list[int]:
        """Every broker's id, ascending."""
        return sorted(self._registered | {own_id})

    def next_index(self) -> int:
        """The index of one more change."""
        self._index += 1
        return self._index
