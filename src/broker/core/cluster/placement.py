"""Which brokers get the replicas of new partitions.

For each partition one replica after the other is placed on the broker that, in this order,

    1  is on a host with the fewest replicas of the partition: none, if there are enough hosts
    2  is in a rack with the fewest replicas of the partition
    3  holds the fewest replicas in the image and of this placement
    4  comes first in an order of all brokers that takes one of each rack in turn (KIP-36)

The preferred leader is the one of them that is it for the fewest partitions, and the second replica
the one that follows this leader in the fewest partitions, so that a failed broker's leaderships go
to different ones. Draining brokers get replicas only if there are not enough others. The same image
and start give the same placement; the start rotates the order of brokers.
"""

from collections.abc import Iterable
from typing import TypeAlias

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import Replicas
from broker.core.cluster.slices import Slices
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import BROKERS_PER_TOPIC_MAX, CLUSTER_PARTITIONS_PER_STEP

_BROKERS_PER_STEP = 4 * CLUSTER_PARTITIONS_PER_STEP  # that are considered for a replica: 1 ms

_Placement: TypeAlias = tuple[Replicas, ...]


def place(
    image: ClusterImage, partitions: int, replication_factor: int, start: int
) -> Slices[_Placement]:
    """Return the replicas of each of some new partitions.

    Args:
        image: the brokers and what they hold.
        partitions: how many to place.
        replication_factor: replicas of each.
        start: any number; equal topics should have different ones.

    Raises:
        RequestError: INVALID_REPLICATION_FACTOR, with fewer brokers than replicas.
    """
    candidates = _candidates(image, replication_factor, start)
    placing = _Placing(image, candidates)
    placed: list[Replicas] = []
    considered = 0
    for _ in range(partitions):
        placed.append(placing.next(replication_factor))
        considered += replication_factor * len(candidates)
        if considered >= _BROKERS_PER_STEP:
            considered = 0
            yield
    return tuple(placed)


def _candidates(image: ClusterImage, replication_factor: int, start: int) -> list[int]:
    running = [each for each, broker in image.brokers.items() if not broker.is_draining]
    usable = running if len(running) >= replication_factor else list(image.brokers)
    if not 0 < replication_factor <= min(len(usable), BROKERS_PER_TOPIC_MAX):
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} with {len(image.brokers)} brokers",
        )
    by_rack: dict[str, list[int]] = {}
    for each in sorted(usable):
        by_rack.setdefault(image.brokers[each].registration.rack or "", []).append(each)
    ordered = [each for _, each in sorted(_interleaved(by_rack[rack] for rack in sorted(by_rack)))]
    first = start % len(ordered)
    ordered = ordered[first:] + ordered[:first]
    if len(ordered) > BROKERS_PER_TOPIC_MAX:
        ordered.sort(key=lambda each: image.counts.replicas.get(each, 0))
        del ordered[BROKERS_PER_TOPIC_MAX:]
    return ordered


def _interleaved(racks: Iterable[list[int]]) -> Iterable[tuple[tuple[int, int], int]]:
    """Yield brokers with their place: the first of each rack, then the second of each."""
    for rack, members in enumerate(racks):
        for place, broker_id in enumerate(members):
            yield (place, rack), broker_id


class _Placing:
    """The brokers, and the counts that a placement changes."""

    __slots__ = ("_candidates", "_hosts", "_preferred", "_racks", "_replicas", "_seconds")

    def __init__(self, image: ClusterImage, candidates: list[int]) -> None:
        registrations = {each: image.brokers[each].registration for each in candidates}
        self._candidates = candidates
        self._hosts = {each: registrations[each].host for each in candidates}
        self._racks = {each: registrations[each].rack for each in candidates}
        self._replicas = {each: image.counts.replicas.get(each, 0) for each in candidates}
        self._preferred = {each: image.counts.preferred.get(each, 0) for each in candidates}
        self._seconds: dict[tuple[int, int], int] = {}

    def next(self, replication_factor: int) -> Replicas:
        """Place one partition."""
        chosen: list[int] = []
        hosts: dict[str, int] = {}
        racks: dict[str | None, int] = {}
        for _ in range(replication_factor):
            best = min(
                (each for each in self._candidates if each not in chosen),
                key=lambda each: (
                    hosts.get(self._hosts[each], 0),
                    racks.get(self._racks[each], 0),
                    self._replicas[each],
                ),
            )
            chosen.append(best)
            hosts[self._hosts[best]] = hosts.get(self._hosts[best], 0) + 1
            racks[self._racks[best]] = racks.get(self._racks[best], 0) + 1
            self._replicas[best] += 1
        leader = min(chosen, key=self._preferred.__getitem__)
        self._preferred[leader] += 1
        chosen.remove(leader)
        if chosen:
            second = min(chosen, key=lambda each: self._seconds.get((leader, each), 0))
            self._seconds[leader, second] = self._seconds.get((leader, second), 0) + 1
            chosen.remove(second)
            chosen.insert(0, second)
        return (leader, *chosen)
