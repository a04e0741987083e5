"""The leaders that a response names beside the error that its client has asked another (KIP-951).

A producer or consumer that gets them sends its next request to the leader at once, without a
Metadata request. They are what this broker's image has: a client ignores a leader that it knows to
be older.
"""

from typing import TypedDict

from broker.core.cluster.records import NO_LEADER
from broker.core.session import Session
from broker.core.topics.topic import Topic
from broker.model.identifiers import NO_ID


class CurrentLeader(TypedDict):
    """A leader, in the responses to Produce and Fetch."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(TypedDict):
    """Where a leader is, in the same responses."""

    node_id: int
    host: str
    port: int
    rack: str | None


class CurrentLeaders:
    """The leaders of one response."""

    def __init__(self, session: Session) -> None:
        """Begin without any."""
        self._session = session
        self._named: set[int] = set()

    def of(self, name: str, topic_id: bytes, partition: int) -> CurrentLeader | None:
        """Return the leader of a partition, by its topic's name or id; None if it is not known."""
        topic = self._topic(name, topic_id)
        if topic is None or not topic.has_partition(partition):
            return None
        found = self._session.broker.cluster.leadership(topic, partition)
        if found.leader == NO_LEADER or found.leader_epoch < 0:
            return None
        self._named.add(found.leader)
        return {"leader_id": found.leader, "leader_epoch": found.leader_epoch}

    def endpoints(self) -> list[NodeEndpoint]:
        """Return where the leaders are that `of` has returned so far."""
        if not self._named:
            return []
        session = self._session
        brokers = session.broker.cluster.brokers(*session.reached)
        return [
            {"node_id": each.broker_id, "host": each.host, "port": each.port, "rack": each.rack}
            for each in brokers
            if each.broker_id in self._named
        ]

    def _topic(self, name: str, topic_id: bytes) -> Topic | None:
        topics = self._session.broker.topics
        return topics.get(name) if topic_id == NO_ID else topics.by_id(topic_id)
