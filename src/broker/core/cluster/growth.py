"""More replicas for internal topics that were created when the cluster had fewer brokers.

The first broker of a cluster creates `__consumer_offsets` with one replica, because there are no
others. When brokers have joined, each partition of an internal topic gets as many replicas as its
setting says, or as there are brokers that run, by a reassignment that adds some and removes none.
At most CLUSTER_GROWTHS_AT_ONCE partitions are being copied at any time.

A replica is added on the broker that, in this order, is on a host with the fewest replicas of the
partition, in a rack with the fewest, and holds the fewest replicas in all.
"""

from collections.abc import Mapping

from broker.core.cluster import election, eligibility
from broker.core.cluster.eligibility import Known
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.reassignment import begun
from broker.core.cluster.records import PartitionState, Replicas
from broker.core.cluster.scan import Scan
from broker.core.cluster.writes import Item
from broker.model.limits import CLUSTER_GROWTHS_AT_ONCE


class Growth:
    """One search for partitions that need more replicas, in slices."""

    __slots__ = ("_added", "_factors", "_found", "_image", "_in_progress", "_scan")

    def __init__(self, image: ClusterImage, factors: Mapping[str, int]) -> None:
        """Begin with all partitions of these topics; `factors` are their numbers of replicas."""
        self._image = image
        self._factors = factors
        self._scan = Scan(image)
        for name in factors:
            topic = image.topic(name)
            if topic is not None:
                self._scan.add_topic(topic.record.topic_id)
        self._added: dict[int, int] = {}  # replicas by broker that this search has added
        self._in_progress = 0
        self._found: list[Item] = []

    @property
    def has_work(self) -> bool:
        """Whether `next` has something to do."""
        return self._scan.has_work or bool(self._found)

    def next(self) -> dict[Item, Replicas]:
        """Search for one slice; return the replicas that some partitions should have."""
        if self._scan.has_work:
            for item in self._scan.next():
                self._look(item)
            return {}
        found, self._found = self._found, []
        return {item: self._target(item) for item in found[: self._room]}

    @property
    def _room(self) -> int:
        return max(CLUSTER_GROWTHS_AT_ONCE - self._in_progress, 0)

    def _look(self, item: Item) -> None:
        found = eligibility.known(self._image, *item)
        if found is None:
            return
        if found.state.adding:
            # Whoever waits for a broker that is gone copies nothing.
            self._in_progress += all(each in found.brokers for each in found.state.adding)
        elif len(self._found) < CLUSTER_GROWTHS_AT_ONCE and is_short(found, self._wanted(item)):
            self._found.append(item)

    def _wanted(self, item: Item) -> int:
        topic = self._image.topics.get(item[0])
        return 0 if topic is None else self._factors.get(topic.name, 0)

    def _target(self, item: Item) -> Replicas:
        state = self._image.state(*item)
        if state is None:
            return ()
        brokers = self._image.brokers
        replicas = list(state.replicas)
        free = {each for each in brokers if election.runs(each, brokers) and each not in replicas}
        while free and len(replicas) < self._wanted(item):
            best = min(free, key=lambda each: self._cost(each, replicas))
            free.remove(best)
            replicas.append(best)
            self._added[best] = self._added.get(best, 0) + 1
        return tuple(replicas)

    def _cost(self, broker_id: int, replicas: list[int]) -> tuple[int, int, int, int]:
        brokers = self._image.brokers
        own = brokers[broker_id].registration
        others = [brokers[each].registration for each in replicas if each in brokers]
        return (
            sum(each.host == own.host for each in others),
            sum(each.rack == own.rack for each in others),
            self._image.counts.replicas.get(broker_id, 0) + self._added.get(broker_id, 0),
            broker_id,
        )


def is_short(found: Known, wanted: int) -> bool:
    """Return whether a partition has too few replicas, and could get more now."""
    state, brokers = found.state, found.brokers
    if state.adding or state.removing or not 0 < len(state.replicas) < wanted:
        return False
    if not election.has_leader(found):
        return False
    return any(election.runs(each, brokers) and each not in state.replicas for each in brokers)


def grown(found: Known, target: Replicas) -> PartitionState | None:
    """Return the state in which a partition gets these replicas; None: it has changed meanwhile."""
    state = found.state
    is_same = target[: len(state.replicas)] == state.replicas and len(target) > len(state.replicas)
    if not is_same or not is_short(found, len(target)):
        return None
    added = target[len(state.replicas) :]
    if not all(election.runs(each, found.brokers) for each in added):
        return None
    return found.next(begun(state, target))
