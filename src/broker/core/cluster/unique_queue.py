"""A queue that holds each item once; the first key of a dict would be found in linear time."""

from collections import deque
from typing import Generic, TypeVar

_T = TypeVar("_T")


class UniqueQueue(Generic[_T]):
    """First in, first out."""

    __slots__ = ("_items", "_order")

    def __init__(self) -> None:
        """Begin empty."""
        self._order: deque[_T] = deque()
        self._items: set[_T] = set()

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._order)

    def add(self, item: _T) -> None:
        """Append an item, unless it is in the queue."""
        if item not in self._items:
            self._items.add(item)
            self._order.append(item)

    def first(self) -> _T:
        """Return the first item."""
        return self._order[0]

    def popleft(self) -> _T:
        """Remove and return the first item."""
        item = self._order.popleft()
        self._items.discard(item)
        return item
