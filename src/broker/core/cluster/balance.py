"""Leaders where they belong: at the preferred leader of each partition.

A broker is unbalanced when it could lead more than a percentage of the partitions of which it is
the preferred leader, and does not: after it has restarted, for example. Partitions in whose ISR it
is not are not counted.
"""

from broker.core.cluster import election, eligibility
from broker.core.cluster.eligibility import Known
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import NO_LEADER, PartitionState
from broker.core.cluster.scan import Scan
from broker.core.cluster.writes import Item
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP


def prefer(
    image: ClusterImage, item: Item, found: Known, *, is_shared: bool
) -> PartitionState | None:
    """Return the state in which the leader hands over to the preferred one; None: it need not."""
    preferred = preferred_leader(image, item, found.state, is_shared=is_shared)
    return election.prefer(found, preferred, is_shared=is_shared)


def preferred_leader(
    image: ClusterImage, item: Item, state: PartitionState, *, is_shared: bool
) -> int:
    """Return the first replica.

    In a shared directory the only replica is whoever leads; there it is the broker on which the
    partition was placed, or NO_LEADER for a topic of a standalone broker.
    """
    if not is_shared:
        return state.replicas[0] if state.replicas else NO_LEADER
    replicas = image.topics[item[0]].record.replicas
    return replicas[item[1]][0] if replicas else NO_LEADER


class Balancing:
    """One search for unbalanced brokers, in slices."""

    __slots__ = ("_found", "_image", "_is_shared", "_missing", "_percentage", "_scan", "_totals")

    def __init__(self, image: ClusterImage, *, is_shared: bool, percentage: int) -> None:
        """Begin with all partitions of the image."""
        self._image = image
        self._is_shared = is_shared
        self._percentage = percentage
        self._scan = Scan(image)
        self._scan.add_all()
        self._totals: dict[int, int] = {}  # partitions by preferred leader
        self._missing: dict[int, list[Item]] = {}  # those that it could lead and does not
        self._found: list[Item] | None = None

    @property
    def has_work(self) -> bool:
        """Whether `next` may return something."""
        return self._found is None or bool(self._found)

    def next(self) -> list[Item]:
        """Search for one slice; return some partitions whose leaders should be moved."""
        if self._scan.has_work:
            for item in self._scan.next():
                self._count(item)
            return []
        if self._found is None:
            self._found = [
                item
                for broker_id, items in self._missing.items()
                if 100 * len(items) > self._percentage * self._totals[broker_id]
                for item in items
            ]
        part = self._found[-CLUSTER_PARTITIONS_PER_STEP:]
        del self._found[-CLUSTER_PARTITIONS_PER_STEP:]
        return part

    def _count(self, item: Item) -> None:
        found = eligibility.known(self._image, *item)
        if found is None:
            return
        preferred = preferred_leader(self._image, item, found.state, is_shared=self._is_shared)
        if not self._is_shared and preferred not in found.state.isr:
            return
        self._totals[preferred] = self._totals.get(preferred, 0) + 1
        if prefer(self._image, item, found, is_shared=self._is_shared) is not None:
            self._missing.setdefault(preferred, []).append(item)
