"""Guarded changes of many keys: what is in one transaction, and how long it takes to make it."""

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.writes import Change, GuardedWrites, Item, Write
from broker.model.limits import CLUSTER_CHANGES_PER_TRANSACTION, CLUSTER_PARTITIONS_PER_STEP
from broker.storage.metadata import Absent, CreatedAt, Put

FENCE = CreatedAt(b"fence", 1)


class Writer:
    """Changes the items of topic `c`, and no others."""

    def __init__(self) -> None:
        self.writes = GuardedWrites(ClusterImage(), FENCE, self._decide)
        self.decided: list[Item] = []

    def _decide(self, item: Item) -> Change | None:
        self.decided.append(item)
        key = b"%b/%d" % item
        return ((Absent(key),), Put(key, b"")) if item[0] == b"c" else None

    def slices(self, count_max: int) -> tuple[int, Write | None]:
        """Return the number of slices until there is a transaction, and that."""
        for number in range(1, count_max + 1):
            write = self.writes.take()
            if write is not None:
                return number, write
        return count_max, None


def test_a_full_transaction_is_made_in_two_slices() -> None:
    writer = Writer()
    for number in range(CLUSTER_CHANGES_PER_TRANSACTION + 1):
        writer.writes.mark((b"c", number))

    assert writer.writes.take() is None
    assert len(writer.decided) <= CLUSTER_CHANGES_PER_TRANSACTION // 2 + 2
    assert writer.writes.has_marked
    write = writer.writes.take()

    assert write is not None
    assert len(write.items) == len(write.transaction.operations) == CLUSTER_CHANGES_PER_TRANSACTION
    assert write.transaction.guards[0] == FENCE
    assert len(write.transaction.guards) == CLUSTER_CHANGES_PER_TRANSACTION + 1
    assert writer.slices(1)[1] is not None, "the last item"
    assert not writer.writes.has_marked


def test_a_change_waits_for_two_slices_at_most() -> None:
    writer = Writer()
    writer.writes.mark((b"c", 0), is_urgent=True)
    for number in range(9 * CLUSTER_PARTITIONS_PER_STEP):
        writer.writes.mark((b"-", number))

    number, write = writer.slices(9)

    assert number == 2
    assert write is not None
    assert write.items == [(b"c", 0)]


def test_slices_without_a_change_are_not_counted() -> None:
    writer = Writer()
    for number in range(2 * CLUSTER_PARTITIONS_PER_STEP):
        writer.writes.mark((b"-", number))
    for number in range(CLUSTER_CHANGES_PER_TRANSACTION):
        writer.writes.mark((b"c", number))

    number, write = writer.slices(9)

    assert number == 4
    assert write is not None
    assert len(write.items) == CLUSTER_CHANGES_PER_TRANSACTION


def test_an_item_of_a_begun_transaction_is_decided_again_after_it() -> None:
    writer = Writer()
    for number in range(CLUSTER_CHANGES_PER_TRANSACTION):
        writer.writes.mark((b"c", number))
    assert writer.writes.take() is None

    writer.writes.mark((b"c", 0))
    write = writer.writes.take()

    assert write is not None
    assert write.items.count((b"c", 0)) == 1
    assert not writer.writes.has_marked
    writer.writes.applied(write, 0)
    _, again = writer.slices(1)
    assert again is not None
    assert again.items == [(b"c", 0)]


def test_a_transaction_that_is_begun_waits_for_room() -> None:
    writer = Writer()
    for number in range(5 * CLUSTER_CHANGES_PER_TRANSACTION):
        writer.writes.mark((b"c", number))

    made = [writer.slices(2)[1] for _ in range(4)]

    assert all(made)
    assert not writer.writes.has_marked
    assert made[0] is not None
    writer.writes.applied(made[0], 0)
    assert writer.writes.has_marked
