"""Guarded changes of many keys, in transactions of up to 100, several of them in flight.

One item stands for one key. Whether and how it is changed is decided from the image at the moment
when its transaction is made. An item is

    state      event                                next
    -          mark                                 marked
    marked     taken, and nothing is to be changed  -
    marked     taken, and a change is decided       in flight
    in flight  applied at a revision                - once the image includes that revision
    in flight  refused                              marked at the next change of the image, or later
    in flight  outcome unknown                      marked later
    in flight  mark                                 marked when it is no longer in flight

Later is CLUSTER_RETRY_MS later. So one write is in flight per key, and each decision is made from
an image that includes the previous one.

A refused transaction means that the image was old in one of its keys. All of it is decided again,
in transactions of half the size, so that one busy key does not keep 99 others waiting; the size
doubles with each one that is applied. A transaction whose outcome is unknown may be applied later:
then the guards of whatever was decided after it no longer hold, and that is decided again.

Equal guards of several changes are one, and no transaction has more than a store takes.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import Transaction
from broker.core.cluster.unique_queue import UniqueQueue
from broker.model.limits import (
    CLUSTER_CHANGES_PER_TRANSACTION,
    CLUSTER_PARTITIONS_PER_STEP,
    CLUSTER_RETRY_MS,
    CLUSTER_WRITES_IN_FLIGHT_MAX,
    METADATA_OPS_PER_TRANSACTION_MAX,
)
from broker.storage.metadata import Guard, Operation

Item: TypeAlias = tuple[bytes, int]  # a topic id and a partition, or a number below 0
Change: TypeAlias = tuple[Sequence[Guard], Operation]

_GUARDS_BESIDES_REPLICAS = 2  # that of its key; a leader that shares its directory is no replica
_SLICES_PER_TRANSACTION = 2
# A decision with a change takes as long as so many without one.
_LOOKS_PER_CHANGE = (
    CLUSTER_PARTITIONS_PER_STEP * _SLICES_PER_TRANSACTION // CLUSTER_CHANGES_PER_TRANSACTION
)


class Write(NamedTuple):
    """A transaction to execute; then call `applied`, `refused` or `unknown`."""

    items: Sequence[Item]
    transaction: Transaction


class _Begun:
    """A transaction that is being made."""

    __slots__ = ("guards", "items", "operations", "slices")

    def __init__(self, fence: Guard) -> None:
        self.items: list[Item] = []
        self.guards: dict[Guard, None] = {fence: None}
        self.operations: list[Operation] = []
        self.slices = 0

    def add(self, item: Item, change: Change) -> None:
        self.items.append(item)
        self.guards.update(dict.fromkeys(change[0]))
        self.operations.append(change[1])


class GuardedWrites:
    """The items, and the transactions in flight."""

    __slots__ = (
        "_again",
        "_applied",
        "_begun",
        "_decide",
        "_fence",
        "_image",
        "_in_flight",
        "_marked",
        "_refused",
        "_size",
        "_urgent",
        "_waiting",
        "in_flight",
    )

    def __init__(
        self,
        image: ClusterImage,
        fence: Guard,
        decide: Callable[[Item], Change | None],
    ) -> None:
        """Begin with nothing marked.

        Args:
            image: what decisions are made from.
            fence: a guard of every transaction: that its maker may still change anything.
            decide: returns the change of an item's key and the guards of it, or None.
        """
        self.in_flight = 0  # transactions
        self._image = image
        self._fence = fence
        self._decide = decide
        self._urgent: UniqueQueue[Item] = UniqueQueue()
        self._marked: UniqueQueue[Item] = UniqueQueue()  # some of them are urgent, too
        self._in_flight: set[Item] = set()
        self._again: dict[Item, bool] = {}  # in flight, and marked meanwhile: whether it is urgent
        self._applied: deque[tuple[int, Sequence[Item]]] = deque()  # revisions, items
        self._waiting: deque[tuple[int, list[Item]]] = deque()  # times, items
        self._refused: list[list[Item]] = []  # some of the same lists: they are emptied
        self._size = CLUSTER_CHANGES_PER_TRANSACTION
        self._begun = _Begun(fence)

    # ---- items
    # ---------------------------------------------------------------------------------------------

    def mark(self, item: Item, *, is_urgent: bool = False) -> None:
        """Let an item be decided; urgent ones are taken first."""
        if item in self._in_flight:
            self._again[item] = is_urgent or self._again.get(item, False)
        elif is_urgent:
            self._urgent.add(item)
        else:
            self._marked.add(item)

    @property
    def has_marked(self) -> bool:
        """Whether any item can be taken now, or a transaction is begun."""
        has_items = bool(self._urgent) or bool(self._marked) or bool(self._begun.items)
        return has_items and self.in_flight < CLUSTER_WRITES_IN_FLIGHT_MAX

    @property
    def has_many_urgent(self) -> bool:
        """Whether a whole transaction of urgent items can be taken now, or one is begun."""
        return self.has_marked and len(self._begun.items) + len(self._urgent) >= self._size

    @property
    def due_ms(self) -> int | None:
        """When `tick` has something to do; None: not before another call."""
        return self._waiting[0][0] if self._waiting else None

    # ---- transactions
    # ---------------------------------------------------------------------------------------------

    def take(self) -> Write | None:
        """Return the next transaction; None when it is not complete, or nothing is to be changed.

        One call is a slice of 1 ms. A transaction takes two at most: whatever is decided in the
        first one has its guards.
        """
        begun = self._begun
        begun.slices += 1
        is_complete = not self._decide_some(begun) or begun.slices == _SLICES_PER_TRANSACTION
        if not begun.items:
            begun.slices = 0
        if not (begun.items and is_complete):
            return None
        self._begun = _Begun(self._fence)
        self.in_flight += 1
        return Write(begun.items, Transaction(list(begun.guards), begun.operations))

    def _decide_some(self, begun: _Begun) -> bool:
        """Add changes to a transaction, for one slice; return whether there is room for others."""
        looks = CLUSTER_PARTITIONS_PER_STEP
        for queue in (self._urgent, self._marked):
            while queue:
                item = queue.first()
                if len(begun.items) >= self._size or not self._has_room(begun, item):
                    return False
                if looks <= 0:
                    return True
                queue.popleft()
                looks -= 1
                change = None if item in self._in_flight else self._decide(item)
                if change is not None:
                    looks -= _LOOKS_PER_CHANGE - 1
                    begun.add(item, change)
                    self._in_flight.add(item)
        return False

    def _has_room(self, begun: _Begun, item: Item) -> bool:
        """Return whether a store takes a transaction with another change."""
        return not begun.items or (
            len(begun.guards) + self._guards_max(item) <= METADATA_OPS_PER_TRANSACTION_MAX
        )

    def _guards_max(self, item: Item) -> int:
        """Return how many guards a change of an item has at most."""
        state = self._image.state(*item) if item[1] >= 0 else None
        members = 0 if state is None else len(state.replicas)
        return members + _GUARDS_BESIDES_REPLICAS

    def applied(self, write: Write, revision: int) -> None:
        """Note that a transaction was applied."""
        self.in_flight -= 1
        self._size = min(2 * self._size, CLUSTER_CHANGES_PER_TRANSACTION)
        if revision <= self._image.revision:
            self._release(write.items)
        else:
            self._applied.append((revision, write.items))

    def refused(self, write: Write, now_ms: int) -> None:
        """Note that a guard of a transaction did not hold."""
        self.in_flight -= 1
        self._size = max(self._size // 2, 1)
        items = list(write.items)
        self._refused.append(items)
        self._waiting.append((now_ms + CLUSTER_RETRY_MS, items))

    def unknown(self, write: Write, now_ms: int) -> None:
        """Note that a transaction may have been applied, may yet be, or never will."""
        self.in_flight -= 1
        self._waiting.append((now_ms + CLUSTER_RETRY_MS, list(write.items)))

    # ---- the image and time
    # ---------------------------------------------------------------------------------------------

    def image_changed(self) -> None:
        """Call when the image has changed: what was refused is decided again."""
        revision = self._image.revision
        for _ in range(len(self._applied)):  # not in the order of the revisions
            applied = self._applied.popleft()
            if applied[0] <= revision:
                self._release(applied[1])
            else:
                self._applied.append(applied)
        # What is left of very many is decided at the next change, or when it has waited.
        refused = [items for items in self._refused if items]
        self._refused = refused[CLUSTER_WRITES_IN_FLIGHT_MAX:]
        for items in refused[:CLUSTER_WRITES_IN_FLIGHT_MAX]:
            self._decide_again(items)

    def tick(self, now_ms: int) -> None:
        """Decide again some of what has waited long enough: as much as takes 1 ms."""
        for _ in range(CLUSTER_WRITES_IN_FLIGHT_MAX):
            if not self._waiting or self._waiting[0][0] > now_ms:
                break
            self._decide_again(self._waiting.popleft()[1])

    def _decide_again(self, items: list[Item]) -> None:
        self._release(items)
        for item in items:
            self.mark(item, is_urgent=True)
        items.clear()

    def _release(self, items: Sequence[Item]) -> None:
        self._in_flight.difference_update(items)
        for item in items:
            if item in self._again:
                self.mark(item, is_urgent=self._again.pop(item))
