"""The transactions that create, enlarge and delete topics, and those of a standalone broker.

A standalone broker stores no replicas: it leads and holds everything. Those of a cluster are in
cluster_placing.py.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from broker.core.cluster.image import Topic as KnownTopic
from broker.core.cluster.records import TopicRecord, Transaction, topic_value
from broker.core.topics import records as topic_records
from broker.core.topics import rules
from broker.model.config import Config
from broker.model.errors import ErrorCode, RequestError
from broker.storage import metadata


class Placed(NamedTuple):
    """A topic to be created: where its partitions will be."""

    name: str
    topic_id: bytes
    partitions: int
    assignments: Mapping[int, Sequence[int]]  # of every partition; empty: the placement decides
    own_config: Mapping[str, str]
    factor: int = 1  # replicas of each partition that the placement decides


class Placing(Protocol):
    """Makes the transactions; what they need of the cluster is in the image."""

    def factor(self, name: str, asked: int, config: Config) -> int:
        """Return how many replicas each partition of a new topic has.

        `asked`: DEFAULT, or what a request wants. Raises RequestError if there cannot be so many.
        """

    def factor_of(self, topic_id: bytes) -> int:
        """Return how many replicas each partition of an existing topic has."""

    def check(self, assignments: Sequence[Sequence[int]], factor: int) -> None:
        """Refuse replicas that cannot be, or not of that number; raises RequestError.

        DEFAULT: any number, but all partitions have the same.
        """

    async def creation(self, new: Placed) -> Transaction:
        """Return the transaction that creates a topic."""

    async def enlargement(
        self, topic: KnownTopic, total: int, assignments: Sequence[Sequence[int]]
    ) -> Transaction:
        """Return the transaction that gives a topic so many partitions.

        With fewer than it has, an enlargement that this broker cannot follow is taken back, or the
        transaction is empty.
        """

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

    def factor(self, _name: str, asked: int, _config: Config) -> int:
        """Return 1, or refuse any other number; a default for clusters has no meaning here."""
        if asked not in (rules.DEFAULT, 1):
            raise RequestError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {asked}: this cluster has 1 broker",
            )
        return 1

    def factor_of(self, _topic_id: bytes) -> int:
        """Return 1."""
        return 1

    def check(self, assignments: Sequence[Sequence[int]], _factor: int) -> None:
        """Refuse any other broker, and more than one replica."""
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
        """Store the number of partitions."""
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
