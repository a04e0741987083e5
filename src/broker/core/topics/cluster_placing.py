"""The transactions that create, enlarge and delete topics in a cluster (placing.py).

A topic is placed on registered brokers, each partition on one of them.
"""

from collections.abc import Callable, Sequence

from broker.core.cluster import placement, topics
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.image import Topic as KnownTopic
from broker.core.cluster.records import Replicas, Transaction
from broker.core.configs import records as config_records
from broker.core.scheduling.steps import complete_in_steps
from broker.core.topics.placing import Placed
from broker.model.errors import ErrorCode, RequestError
from broker.storage import metadata


class Clustered:
    """The transactions of a broker that is one of several."""

    def __init__(
        self, broker_id: int, image: ClusterImage, wall_ms: Callable[[], int], start: int
    ) -> None:
        """Keep this broker's id and the image; `start` is a random number: an order of brokers."""
        self._broker_id = broker_id
        self._image = image
        self._wall_ms = wall_ms
        self._start = start

    def check(self, assignments: Sequence[Sequence[int]], replication_factor: int) -> None:
        """Refuse more than one replica, and brokers that are not registered."""
        if replication_factor not in (-1, 1):
            raise RequestError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {replication_factor}: partitions have one replica",
            )
        for replicas in assignments:
            if len(replicas) != 1 or replicas[0] not in self._image.brokers:
                raise RequestError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"replicas {list(replicas)}: a partition has one registered broker",
                )

    async def creation(self, new: Placed) -> Transaction:
        """Place a topic and create it."""
        replicas = tuple(tuple(new.assignments[each]) for each in sorted(new.assignments))
        if not replicas:
            replicas = await self._place(new.partitions)
        own = new.own_config
        key = metadata.topic_config_key(new.name)
        others = [config_records.operation(key, own)] if own else []
        return topics.creation(self._image, new.name, new.topic_id, replicas, others)

    async def enlargement(
        self, topic: KnownTopic, total: int, assignments: Sequence[Sequence[int]]
    ) -> Transaction:
        """Place the new partitions. None is taken back: another broker may serve it already."""
        if total <= topic.record.partitions:
            return Transaction([], [])
        added: tuple[Replicas, ...] = tuple(map(tuple, assignments))
        if not added:
            added = await self._place(total - topic.record.partitions)
        return topics.enlargement(self._image, topic, added)

    async def deletion(self, topic: KnownTopic, *, has_folders: bool = True) -> Transaction:  # noqa: ARG002 (each of its brokers says so itself)
        """Delete a topic; its brokers confirm when they have no folders of it."""
        key = metadata.topic_config_key(topic.name)
        others = [metadata.Delete(key)] if key in self._image.configs else []
        return await complete_in_steps(topics.deletion(self._image, topic, self._wall_ms(), others))

    def removal(self, topic_id: bytes) -> Transaction | None:
        """Confirm that this broker has no folders; the controller forgets the topic after all."""
        return topics.confirmation(self._image, topic_id, self._broker_id)

    async def _place(self, partitions: int) -> tuple[Replicas, ...]:
        self._start += 1
        return await complete_in_steps(placement.place(self._image, partitions, 1, self._start))
