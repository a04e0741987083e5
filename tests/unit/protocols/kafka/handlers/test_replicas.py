"""What clients are told of the replicas of partitions, by any broker of a cluster."""

from collections.abc import Hashable

import pytest

from broker.core.cluster.records import NO_LEADER
from broker.core.cluster_view import KnownBroker, Leadership
from broker.core.session import Session
from broker.core.topics.topic import Topic
from tests.support.fakes import FakeBroker, only

METADATA, DESCRIBE_TOPICS = 3, 75


class View:
    """A cluster of brokers 1, 2 and 3, in which every partition has the same leadership."""

    controller_id = 1
    controller_epoch = 1
    revision: Hashable = 0

    def __init__(self, leadership: Leadership) -> None:
        self.told = leadership

    def brokers(self, host: str, port: int) -> list[KnownBroker]:
        others = [KnownBroker(each, f"host{each}", 9000 + each, None) for each in (2, 3)]
        return [KnownBroker(1, host, port, None), *others]

    def leadership(self, _topic: Topic, _partition: int) -> Leadership:
        return self.told


def broker_of(leadership: Leadership) -> FakeBroker:
    """Return a broker with the topic "t", of one partition."""
    fake = FakeBroker()
    fake.create("t")
    fake.broker = fake.broker._replace(cluster=View(leadership))
    fake.session = Session(fake.broker, "127.0.0.1", "one.example", 9092)
    return fake


WITH_LEADER = Leadership(2, 5, (1, 2, 3), (2, 1), elr=(3,), offline=(3,))
WITHOUT_LEADER = Leadership(NO_LEADER, 6, (1, 2, 3), (2,), offline=(2, 1))


@pytest.mark.parametrize("version", range(5, 14))
@pytest.mark.parametrize(("told", "error"), [(WITH_LEADER, 0), (WITHOUT_LEADER, 5)])
def test_metadata_has_the_replicas_the_isr_and_who_of_them_does_not_run(
    version: int, told: Leadership, error: int
) -> None:
    topics = [{"name": "t", "topic_id": bytes(16)}]

    answer = only(broker_of(told).ask(METADATA, version, topics=topics)["topics"])

    partition = only(answer["partitions"])
    assert (partition["error_code"], partition["leader_id"]) == (error, told.leader)
    assert partition["replica_nodes"] == list(told.replicas)
    assert partition["isr_nodes"] == list(told.isr)
    assert partition["offline_replicas"] == list(told.offline)


def test_described_topics_have_their_eligible_leader_replicas_too() -> None:
    answer = broker_of(WITH_LEADER).ask(DESCRIBE_TOPICS, 0, topics=[{"name": "t"}])

    partition = only(only(answer["topics"])["partitions"])
    assert partition["replica_nodes"] == [1, 2, 3]
    assert partition["isr_nodes"] == [2, 1]
    assert partition["eligible_leader_replicas"] == [3]
    assert partition["last_known_elr"] == []
    assert partition["offline_replicas"] == [3]
