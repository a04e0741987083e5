"""The transactions that create, enlarge and delete topics in a cluster (placing.py).

A topic is placed on registered brokers. Each partition has as many replicas as the request or
`default.replication.factor` says; an internal topic has as many as its own setting says, or one on
each broker if there are fewer of them. Brokers that share a data directory have one replica of each
partition, whatever is set: a second one would be on the same disk.
"""

from collections.abc import Callable, Sequence

from broker.core.cluster import placement, topics
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.image import Topic as KnownTopic
from broker.core.cluster.records import Replicas, Transaction
from broker.core.configs import records as config_records
from broker.core.scheduling.steps import complete_in_steps
from broker.core.topics import rules
from broker.core.topics.placing import Placed
from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.model.config import Config
from broker.model.errors import ErrorCode, RequestError
from broker.storage import metadata


class Clustered:
    """The transactions of a broker that is one of several."""

    def __init__(
        self,
        broker_id: int,
        image: ClusterImage,
        wall_ms: Callable[[], int],
        start: int,
        *,
        is_shared: bool = False,
    ) -> None:
        """Keep this broker's id and the image.

        `start` is a random number: an order of brokers. `is_shared`: all brokers share one data
        directory.
        """
        self._broker_id = broker_id
        self._image = image
        self._wall_ms = wall_ms
        self._start = start
        self._is_shared = is_shared

    def factor(self, name: str, asked: int, config: Config) -> int:
        """Return how many replicas the partitions of a new topic have; raises RequestError."""
        brokers = len(self._image.brokers)
        most, why = brokers, f"there are {brokers} brokers"
        if self._is_shared:
            most, why = 1, "the brokers share a data directory"
        count = asked
        if asked == rules.DEFAULT:
            count = 1 if self._is_shared else max(1, _default_factor(name, brokers, config))
        if not 1 <= count <= max(1, most):
            raise RequestError(
                ErrorCode.INVALID_REPLICATION_FACTOR, f"replication factor {count}: {why}"
            )
        return count

    def factor_of(self, topic_id: bytes) -> int:
        """Return how many replicas the partitions of a topic have, without those being added."""
        state = self._image.state(topic_id, 0)
        if state is None or not state.replicas:
            return 1
        return len([each for each in state.replicas if each not in state.adding])

    def check(self, assignments: Sequence[Sequence[int]], factor: int) -> None:
        """Refuse replicas that are not registered, named twice, or not as many as the others."""
        wanted = len(assignments[0]) if factor == rules.DEFAULT and assignments else factor
        for replicas in assignments:
            fault = None
            if not replicas or (self._is_shared and len(replicas) != 1):
                fault = "a partition has one of them" if self._is_shared else "there are none"
            elif len(set(replicas)) < len(replicas):
                fault = "a broker is named twice"
            elif any(each not in self._image.brokers for each in replicas):
                fault = "not all of them are registered brokers"
            elif len(replicas) != wanted:
                fault = f"other partitions have {wanted}"
            if fault is not None:
                raise RequestError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(replicas)}: {fault}"
                )

    async def creation(self, new: Placed) -> Transaction:
        """Place a topic and create it."""
        replicas = tuple(tuple(new.assignments[each]) for each in sorted(new.assignments))
        if not replicas:
            replicas = await self._place(new.partitions, new.factor)
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
            factor = self.factor_of(topic.record.topic_id)
            added = await self._place(total - topic.record.partitions, factor)
        return topics.enlargement(self._image, topic, added)

    async def deletion(self, topic: KnownTopic, *, has_folders: bool = True) -> Transaction:  # noqa: ARG002 (each of its brokers says so itself)
        """Delete a topic; its brokers confirm when they have no folders of it."""
        key = metadata.topic_config_key(topic.name)
        others = [metadata.Delete(key)] if key in self._image.configs else []
        return await complete_in_steps(topics.deletion(self._image, topic, self._wall_ms(), others))

    def removal(self, topic_id: bytes) -> Transaction | None:
        """Confirm that this broker has no folders; the controller forgets the topic after all."""
        return topics.confirmation(self._image, topic_id, self._broker_id)

    async def _place(self, partitions: int, factor: int) -> tuple[Replicas, ...]:
        self._start += 1
        return await complete_in_steps(
            placement.place(self._image, partitions, factor, self._start)
        )


def _default_factor(name: str, brokers: int, config: Config) -> int:
    """Return how many replicas a topic has without being asked for a number."""
    if name == OFFSETS_TOPIC:
        return min(config.integer("offsets.topic.replication.factor"), brokers)
    if name == TRANSACTIONS_TOPIC:
        return min(config.integer("transaction.state.log.replication.factor"), brokers)
    return config.integer("default.replication.factor")
