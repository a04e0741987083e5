"""A single broker's responses about elections, moves, quorums, features and rules."""

from typing import Any

import pytest

from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka import features
from tests.support.fakes import FakeBroker, only

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
ELECT, ALTER_MOVES, LIST_MOVES, QUORUM, UPDATE = 43, 45, 46, 55, 57
ALTER_DIRS, DESCRIBE_QUOTAS, DESCRIBE_USERS = 34, 48, 50
PREFERRED, UNCLEAN = 0, 1


def elect(
    broker: FakeBroker, partitions: dict[str, list[int]] | None, kind: int = PREFERRED
) -> Any:
    wanted = partitions and [{"topic": t, "partitions": p} for t, p in partitions.items()]
    answer = broker.ask(ELECT, 2, election_type=kind, topic_partitions=wanted)
    assert answer["error_code"] == 0
    return {
        (each["topic"], partition["partition_id"]): partition["error_code"]
        for each in answer["replica_election_results"]
        for partition in each["partition_result"]
    }


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_no_partition_needs_an_election(kind: int) -> None:
    broker = FakeBroker()
    broker.create("a", 2)

    codes = elect(broker, {"a": [1, 9], "b": [0], "a b": [0]}, kind)

    assert codes == {("a", 1): 84, ("a", 9): 3, ("b", 0): 3, ("a b", 0): 17}


@pytest.mark.parametrize(("kind", "error"), [(PREFERRED, 80), (UNCLEAN, 83)])
def test_a_partition_with_a_failed_disk_has_no_eligible_leader(kind: int, error: int) -> None:
    broker = FakeBroker()
    broker.create("a", 2)
    broker.log("a", 1).fail()

    assert elect(broker, None, kind) == {("a", 1): error}


MANY = 3 * PARTITIONS_ANSWERED_PER_STEP


def test_a_partition_named_several_times_is_elected_once() -> None:
    broker = FakeBroker()
    broker.create("a")
    wanted = [{"topic": "a", "partitions": each} for each in ([0, 0], [0])]

    answer = broker.ask(ELECT, 2, election_type=PREFERRED, topic_partitions=wanted)

    assert len(only(answer["replica_election_results"])["partition_result"]) == 1


def test_other_tasks_run_while_leaders_of_many_topics_are_elected() -> None:
    wanted = [{"topic": f"t{number}", "partitions": [0]} for number in range(MANY)]

    assert FakeBroker().turns(ELECT, 2, election_type=PREFERRED, topic_partitions=wanted) >= 3


def test_other_tasks_run_while_reassignments_of_many_topics_are_checked() -> None:
    part = {"partition_index": 0, "replicas": [1]}
    wanted = [{"name": f"t{number}", "partitions": [part]} for number in range(MANY)]

    assert FakeBroker().turns(ALTER_MOVES, 1, topics=wanted) >= 3


def test_an_unknown_election_type_is_an_invalid_request() -> None:
    answer = FakeBroker().ask(ELECT, 1, election_type=2, topic_partitions=None)

    assert answer["error_code"] == 42


@pytest.mark.parametrize(
    ("topic", "partition", "replicas", "error"),
    [
        ("a", 0, [1], 0),
        ("a", 0, [2], 39),
        ("a", 0, [1, 2], 39),
        ("a", 0, [1, 1], 39),
        ("a", 0, [], 39),
        ("a", 0, None, 85),
        ("a", 7, [1], 3),
        ("b", 0, [1], 3),
    ],
)
def test_a_partition_can_be_reassigned_only_to_this_broker(
    topic: str, partition: int, replicas: list[int] | None, error: int
) -> None:
    broker = FakeBroker()
    broker.create("a")
    wanted = {"partition_index": partition, "replicas": replicas}

    answer = broker.ask(ALTER_MOVES, 1, topics=[{"name": topic, "partitions": [wanted]}])

    result = only(only(answer["responses"])["partitions"])
    assert (result["partition_index"], result["error_code"]) == (partition, error)
    assert bool(result["error_message"]) == bool(error)


def test_no_reassignment_is_listed() -> None:
    broker = FakeBroker()
    broker.create("a")

    for topics in (None, [{"name": "a", "partition_indexes": [0]}]):
        answer = broker.ask(LIST_MOVES, 0, topics=topics)

        assert (answer["error_code"], answer["topics"]) == (0, [])


def quorum(broker: FakeBroker, topic: str, partition: int) -> Any:
    wanted = {"topic_name": topic, "partitions": [{"partition_index": partition}]}
    answer = broker.ask(QUORUM, 2, topics=[wanted])
    return answer, only(only(answer["topics"])["partitions"])


def test_the_quorum_is_this_broker_and_its_log_the_metadata_changes() -> None:
    broker = FakeBroker({"node.id": "3"})
    _, before = quorum(broker, "__cluster_metadata", 0)

    broker.create("a")
    answer, after = quorum(broker, "__cluster_metadata", 0)

    voter = only(after["current_voters"])
    assert (after["error_code"], after["leader_id"], voter["replica_id"]) == (0, 3, 3)
    assert after["high_watermark"] == voter["log_end_offset"] == before["high_watermark"] + 1
    assert after["observers"] == []
    node = only(answer["nodes"])
    listener = only(node["listeners"])
    assert (node["node_id"], listener["host"], listener["port"]) == (3, "broker.example", 9092)


@pytest.mark.parametrize(("topic", "partition"), [("__cluster_metadata", 1), ("a", 0)])
def test_no_other_partition_has_a_quorum(topic: str, partition: int) -> None:
    _, described = quorum(FakeBroker(), topic, partition)

    assert (described["error_code"], described["leader_id"]) == (3, -1)


def update(version: int, **levels: int) -> Any:
    wanted = [
        {"feature": name.replace("_", "."), "max_version_level": level}
        for name, level in levels.items()
    ]
    return FakeBroker().ask(UPDATE, version, feature_updates=wanted)


@pytest.mark.parametrize("version", range(3))
def test_a_feature_can_be_updated_to_its_current_level(version: int) -> None:
    level = features.FEATURES["metadata.version"].level

    assert update(version, metadata_version=level)["error_code"] == 0


@pytest.mark.parametrize("levels", [{"metadata_version": 29}, {"metadata_version": 31}, {"x": 1}])
def test_a_feature_cannot_be_updated_to_any_other_level(levels: dict[str, int]) -> None:
    for_all = update(2, **levels)
    each = only(update(1, **levels)["results"])

    assert for_all["error_code"] == each["error_code"] == 95
    assert each["error_message"] in for_all["error_message"]


def test_a_feature_named_twice_is_an_invalid_request() -> None:
    wanted = [{"feature": "metadata.version", "max_version_level": 30}] * 2

    assert FakeBroker().ask(UPDATE, 2, feature_updates=wanted)["error_code"] == 42


def test_without_an_authorizer_there_are_no_acls() -> None:
    broker = FakeBroker()

    described = broker.ask(DESCRIBE_ACLS, 3, resource_type_filter=1, operation=1, permission_type=1)
    created = broker.ask(CREATE_ACLS, 3, creations=[{}, {}])
    deleted = broker.ask(DELETE_ACLS, 3, filters=[{}])

    assert described["error_code"] == 54
    assert [each["error_code"] for each in created["results"]] == [54, 54]
    assert only(deleted["filter_results"])["error_code"] == 54


def test_no_client_quotas_are_described() -> None:
    entity = {"entity_type": "user", "match_type": 2, "match": None}

    answer = FakeBroker().ask(DESCRIBE_QUOTAS, 1, components=[entity], strict=False)

    assert (answer["error_code"], answer["entries"]) == (0, [])


def test_no_scram_users_are_described_and_a_named_one_is_unknown() -> None:
    every_one = FakeBroker().ask(DESCRIBE_USERS, 0, users=None)
    named = FakeBroker().ask(DESCRIBE_USERS, 0, users=[{"name": "u"}])

    assert (every_one["error_code"], every_one["results"]) == (0, [])
    result = only(named["results"])
    assert (result["user"], result["error_code"], result["credential_infos"]) == ("u", 91, [])


def test_a_user_named_twice_is_refused_separately() -> None:
    users = [{"name": name} for name in ("u", "v", "u")]

    results = FakeBroker().ask(DESCRIBE_USERS, 0, users=users)["results"]

    assert {each["user"]: each["error_code"] for each in results} == {"u": 92, "v": 91}


def filtered(*components: tuple[str, int, str | None]) -> dict[str, Any]:
    wanted = [{"entity_type": a, "match_type": b, "match": c} for a, b, c in components]
    return FakeBroker().ask(DESCRIBE_QUOTAS, 1, components=wanted, strict=False)


@pytest.mark.parametrize(
    "components",
    [
        (),
        (("user", 0, "u"),),
        (("user", 1, None), ("client-id", 2, None)),
        (("ip", 0, "127.0.0.1"),),
    ],
)
def test_a_valid_quota_filter_finds_nothing(components: Any) -> None:
    answer = filtered(*components)

    assert (answer["error_code"], answer["entries"]) == (0, [])


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ((("", 2, None),), 42),
        ((("group", 2, None),), 35),
        ((("user", 0, None),), 42),
        ((("user", 1, "u"),), 42),
        ((("user", 2, "u"),), 42),
        ((("user", 3, None),), 42),
        ((("user", -1, None),), 42),
        ((("user", 2, None), ("user", 0, "u")), 42),
        ((("user", 2, None), ("ip", 2, None)), 42),
    ],
)
def test_an_invalid_quota_filter_is_refused_as_kafka_refuses_it(components: Any, code: int) -> None:
    answer = filtered(*components)

    assert (answer["error_code"], answer["entries"]) == (code, None)
    assert answer["error_message"]
