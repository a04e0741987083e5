"""CreateTopics and DeleteTopics (KIP-4)."""

from typing import Any

import pytest

from broker.core.topics.topic import OFFSETS_TOPIC
from tests.support.fakes import FakeBroker, only


def new(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": -1, "replication_factor": -1, **more}


def create(
    broker: FakeBroker, version: int, *topics: dict[str, Any], **more: Any
) -> list[dict[str, Any]]:
    return broker.ask(19, version, topics=list(topics), **more)["topics"]


def code(answer: list[dict[str, Any]]) -> int:
    return only(answer)["error_code"]


@pytest.mark.parametrize("version", range(8))
def test_a_topic_is_created_with_the_requested_partitions(version: int) -> None:
    broker = FakeBroker()

    answer = create(broker, version, new("a", num_partitions=3, replication_factor=1))

    assert code(answer) == 0
    assert len(broker.topics.get("a").logs) == 3  # type: ignore[union-attr]


def test_minus_1_means_the_brokers_default() -> None:
    broker = FakeBroker({"num.partitions": "4"})

    answer = only(create(broker, 7, new("a")))

    assert (answer["num_partitions"], answer["replication_factor"]) == (4, 1)


def test_the_response_shows_the_topic_id_and_every_configuration_key() -> None:
    broker = FakeBroker()

    answer = only(create(broker, 7, new("a", configs=[{"name": "retention.ms", "value": "5"}])))

    assert answer["topic_id"] == broker.topics.get("a").topic_id  # type: ignore[union-attr]
    configs = {each["name"]: each for each in answer["configs"]}
    assert (configs["retention.ms"]["value"], configs["retention.ms"]["config_source"]) == ("5", 1)
    assert configs["max.message.bytes"]["config_source"] == 5


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (new("a b"), 17),
        (new(""), 17),
        (new(".."), 17),
        (new("a.b"), 17),
        (new("a_b"), 36),
        (new("a", num_partitions=0), 37),
        (new("a", num_partitions=-2), 37),
        (new("a", num_partitions=10_001), 37),
        (new("a", replication_factor=0), 38),
        (new("a", replication_factor=2), 38),
        (new("a", configs=[{"name": "no.such.key", "value": "1"}]), 40),
        (new("a", configs=[{"name": "retention.ms", "value": "soon"}]), 40),
        (new("a", configs=[{"name": "retention.ms", "value": None}]), 40),
    ],
    ids=str,
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_each_invalid_creation_has_its_own_error(
    topic: dict[str, Any], error: int, *, validate_only: bool
) -> None:
    broker = FakeBroker()
    broker.create("a_b")

    answer = only(create(broker, 5, topic, validate_only=validate_only))

    assert answer["error_code"] == error
    assert answer["error_message"]
    assert [each.name for each in broker.topics] == ["a_b"]


def test_a_topic_named_twice_is_refused_and_answered_once() -> None:
    broker = FakeBroker()

    answer = create(broker, 7, new("b"), new("a"), new("b"))

    assert [(each["name"], each["error_code"]) for each in answer] == [("b", 42), ("a", 0)]


def test_validate_only_checks_and_creates_nothing() -> None:
    broker = FakeBroker()

    answer = only(create(broker, 7, new("a", num_partitions=2), validate_only=True))

    assert (answer["error_code"], answer["num_partitions"]) == (0, 2)
    assert answer["topic_id"] == bytes(16)
    assert list(broker.topics) == []
    assert broker.store.values == {}


def assigned(*replicas: list[int]) -> list[dict[str, Any]]:
    return [{"partition_index": i, "broker_ids": each} for i, each in enumerate(replicas)]


def test_a_manual_assignment_to_this_broker_is_accepted() -> None:
    broker = FakeBroker()

    answer = only(create(broker, 7, new("a", assignments=assigned([1], [1]))))

    assert (answer["error_code"], answer["num_partitions"]) == (0, 2)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (new("a", assignments=assigned([2])), 39),
        (new("a", assignments=assigned([1, 2])), 39),
        (new("a", assignments=assigned([])), 39),
        (new("a", assignments=assigned([1])[:1] * 2), 39),
        (new("a", assignments=[{"partition_index": 1, "broker_ids": [1]}]), 39),
        (new("a", assignments=assigned([1]), num_partitions=1), 42),
        (new("a", assignments=assigned([1]), replication_factor=1), 42),
    ],
    ids=range(7),
)
def test_any_other_manual_assignment_is_refused(topic: dict[str, Any], error: int) -> None:
    assert code(create(FakeBroker(), 7, topic)) == error


def test_a_failing_disk_is_a_storage_error() -> None:
    broker = FakeBroker()
    broker.broken_partition = 1

    assert code(create(broker, 7, new("a", num_partitions=2))) == 56


@pytest.mark.parametrize("version", range(6))
def test_topics_are_deleted_by_name(version: int) -> None:
    broker = FakeBroker()
    broker.create("a", 2)

    answer = broker.ask(20, version, topic_names=["a", "b"])["responses"]

    assert [(each["name"], each["error_code"]) for each in answer] == [("a", 0), ("b", 3)]
    assert [log.partition for log in broker.deleted_logs] == [0, 1]
    assert broker.groups.deleted_topics == ["a"]


def test_version_6_deletes_by_name_or_id() -> None:
    broker = FakeBroker()
    broker.create("a")
    by_id = broker.create("b").topic_id
    topics = [
        {"name": "a"},
        {"name": None, "topic_id": by_id},
        {"name": None, "topic_id": bytes(range(16))},
    ]

    answer = broker.ask(20, 6, topics=topics)["responses"]

    assert [each["error_code"] for each in answer] == [0, 0, 100]
    assert [each["name"] for each in answer] == ["a", "b", None]
    assert list(broker.topics) == []


def test_name_and_id_together_are_an_invalid_request() -> None:
    broker = FakeBroker()
    topic_id = broker.create("a").topic_id

    answer = broker.ask(20, 6, topics=[{"name": "a", "topic_id": topic_id}])["responses"]

    assert code(answer) == 42


def test_a_topic_named_twice_for_deletion_is_refused_and_answered_once() -> None:
    broker = FakeBroker()
    broker.create("a")

    assert code(broker.ask(20, 3, topic_names=["a", "a"])["responses"]) == 42
    assert broker.topics.get("a") is not None


def test_an_internal_topic_is_not_deleted() -> None:
    broker = FakeBroker()
    broker.create(OFFSETS_TOPIC)

    assert code(broker.ask(20, 5, topic_names=[OFFSETS_TOPIC])["responses"]) == 42
    assert broker.topics.get(OFFSETS_TOPIC) is not None


@pytest.mark.parametrize(("version", "error"), [(2, 42), (3, 73), (5, 73)])
def test_deletion_can_be_disabled(version: int, error: int) -> None:
    broker = FakeBroker({"delete.topic.enable": "false"})
    broker.create("a")

    assert code(broker.ask(20, version, topic_names=["a"])["responses"]) == error


def test_a_recreated_topic_has_another_id_and_starts_at_0() -> None:
    broker = FakeBroker()
    old = broker.create("a").topic_id

    broker.ask(20, 5, topic_names=["a"])
    again = only(create(broker, 7, new("a")))

    assert again["topic_id"] not in (old, bytes(16))
    assert broker.log("a").log_end_offset == 0
