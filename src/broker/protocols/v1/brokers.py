"""The brokers that have registered with ADMIN_REGISTER_BROKER, and this one.

There is no cluster: the list only serves ADMIN_GET_METADATA and is lost at a restart. Term and
index, which V1's responses contain, are those of a Raft log with one voter: the term is constant,
the index counts changes.
"""

from typing import Final

from broker.protocols.v1.errors import bad_request

TERM: Final = 1


class Brokers:
    """The ids of registered brokers; pure."""

    __slots__ = ("_brokers_max", "_index", "_registered")

    def __init__(self, brokers_max: int) -> None:
        """Start with no registered broker; at most `brokers_max` may register."""
        self._registered: set[int] = set()
        self._brokers_max = brokers_max
        self._index = 0

    def register(self, broker_id: int) -> int:
        """Add a broker, which may be registered already, and return the index of the change.

        Raises:
            RefusedError: as many brokers are registered as may be.
        """
        if broker_id not in self._registered and len(self._registered) >= self._brokers_max:
            raise bad_request(f"{self._brokers_max} brokers are registered, no more can be")
        self._registered.add(broker_id)
        return self.next_index()

    def known(self, own_id: int) -> list[int]:
        """Return the ids of all brokers, ascending; `own_id` is this broker's."""
        return sorted(self._registered | {own_id})

    def next_index(self) -> int:
        """Count one more change and return its index."""
        self._index += 1
        return self._index
