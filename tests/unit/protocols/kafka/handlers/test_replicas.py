"""What clients are told of the replicas of partitions, by any broker of a cluster."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest

from broker.core.cluster.records import NO_LEADER
from broker.core.cluster_view import KnownBroker, Leadership
from broker.core.session import Session
from broker.core.topics.topic import Topic
from tests.support.fakes import FakeBroker, only

METADATA, MOVE_DIR, DIRS, LIST_MOVES, PRODUCERS, DESCRIBE_TOPICS = 3, 34, 35, 46, 61, 75


class View:
    """A cluster of brokers 1, 2 and 3, in which every partition has the same leadership."""

    controller_id = 1
    controller_epoch = 1
    revision: Hashable = 0
    reader_racks: dict[int, bytes] = {}  # noqa: RUF012 (it stays empty)

    def __init__(self, leadership: Leadership) -> None:
        self.told = leadership

    def brokers(self, host: str, port: int, _listener: object = None) -> list[KnownBroker]:
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
    assert partition["leader_epoch"] == (told.leader_epoch if version >= 7 else -1)


def test_described_topics_have_their_eligible_leader_replicas_too() -> None:
    answer = broker_of(WITH_LEADER).ask(DESCRIBE_TOPICS, 0, topics=[{"name": "t"}])

    partition = only(only(answer["topics"])["partitions"])
    assert partition["replica_nodes"] == [1, 2, 3]
    assert partition["isr_nodes"] == [2, 1]
    assert partition["eligible_leader_replicas"] == [3]
    assert partition["last_known_elr"] == []
    assert partition["offline_replicas"] == [3]


def test_a_described_partition_without_members_has_its_last_known_ones() -> None:
    told = WITHOUT_LEADER._replace(isr=(), elr=(), last_known=(2, 3))

    answer = broker_of(told).ask(DESCRIBE_TOPICS, 0, topics=[{"name": "t"}])

    partition = only(only(answer["topics"])["partitions"])
    assert partition["eligible_leader_replicas"] == []
    assert partition["last_known_elr"] == [2, 3]


# ---- reassignments that are under way

MOVING = Leadership(1, 5, (2, 3, 1), (1,), adding=(2, 3), removing=(1,))
ADDING = Leadership(1, 5, (1, 2), (1,), adding=(2,))


@pytest.mark.parametrize("told", [MOVING, ADDING])
@pytest.mark.parametrize("topics", [None, [{"name": "t", "partition_indexes": [0, 0, 9]}]])
def test_a_reassignment_is_listed_while_it_is_under_way(told: Leadership, topics: Any) -> None:
    answer = broker_of(told).ask(LIST_MOVES, 0, topics=topics)

    topic = only(answer["topics"])
    assert topic["name"] == "t"
    assert only(topic["partitions"]) == {
        "partition_index": 0,
        "replicas": list(told.replicas),
        "adding_replicas": list(told.adding),
        "removing_replicas": list(told.removing),
    }


@pytest.mark.parametrize(
    "topics",
    [None, [], [{"name": "t", "partition_indexes": [0]}, {"name": "u", "partition_indexes": [0]}]],
)
def test_partitions_that_are_not_reassigned_are_not_listed(topics: Any) -> None:
    answer = broker_of(WITH_LEADER).ask(LIST_MOVES, 0, topics=topics)

    assert (answer["error_code"], answer["topics"]) == (0, [])


# ---- replicas on a broker that follows


def follower(**settings: str) -> FakeBroker:
    """Return a broker that leads partition 0 of "t" and follows partition 1."""
    fake = FakeBroker(settings)
    topic = fake.create("t", 2)
    log = topic.logs[1]
    assert log is not None
    topic.logs[1] = None
    topic.followed[1] = log
    return fake


@pytest.mark.parametrize("topics", [None, [{"topic": "t", "partitions": [0, 1]}]])
def test_a_directory_has_followed_replicas_too(topics: Any, tmp_path: Path) -> None:
    fake = follower(**{"log.dirs": str(tmp_path)})

    directory = only(fake.ask(DIRS, 4, topics=topics)["results"])

    rows = only(directory["topics"])["partitions"]
    assert [each["partition_index"] for each in rows] == [0, 1]
    assert {(each["offset_lag"], each["is_future_key"]) for each in rows} == {(0, False)}


def test_a_follower_describes_the_producers_that_it_knows() -> None:
    fake = follower()
    topic = fake.topics.get("t")
    assert topic is not None
    log: Any = topic.followed[1]
    log.producers = [(7, 0, 4, 1, -1, -1)]
    wanted = [{"name": "t", "partition_indexes": [0, 1]}]

    rows = only(fake.ask(PRODUCERS, 0, topics=wanted)["topics"])["partitions"]

    assert [each["error_code"] for each in rows] == [0, 0]
    assert [len(each["active_producers"]) for each in rows] == [0, 1]


@pytest.mark.parametrize(("state", "error"), [("is_loading", 6), ("is_offline", 56)])
def test_a_followed_log_that_is_not_in_service_describes_no_producers(
    state: str, error: int
) -> None:
    fake = follower()
    topic = fake.topics.get("t")
    assert topic is not None
    setattr(topic.followed[1], state, True)
    wanted = [{"name": "t", "partition_indexes": [1]}]

    row = only(only(fake.ask(PRODUCERS, 0, topics=wanted)["topics"])["partitions"])

    assert row["error_code"] == error


def test_a_followed_replica_may_be_moved_to_the_directory_where_it_is() -> None:
    fake = follower()
    moved = [
        {"path": str(fake.broker.config.data_dir), "topics": [{"name": "t", "partitions": [1]}]}
    ]

    row = only(only(fake.ask(MOVE_DIR, 2, dirs=moved)["results"])["partitions"])

    assert row["error_code"] == 0
