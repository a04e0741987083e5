"""The leader's part in moving a leadership: it stops, then makes its successor the leader.

    the image shows                 the driver serves it  what happens
    a successor of this leader      yes                   it is to be stopped; `stopped` reports it
    a successor of this leader      no                    the successor is written as the leader
    no successor any more           no                    the driver serves it again
    another leader                  no                    -

A partition is served by the driver while the state in the image `is_served_by` this incarnation,
and until it has stopped: no batch is accepted any more, and what was is durable. A write that is
refused, or whose outcome is unknown, is decided again. A broker whose lease has ended writes
nothing, because every transaction has the guard that its incarnation is registered.
"""

from collections.abc import Callable

from broker.core.cluster import election, eligibility, records
from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.records import NO_LEADER
from broker.core.cluster.scan import Scan
from broker.core.cluster.slices import Slices
from broker.core.cluster.writes import Change, GuardedWrites, Item, Write
from broker.storage.metadata import CreatedAt


class HandOver:
    """The hand-overs of one incarnation of a broker.

    It may have leaderships when it begins: when the answer to its registration was lost, the
    controller has known of it for longer than the broker has.
    """

    __slots__ = (
        "_blocked",
        "_broker_epoch",
        "_broker_id",
        "_image",
        "_is_served",
        "_is_shared",
        "_scan",
        "_to_stop",
        "_writes",
    )

    def __init__(
        self,
        image: ClusterImage,
        broker: tuple[int, int],
        is_served: Callable[[bytes, int], bool],
        *,
        is_shared: bool,
    ) -> None:
        """Begin.

        Args:
            image: of this broker.
            broker: its id and epoch.
            is_served: returns whether the driver serves a partition, or has not stopped it yet.
            is_shared: whether all brokers share one data directory.
        """
        self._image = image
        self._broker_id, self._broker_epoch = broker
        self._is_served = is_served
        self._is_shared = is_shared
        self._scan = Scan(image)
        self._scan.add_all()
        self._to_stop: dict[Item, None] = {}
        self._blocked: dict[Item, None] = {}  # stopped, and the successor is not registered
        fence = CreatedAt(records.broker_key(self._broker_id), self._broker_epoch)
        self._writes = GuardedWrites(image, fence, self._decide)

    def image_changed(self, delta: Delta) -> None:
        """Look at what has changed."""
        self._writes.image_changed()
        self._scan.add_partitions(delta.partitions)
        if delta.brokers:
            # A successor that has restarted is one again, without a change of the partition.
            self._scan.add_partitions(self._blocked)
            self._blocked = {}

    def stopped(self, item: Item) -> None:
        """Report that the driver has stopped to serve a partition."""
        self._writes.mark(item)

    def tick(self, now_ms: int) -> None:
        """Decide again what has waited long enough; call at `due_ms`."""
        self._writes.tick(now_ms)

    @property
    def due_ms(self) -> int | None:
        """When to call `tick` next; None: not before another call."""
        return self._writes.due_ms

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do now."""
        return self._scan.has_work or self._writes.has_marked

    def work(self) -> Write | None:
        """Work for one slice of at most 2 ms; return a transaction if one is complete."""
        if not self._scan.has_work:
            return self._writes.take()
        for item in self._scan.next():
            if self.must_stop(item):
                self._to_stop[item] = None
            elif self._must_hand_over(item):
                self._writes.mark(item)
        return None

    def take_stops(self) -> list[Item]:
        """Return the partitions that the driver has to stop."""
        taken, self._to_stop = self._to_stop, {}
        return list(taken)

    def must_stop(self, item: Item) -> bool:
        """Return whether the driver still has to stop a partition: it may stay the leader now."""
        return self._must_hand_over(item) and self._is_served(*item)

    def applied(self, write: Write, revision: int) -> None:
        """Report that the store has applied a transaction."""
        self._writes.applied(write, revision)

    def refused(self, write: Write, now_ms: int) -> None:
        """Report that a guard of a transaction did not hold."""
        self._writes.refused(write, now_ms)

    def unknown(self, write: Write, now_ms: int) -> None:
        """Report that the outcome of a transaction is not known."""
        self._writes.unknown(write, now_ms)

    def _must_hand_over(self, item: Item) -> bool:
        state = self._image.state(*item)
        return (
            state is not None
            and state.leader == self._broker_id
            and state.broker_epoch == self._broker_epoch
            and state.successor != NO_LEADER
        )

    def _decide(self, item: Item) -> Change | None:
        found = eligibility.known(self._image, *item)
        if found is None or not self._must_hand_over(item) or self._is_served(*item):
            return None
        changed = election.hand_over(found, is_shared=self._is_shared)
        if changed is None:
            self._blocked[item] = None
            return None
        return eligibility.change(self._image, item, found, changed)


def could_be_led_by_others(image: ClusterImage, broker_id: int) -> Slices[bool]:
    """Return whether another running broker could lead anything that a broker leads.

    Such a broker has to wait with its departure until it has handed over. `image` is the present
    one in each slice; the first partition found is enough.
    """
    if broker_id not in image.counts.leaders:
        return False
    scan = Scan(image)
    scan.add_all()
    while scan.has_work:
        for item in scan.next():
            found = eligibility.known(image, *item)
            if found is not None and found.state.leader == broker_id:
                others = (each for each in election.candidates(found) if each != broker_id)
                if any(election.runs(each, image.brokers) for each in others):
                    return True
        yield
    return False
