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

from broker.core.cluster import election, eligibility
from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.machine import BrokerMachine
from broker.core.cluster.records import NO_LEADER
from broker.core.cluster.scan import Scan
from broker.core.cluster.slices import Slices
from broker.core.cluster.writes import Change, Item


class HandOver(BrokerMachine):
    """The hand-overs of one incarnation of a broker.

    It may have leaderships when it begins: when the answer to its registration was lost, the
    controller has known of it for longer than the broker has.
    """

    __slots__ = ("_blocked", "_is_served", "_is_shared", "_to_stop")

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
        super().__init__(image, broker)
        self._is_served = is_served
        self._is_shared = is_shared
        self._scan.add_all()
        self._to_stop: dict[Item, None] = {}
        self._blocked: dict[Item, None] = {}  # stopped, and the successor is not registered

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

    def take_stops(self) -> list[Item]:
        """Return the partitions that the driver has to stop."""
        taken, self._to_stop = self._to_stop, {}
        return list(taken)

    def must_stop(self, item: Item) -> bool:
        """Return whether the driver still has to stop a partition: it may stay the leader now."""
        return self._must_hand_over(item) and self._is_served(*item)

    def _look(self, item: Item) -> None:
        if self.must_stop(item):
            self._to_stop[item] = None
        elif self._must_hand_over(item):
            self._writes.mark(item)

    def _must_hand_over(self, item: Item) -> bool:
        state = self._led(item)
        return state is not None and state.successor != NO_LEADER

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
