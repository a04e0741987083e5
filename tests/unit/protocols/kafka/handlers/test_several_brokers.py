"""What each broker of a cluster tells of it, and changes through any of them."""

import asyncio
from typing import Any

import pytest

from broker.core.cluster import records
from broker.core.cluster.records import ControllerClaim
from broker.core.topics.rules import NewPartitions
from broker.model.errors import ErrorCode, RequestError
from broker.storage.metadata import Delete, Put
from tests.support.fakes import FakeBroker, only
from tests.support.memory_cluster import MemoryCluster, catch_up

METADATA, CREATE, DELETE, DESCRIBE_CONFIGS, ALTER_CONFIGS, GROW = 3, 19, 20, 32, 33, 37
ELECT, INCREMENTAL, ALTER_MOVES, LIST_MOVES, QUORUM, CLUSTER, UNREGISTER = (
    43,
    44,
    45,
    46,
    55,
    60,
    64,
)
BROKER = 4


class Three:
    """Three brokers, of which one has an older image unless it catches up."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(1, 2, 3, racks=["a", "b", None])
        self.first, self.second, self.third = (self.cluster.broker(each) for each in (1, 2, 3))
        self.all = (self.first, self.second, self.third)

    def office(self, broker_id: int | None) -> int:
        """Make a broker the controller, or none; return the controller epoch."""
        self.cluster.store.transact([], [Delete(records.CONTROLLER)])
        if broker_id is not None:
            claim = records.controller_value(ControllerClaim(broker_id, broker_id))
            assert self.cluster.store.transact([], [Put(records.CONTROLLER, claim)])
        self.follow()
        return self.cluster.store.revision

    def follow(self, *names: str) -> None:
        """Let all brokers have everything, and follow topics of these names."""
        for broker in self.all:
            catch_up(broker)
            for name in names:
                asyncio.run(broker.topics.follow(name))


def create(broker: FakeBroker, *assigned: int, **more: Any) -> Any:
    """Ask for a topic whose partitions are assigned to these brokers."""
    assignments = [
        {"partition_index": number, "broker_ids": [each]} for number, each in enumerate(assigned)
    ]
    topic = {
        "name": "t",
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": assignments,
        "configs": [],
        **more,
    }
    return only(broker.ask(CREATE, 7, topics=[topic], validate_only=False)["topics"])


def leaders(broker: FakeBroker) -> dict[int, int]:
    topics = [{"topic_id": bytes(16), "name": "t"}]
    answer = only(broker.ask(METADATA, 12, topics=topics)["topics"])
    return {each["partition_index"]: each["leader_id"] for each in answer["partitions"]}


def test_every_broker_names_all_brokers_their_racks_and_the_controller() -> None:
    three = Three()
    three.office(2)

    for broker in three.all:
        described = broker.ask(CLUSTER, 2)
        answer = broker.ask(METADATA, 12, topics=[])
        assert described["controller_id"] == answer["controller_id"] == 2
        racks = {each["broker_id"]: each["rack"] for each in described["brokers"]}
        assert racks == {each["node_id"]: each["rack"] for each in answer["brokers"]}
        assert racks == {1: "a", 2: "b", 3: None}
        ports = {each["broker_id"]: each["port"] for each in described["brokers"]}
        others = {each: 9000 + each for each in (1, 2, 3) if each != broker.broker.node_id}
        assert {**ports, **others} == ports


def test_the_quorum_is_all_brokers_and_its_leader_the_controller() -> None:
    three = Three()
    epoch = three.office(2)
    wanted = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]

    for broker in three.all:
        answer = broker.ask(QUORUM, 2, topics=wanted)
        partition = only(only(answer["topics"])["partitions"])
        assert (partition["leader_id"], partition["leader_epoch"]) == (2, epoch)
        voters = {each["replica_id"]: each for each in partition["current_voters"]}
        assert sorted(voters) == [each["node_id"] for each in answer["nodes"]] == [1, 2, 3]
        assert {each["log_end_offset"] for each in voters.values()} == {partition["high_watermark"]}
        known = [each for each, voter in voters.items() if voter["last_fetch_timestamp"] >= 0]
        assert known == [broker.broker.node_id]


def test_without_a_controller_the_quorum_is_asked_for_again() -> None:
    three = Three()
    three.office(None)
    wanted = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]

    answer = three.first.ask(QUORUM, 2, topics=wanted)

    assert only(only(answer["topics"])["partitions"])["error_code"] == 6


# ---- changes through any broker


def test_a_topic_is_assigned_to_the_brokers_that_a_client_names() -> None:
    three = Three()

    created = create(three.third, 1, 2, 3, 1)
    three.follow("t")

    assert (created["error_code"], created["num_partitions"]) == (0, 4)
    for broker in three.all:
        assert leaders(broker) == {0: 1, 1: 2, 2: 3, 3: 1}


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"assignments": [{"partition_index": 0, "broker_ids": [9]}]}, 39),
        ({"assignments": [{"partition_index": 0, "broker_ids": [1, 9]}]}, 39),
        ({"assignments": [{"partition_index": 0, "broker_ids": [2, 2]}]}, 39),
        (
            {
                "assignments": [
                    {"partition_index": 0, "broker_ids": [1, 2]},
                    {"partition_index": 1, "broker_ids": [3]},
                ]
            },
            39,
        ),
        ({"assignments": [{"partition_index": 0, "broker_ids": []}]}, 39),
        ({"assignments": [], "num_partitions": 1, "replication_factor": 4}, 38),
    ],
)
def test_an_assignment_that_cannot_be_is_refused_with_a_message(asked: Any, error: int) -> None:
    three = Three()

    refused = create(three.second, **asked)

    assert (refused["error_code"], bool(refused["error_message"])) == (error, True)
    assert three.first.metadata.image.topics == {}


def test_validation_alone_changes_nothing_for_any_broker() -> None:
    three = Three()
    create(three.first, 1)
    three.follow("t")
    before = three.cluster.store.revision
    topic = {
        "name": "u",
        "num_partitions": 3,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    grown = {"name": "t", "count": 2, "assignments": [{"broker_ids": [2]}]}

    created = three.second.ask(CREATE, 7, topics=[topic], validate_only=True)
    enlarged = three.second.ask(GROW, 3, topics=[grown], validate_only=True)

    assert only(created["topics"])["error_code"] == only(enlarged["results"])["error_code"] == 0
    assert three.cluster.store.revision == before


def test_partitions_are_added_through_a_broker_that_leads_none_of_them() -> None:
    three = Three()
    create(three.first, 1)
    three.follow("t")
    grown = {"name": "t", "count": 3, "assignments": [{"broker_ids": [2]}, {"broker_ids": [1]}]}

    answer = three.third.ask(GROW, 3, topics=[grown], validate_only=False)
    three.follow("t")

    assert only(answer["results"])["error_code"] == 0
    for broker in three.all:
        assert leaders(broker) == {0: 1, 1: 2, 2: 1}


def test_a_topic_is_deleted_by_its_id_through_a_broker_that_leads_none_of_it() -> None:
    three = Three()
    topic_id = create(three.first, 1)["topic_id"]
    three.follow("t")
    wanted = [{"name": None, "topic_id": topic_id}]

    deleted = only(three.second.ask(DELETE, 6, topics=wanted)["responses"])
    three.follow("t")

    assert (deleted["name"], deleted["error_code"]) == ("t", 0)
    assert [broker.topics.get("t") for broker in three.all] == [None] * 3
    assert only(three.third.ask(DELETE, 6, topics=wanted)["responses"])["error_code"] == 100


@pytest.mark.parametrize("key", [DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL])
def test_a_brokers_own_configuration_is_a_matter_of_that_broker(key: int) -> None:
    resource: dict[str, Any] = {"resource_type": BROKER, "resource_name": "2"}
    if key == DESCRIBE_CONFIGS:
        resource["configuration_keys"] = None
    else:
        resource["configs"] = []
    validate: dict[str, Any] = {} if key == DESCRIBE_CONFIGS else {"validate_only": False}

    answer = Three().first.ask(key, 1, resources=[resource], **validate)

    result = only(answer["results" if key == DESCRIBE_CONFIGS else "responses"])
    assert result["error_code"] == 42
    assert "Unexpected broker id, expected 1, but received 2" in result["error_message"]


# ---- elections and reassignments


def elect(broker: FakeBroker, partitions: list[int] | None) -> dict[int, int]:
    wanted: Any = partitions and [{"topic": "t", "partitions": partitions}]
    answer = broker.ask(ELECT, 2, election_type=0, topic_partitions=wanted)
    return {
        each["partition_id"]: each["error_code"]
        for topic in answer["replica_election_results"]
        for each in topic["partition_result"]
    }


def test_a_partition_whose_broker_is_gone_has_no_preferred_leader_whoever_is_asked() -> None:
    three = Three()
    create(three.first, 1, 2, 3)
    three.follow("t")
    three.cluster.store.transact([], [Delete(records.broker_key(2))])
    three.follow()

    for broker in (three.first, three.third):
        assert elect(broker, [0, 1, 2, 3]) == {0: 84, 1: 80, 2: 84, 3: 3}
        assert elect(broker, None) == {1: 80}


@pytest.mark.parametrize(
    ("partition", "replicas", "error"),
    [(0, [1], 0), (1, [2], 0), (0, [2], 39), (0, [1, 2], 39), (0, None, 85), (9, [1], 3)],
)
def test_a_partition_is_reassigned_only_to_where_it_is(
    partition: int, replicas: list[int] | None, error: int
) -> None:
    three = Three()
    create(three.first, 1, 2)
    three.follow("t")
    wanted = [{"partition_index": partition, "replicas": replicas}]

    answer = three.third.ask(ALTER_MOVES, 1, topics=[{"name": "t", "partitions": wanted}])

    result = only(only(answer["responses"])["partitions"])
    assert (result["error_code"], bool(result["error_message"])) == (error, bool(error))
    assert three.third.ask(LIST_MOVES, 0, topics=None)["topics"] == []


# ---- unregistration


def test_only_a_broker_that_has_stopped_is_not_registered() -> None:
    three = Three()

    running = three.first.ask(UNREGISTER, 0, broker_id=2)
    three.cluster.store.transact([], [Delete(records.broker_key(2))])
    three.follow()
    gone = three.first.ask(UNREGISTER, 0, broker_id=2)
    never = three.first.ask(UNREGISTER, 0, broker_id=9)

    assert running["error_code"] == 42
    assert "stop it" in running["error_message"]
    assert [gone["error_code"], never["error_code"]] == [102, 102]


def test_a_standalone_broker_is_registered() -> None:
    assert FakeBroker().ask(UNREGISTER, 0, broker_id=1)["error_code"] == 42


def test_a_topic_has_as_many_replicas_as_asked_for_or_as_the_default_says() -> None:
    broker = MemoryCluster(1, 2, 3).broker(1, **{"default.replication.factor": "3"})

    default = create(broker, num_partitions=2)
    asked = create(broker, name="two", num_partitions=1, replication_factor=2)

    assert (default["error_code"], default["replication_factor"]) == (0, 3)
    assert (asked["error_code"], asked["replication_factor"]) == (0, 2)


def test_a_default_of_more_replicas_than_brokers_is_refused() -> None:
    broker = MemoryCluster(1, 2).broker(1, **{"default.replication.factor": "3"})

    assert create(broker, num_partitions=2)["error_code"] == 38


@pytest.mark.parametrize(("brokers", "replicas"), [((1, 2), 2), ((1, 2, 3, 4), 3)])
def test_an_internal_topic_has_no_more_replicas_than_there_are_brokers(
    brokers: tuple[int, ...], replicas: int
) -> None:
    broker = MemoryCluster(*brokers).broker(1, **{"offsets.topic.num.partitions": "2"})

    topic = asyncio.run(broker.topics.offsets_topic())

    assert len(broker.broker.cluster.leadership(topic, 0).replicas) == replicas


def test_the_topic_of_transactions_has_settings_of_its_own() -> None:
    broker = MemoryCluster(1, 2, 3).broker(1)

    topic = asyncio.run(broker.topics.transactions_topic())

    assert topic.config.integer("min.insync.replicas") == 2
    assert not topic.config.flag("unclean.leader.election.enable")


def test_added_partitions_have_as_many_replicas_as_the_others() -> None:
    broker = MemoryCluster(1, 2, 3).broker(1)
    create(broker, num_partitions=1, replication_factor=2)
    topic = broker.topics.get("t")
    assert topic is not None

    asyncio.run(broker.topics.add_partitions(topic, NewPartitions(3)))
    with pytest.raises(RequestError) as refused:
        broker.topics.plan_partitions(topic, NewPartitions(4, [[1]]))

    of = broker.broker.cluster.leadership
    assert [len(of(topic, number).replicas) for number in range(3)] == [2, 2, 2]
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
