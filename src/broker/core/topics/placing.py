"""The transactions that create, enlarge and delete topics: of a standalone broker, of a cluster.

A standalone broker stores no replicas: it leads and holds everything. In a cluster a topic is
placed on registered brokers, each partition on one of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from broker.core.cluster import placement, topics
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.image import Topic as KnownTopic
from broker.core.cluster.records import Replicas, TopicRecord, Transaction, topic_value
from broker.core.cluster.slices import Slices
from broker.core.configs import records as config_records
from broker.core.scheduling.steps import next_step
from broker.core.topics import records as topic_records
from broker.model.errors import ErrorCode, RequestError
from broker.storage import metadata

_T = TypeVar("_T")


class Placed(NamedTuple):
    """A topic to be created: where its partitions will be."""

    name: str
    topic_id: bytes
    partitions: int
    assignments: Mapping[int, Sequence[int]]  # of every partition; empty: the placement decides
    own_config: Mapping[str, str]


class Placing(Protocol):
    """Makes the transactions; what they need of the cluster is in the image."""

    def check(self, assignments: Sequence[Sequence[int]], replication_factor: int) -> None:
        """Refuse replicas that cannot be; raises RequestError. A factor of -1 is the default."""

    async def creation(self, new: Placed) -> Transaction:
        """Return the transaction that creates a topic."""

    async def enlargement(
        self, topic: KnownTopic, total: int, assignments: Sequence[Sequence[int]]
    ) -> Transaction:
        """Return the transaction that gives a topic so many partitions."""

    async def deletion(self, topic: KnownTopic, *, has_folders: bool = True) -> Transaction:
        """Return the transaction that deletes a topic and its configuration."""

    def removal(self, topic_id: bytes) -> Transaction | None:
        """Return the transaction for when this broker has no folders of a deleted topic any more.

        None: nothing records that it may have some.
        """


class Standalone:
    """The transactions of a standalone broker."""

    def __init__(self, broker_id: int) -> None:
        """Keep the only broker's id."""
        self._broker_id = broker_id

    def check(self, assignments: Sequence[Sequence[int]], replication_factor: int) -> None:
        """Refuse any other broker, and more than one replica."""
        if replication_factor not in (-1, 1):
            raise RequestError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {replication_factor}: this cluster has 1 broker",
            )
        if any(list(replicas) != [self._broker_id] for replicas in assignments):
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the only broker is {self._broker_id}"
            )

    async def creation(self, new: Placed) -> Transaction:
        """Create a topic without replicas."""
        record = TopicRecord(new.topic_id, new.partitions, (), {})
        operations = topic_records.creations(new.name, record, new.own_config)
        return Transaction([metadata.Absent(metadata.topic_key(new.name))], operations)

    async def enlargement(
        self, topic: KnownTopic, total: int, _assignments: Sequence[Sequence[int]]
    ) -> Transaction:
        """Store the number of partitions; a smaller one takes an enlargement back."""
        key = metadata.topic_key(topic.name)
        record = TopicRecord(topic.record.topic_id, total, (), {})
        guard = metadata.Unchanged(key, topic.mod_revision)
        return Transaction([guard], [metadata.Put(key, topic_value(record))])

    async def deletion(self, topic: KnownTopic, *, has_folders: bool = True) -> Transaction:
        """Delete a topic, and remember its folders if there are any."""
        name, record = topic.name, topic.record
        guard = metadata.Unchanged(metadata.topic_key(name), topic.mod_revision)
        operations = topic_records.deletions(name, record.topic_id)
        if has_folders:
            operations.append(topic_records.remembered(name, record.topic_id, record.partitions))
        return Transaction([guard], operations)

    def removal(self, topic_id: bytes) -> Transaction | None:
        """Forget the topic: nobody else has folders of it."""
        return Transaction([], [topic_records.forgotten(topic_id)])


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
        """Place the new partitions."""
        added: tuple[Replicas, ...] = tuple(map(tuple, assignments))
        if not added:
            added = await self._place(total - topic.record.partitions)
        return topics.enlargement(self._image, topic, added)

    async def deletion(self, topic: KnownTopic, *, has_folders: bool = True) -> Transaction:  # noqa: ARG002 (each of its brokers says so itself)
        """Delete a topic; its brokers confirm when they have no folders of it."""
        key = metadata.topic_config_key(topic.name)
        others = [metadata.Delete(key)] if key in self._image.configs else []
        return await _in_steps(topics.deletion(self._image, topic, self._wall_ms(), others))

    def removal(self, topic_id: bytes) -> Transaction | None:
        """Confirm that this broker has no folders; the controller forgets the topic after all."""
        return topics.confirmation(self._image, topic_id, self._broker_id)

    async def _place(self, partitions: int) -> tuple[Replicas, ...]:
        self._start += 1
        return await _in_steps(placement.place(self._image, partitions, 1, self._start))


async def _in_steps(slices: Slices[_T]) -> _T:
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: _T = end.value
            return result
        await next_step()
