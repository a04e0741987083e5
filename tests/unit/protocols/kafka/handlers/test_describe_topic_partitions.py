"""DescribeTopicPartitions (KIP-966) and ListConfigResources (KIP-1142)."""

from typing import Any

import pytest

from broker.protocols.kafka.handlers import describe_topic_partitions
from tests.support.fakes import FakeBroker

DESCRIBE, LIST = 75, 74
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def page(
    broker: FakeBroker, names: list[str], limit: int = 2_000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]:
    """The topics of an answer with their errors and partitions, and where it goes on."""
    answer = broker.ask(
        DESCRIBE,
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=cursor and {"topic_name": cursor[0], "partition_index": cursor[1]},
    )
    topics = [
        (
            each["name"],
            each["error_code"],
            [partition["partition_index"] for partition in each["partitions"]],
        )
        for each in answer["topics"]
    ]
    after = answer["next_cursor"]
    return topics, after and (after["topic_name"], after["partition_index"])


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create("a", 2)
    broker.create("b", 3)
    return broker


def test_a_topic_is_described_as_in_a_metadata_response(broker: FakeBroker) -> None:
    [topic] = broker.ask(DESCRIBE, 0, topics=[{"name": "a"}])["topics"]

    known = broker.topics.get("a")
    assert known is not None
    assert (topic["topic_id"], topic["is_internal"]) == (known.topic_id, False)
    assert topic["topic_authorized_operations"] == 0b110111111000
    assert topic["partitions"][1] == {
        "error_code": 0,
        "partition_index": 1,
        "leader_id": 1,
        "leader_epoch": 0,
        "replica_nodes": [1],
        "isr_nodes": [1],
        "eligible_leader_replicas": [],
        "last_known_elr": [],
        "offline_replicas": [],
    }


def test_topics_are_in_name_order_each_once(broker: FakeBroker) -> None:
    topics, cursor = page(broker, ["b", "a", "b"])

    assert topics == [("a", 0, [0, 1]), ("b", 0, [0, 1, 2])]
    assert cursor is None


def test_no_topics_mean_all(broker: FakeBroker) -> None:
    assert page(broker, []) == page(broker, ["a", "b"])


def test_a_response_ends_at_the_limit_and_the_next_continues_there(broker: FakeBroker) -> None:
    first, cursor = page(broker, [], 3)
    rest, end = page(broker, [], 3, cursor)

    assert (first, cursor) == ([("a", 0, [0, 1]), ("b", 0, [0])], ("b", 1))
    assert (rest, end) == ([("b", 0, [1, 2])], None)


def test_a_limit_reached_between_topics_names_the_next_topic(broker: FakeBroker) -> None:
    assert page(broker, [], 2) == ([("a", 0, [0, 1])], ("b", 0))


def test_the_brokers_limit_is_never_exceeded(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_topic_partitions, "DESCRIBED_PARTITIONS_MAX", 1)

    for limit in (5, 0, -1):
        assert page(broker, [], limit) == ([("a", 0, [0])], ("a", 1))


def test_a_cursor_at_a_deleted_topic_continues_with_the_next(broker: FakeBroker) -> None:
    assert page(broker, [], cursor=("aa", 2)) == ([("b", 0, [0, 1, 2])], None)


def test_unknown_and_invalid_topics_are_returned_with_their_names(broker: FakeBroker) -> None:
    topics, _ = page(broker, ["c", "a b", "a"])

    assert topics == [("a", 0, [0, 1]), ("a b", 17, []), ("c", 3, [])]


def test_a_cursor_before_the_first_partition_is_an_invalid_request(broker: FakeBroker) -> None:
    topics, _ = page(broker, ["a"], cursor=("a", -1))

    assert topics == [("a", 42, [])]


def resources(broker: FakeBroker, version: int, *types: int) -> list[tuple[int, str]]:
    fields: dict[str, Any] = {"resource_types": list(types)} if version else {}
    answer = broker.ask(LIST, version, **fields)
    assert answer["error_code"] == 0
    return [(each["resource_type"], each["resource_name"]) for each in answer["config_resources"]]


def test_resources_with_a_configuration_are_listed(broker: FakeBroker) -> None:
    assert resources(broker, 1) == [(TOPIC, "a"), (TOPIC, "b"), (BROKER, "1"), (LOGGER, "1")]
    assert resources(broker, 1, TOPIC) == [(TOPIC, "a"), (TOPIC, "b")]
    assert resources(broker, 1, METRICS) == []


def test_groups_with_a_configuration_are_listed(broker: FakeBroker) -> None:
    configs = [{"name": "consumer.session.timeout.ms", "value": "50000"}]
    group = {"resource_type": GROUP, "resource_name": "g", "configs": configs}
    broker.ask(33, 2, resources=[group], validate_only=False)

    assert resources(broker, 1, GROUP) == [(GROUP, "g")]


def test_version_0_lists_client_metrics_of_which_there_are_none(broker: FakeBroker) -> None:
    assert resources(broker, 0) == []


def test_an_unknown_resource_type_is_refused(broker: FakeBroker) -> None:
    assert broker.ask(LIST, 1, resource_types=[TOPIC, 3])["error_code"] == 35
