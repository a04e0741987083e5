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

    @property
    def topic_id(self) -> bytes:
        """The id of the topic "t"."""
        return self.first.metadata.image.topic_ids["t"]

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

PREFERRED, UNCLEAN = 0, 1


def elect(
    broker: FakeBroker, partitions: list[int] | None, kind: int = PREFERRED, timeout_ms: int = 0
) -> dict[int, int]:
    wanted: Any = partitions and [{"topic": "t", "partitions": partitions}]
    answer = broker.ask(
        ELECT, 2, election_type=kind, topic_partitions=wanted, timeout_ms=timeout_ms
    )
    return {
        each["partition_id"]: each["error_code"]
        for topic in answer["replica_election_results"]
        for each in topic["partition_result"]
    }


def fail(three: Three, *broker_ids: int) -> None:
    """Let brokers end, and all others know of it; no controller elects."""
    operations = [Delete(records.broker_key(each)) for each in broker_ids]
    three.cluster.store.transact([], operations)
    three.follow()


def replicated(three: Three, *replicas: list[int]) -> None:
    """Create the topic with these replicas of its partitions."""
    assignments = [
        {"partition_index": number, "broker_ids": each} for number, each in enumerate(replicas)
    ]
    assert create(three.first, assignments=assignments)["error_code"] == 0
    three.follow("t")


def put(three: Three, partition: int, **changed: Any) -> None:
    """Change the state of a partition, as a controller or leader does."""
    image = three.first.metadata.image
    topic_id = image.topic_ids["t"]
    state = image.state(topic_id, partition)
    assert state is not None
    changed = {"partition_epoch": state.partition_epoch + 1, **changed}
    value = records.partition_value(state._replace(**changed))
    three.cluster.store.transact([], [Put(records.partition_key(topic_id, partition), value)])
    three.follow("t")


def led_by(three: Three, broker_id: int) -> dict[str, int]:
    epoch = three.first.metadata.image.brokers[broker_id].epoch
    return {"leader": broker_id, "leader_epoch": 1, "broker_epoch": epoch}


def test_a_partition_whose_broker_is_gone_has_no_preferred_leader_whoever_is_asked() -> None:
    three = Three()
    create(three.first, 1, 2, 3)
    three.follow("t")
    fail(three, 2)

    for broker in (three.first, three.third):
        assert elect(broker, [0, 1, 2, 3]) == {0: 84, 1: 80, 2: 84, 3: 3}
        assert elect(broker, None) == {1: 80}
        assert elect(broker, [0, 1], UNCLEAN) == {0: 84, 1: 83}
        assert elect(broker, None, UNCLEAN) == {1: 83}


def test_a_preferred_leader_is_made_the_successor_and_leads_when_the_leader_has_stopped() -> None:
    three = Three()
    replicated(three, [1, 2, 3], [2, 3, 1])
    put(three, 0, **led_by(three, 3))

    assert elect(three.second, [0, 1]) == {0: 7, 1: 84}, "nobody has handed over yet"

    state = three.second.metadata.image.state(three.topic_id, 0)
    assert state is not None
    assert (state.leader, state.successor) == (3, 1)
    assert elect(three.second, None) == {0: 7}, "it is the successor already"
    put(three, 0, **led_by(three, 1), successor=-1)
    assert elect(three.second, [0]) == {0: 84}
    assert elect(three.second, None) == {}


def test_a_broker_outside_of_the_isr_is_not_elected() -> None:
    three = Three()
    replicated(three, [1, 2, 3])
    put(three, 0, **led_by(three, 3), isr=(3, 2))

    assert elect(three.first, [0]) == {0: 80}


def test_an_unclean_election_makes_a_live_replica_the_whole_isr() -> None:
    three = Three()
    replicated(three, [1, 2, 3], [2, 3, 1])
    put(three, 0, isr=(1,))
    fail(three, 1)

    assert elect(three.second, [0, 1], UNCLEAN) == {0: 0, 1: 84}

    three.follow()
    state = three.third.metadata.image.state(three.topic_id, 0)
    assert state is not None
    assert (state.leader, state.isr, state.leader_epoch) == (2, (2,), 1)
    assert elect(three.third, None, UNCLEAN) == {}


def test_an_unclean_election_prefers_members_of_the_isr() -> None:
    three = Three()
    replicated(three, [1, 2, 3])
    put(three, 0, isr=(1, 3))
    fail(three, 1)

    assert elect(three.second, None, UNCLEAN) == {0: 0}

    state = three.second.metadata.image.state(three.topic_id, 0)
    assert state is not None
    assert (state.leader, state.isr) == (3, (3,))


def test_an_unknown_type_of_election_is_refused() -> None:
    answer = Three().first.ask(ELECT, 2, election_type=2, topic_partitions=None, timeout_ms=0)

    assert answer["error_code"] == 42


def reassign(
    broker: FakeBroker, targets: dict[int, list[int] | None], **more: Any
) -> dict[int, int]:
    wanted = [
        {"partition_index": number, "replicas": replicas} for number, replicas in targets.items()
    ]
    fields: dict[str, Any] = {"topics": [{"name": "t", "partitions": wanted}], **more}
    answer = broker.ask(ALTER_MOVES, 1, **fields)
    rows = only(answer["responses"])["partitions"]
    assert all(bool(each["error_message"]) == bool(each["error_code"]) for each in rows)
    return {each["partition_index"]: each["error_code"] for each in rows}


def moves(broker: FakeBroker) -> dict[int, tuple[list[int], list[int], list[int]]]:
    """Return replicas, added and removed ones of the partitions that are reassigned."""
    return {
        each["partition_index"]: (
            each["replicas"],
            each["adding_replicas"],
            each["removing_replicas"],
        )
        for topic in broker.ask(LIST_MOVES, 0, topics=None)["topics"]
        for each in topic["partitions"]
    }


def test_a_partition_is_reassigned_and_that_is_listed_by_every_broker() -> None:
    three = Three()
    create(three.first, 1, 2, 3)
    three.follow("t")

    asked: dict[int, list[int] | None] = {0: [2, 3], 1: [2], 2: [3, 1], 9: [1]}
    assert reassign(three.third, asked) == {0: 0, 1: 0, 2: 0, 9: 3}

    three.follow()
    for broker in three.all:
        assert moves(broker) == {0: ([2, 3, 1], [2, 3], [1]), 2: ([3, 1], [1], [])}


def test_a_reassignment_is_cancelled_once() -> None:
    three = Three()
    create(three.first, 1, 2)
    three.follow("t")
    reassign(three.third, {0: [2]})

    assert reassign(three.third, {0: None, 1: None}) == {0: 0, 1: 85}

    assert moves(three.third) == {0: ([1, 2], [], [2])}, "it was not copied, and is to be removed"


@pytest.mark.parametrize("replicas", [[], [1, 1], [1, 9]])
def test_replicas_that_cannot_be_are_refused(replicas: list[int]) -> None:
    three = Three()
    create(three.first, 1)
    three.follow("t")

    assert reassign(three.second, {0: replicas}) == {0: 39}
    assert moves(three.second) == {}


def test_the_number_of_replicas_changes_only_if_the_request_allows_it() -> None:
    three = Three()
    replicated(three, [1, 2], [2, 3])

    asked: dict[int, list[int] | None] = {0: [1, 2, 3], 1: [3, 1]}
    refused = reassign(three.second, asked, allow_replication_factor_change=False)
    allowed = reassign(three.second, {0: [1, 2, 3], 1: [1, 3]})

    assert (refused, allowed) == ({0: 38, 1: 0}, {0: 0, 1: 0})


def test_a_standalone_broker_keeps_its_partitions() -> None:
    broker = FakeBroker()
    broker.create("t", 4)

    asked: dict[int, list[int] | None] = {0: [1], 1: [2], 2: [1, 2], 3: None, 4: [1]}
    assert reassign(broker, asked) == {0: 0, 1: 39, 2: 39, 3: 85, 4: 3}
    assert moves(broker) == {}


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
    made = only(broker.ask(METADATA, 12, topics=[{"name": "made"}])["topics"])

    assert [len(each["replica_nodes"]) for each in made["partitions"]] == [3]
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
