"""CreatePartitions (KIP-195)."""

import json
from typing import Any

import pytest

from broker.core.topics.topic import OFFSETS_TOPIC
from broker.model.limits import PARTITIONS_PER_TOPIC_MAX
from tests.support.fakes import FakeBroker, only


def grow(
    broker: FakeBroker,
    count: int,
    assignments: list[list[int]] | None = None,
    *,
    topic: str = "a",
    version: int = 3,
    validate_only: bool = False,
) -> dict[str, Any]:
    assigned = None if assignments is None else [{"broker_ids": each} for each in assignments]
    wanted = {"name": topic, "count": count, "assignments": assigned}
    answer = broker.ask(37, version, topics=[wanted], timeout_ms=1, validate_only=validate_only)
    return only(answer["results"])


def stored_count(broker: FakeBroker) -> int:
    count = json.loads(broker.store.values[b"topic/a"])["partitions"]
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("version", range(4))
def test_a_topic_is_extended_to_the_requested_count(version: int) -> None:
    broker = FakeBroker()
    topic = broker.create("a", 2)
    old = list(topic.logs)

    answer = grow(broker, 5, version=version)

    assert (answer["name"], answer["error_code"], answer["error_message"]) == ("a", 0, None)
    assert [log.partition for log in topic.logs] == [0, 1, 2, 3, 4]
    assert topic.logs[:2] == old
    assert stored_count(broker) == 5


def test_new_partitions_are_visible_everywhere() -> None:
    broker = FakeBroker()
    topic = broker.create("a", 2)

    grow(broker, 3)

    assert broker.table.topics["a"] == (topic.topic_id, topic.logs)
    described = only(broker.ask(3, 12, topics=[{"name": "a"}])["topics"])
    assert [each["partition_index"] for each in described["partitions"]] == [0, 1, 2]


def test_new_partitions_obey_the_topics_configuration() -> None:
    broker = FakeBroker()
    broker.create("a", config={"retention.ms": "5"})

    grow(broker, 2)

    assert broker.log("a", 1).config.integer("retention.ms") == 5


def test_an_extended_topic_survives_a_restart() -> None:
    broker = FakeBroker()
    broker.create("a")
    grow(broker, 3)
    after = FakeBroker(store=broker.store)

    after.topics.load()

    topic = after.topics.get("a")
    assert topic is not None
    assert len(topic.logs) == 3


@pytest.mark.parametrize("count", [-1, 0, 1, 2, PARTITIONS_PER_TOPIC_MAX + 1])
def test_a_count_that_is_not_an_increase_or_too_large_is_refused(count: int) -> None:
    broker = FakeBroker()
    broker.create("a", 2)

    answer = grow(broker, count)

    assert answer["error_code"] == 37
    assert answer["error_message"]
    assert stored_count(broker) == 2


def test_the_number_of_partitions_of_a_broker_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.model.limits.PARTITIONS_PER_BROKER_MAX", 5)
    broker = FakeBroker()
    broker.create("a", 2)
    broker.create("b", 1)

    assert grow(broker, 5)["error_code"] == 37
    assert grow(broker, 4)["error_code"] == 0
    assert grow(broker, 5)["error_code"] == 37


def test_an_assignment_to_this_broker_is_accepted() -> None:
    broker = FakeBroker()
    topic = broker.create("a")

    assert grow(broker, 3, [[1], [1]])["error_code"] == 0
    assert len(topic.logs) == 3


@pytest.mark.parametrize("assignments", [[], [[1]], [[1], [2]], [[1], [1, 2]], [[1], []]])
def test_any_other_assignment_is_refused(assignments: list[list[int]]) -> None:
    broker = FakeBroker()
    topic = broker.create("a")

    assert grow(broker, 3, assignments)["error_code"] == 39
    assert len(topic.logs) == 1


def test_validate_only_checks_and_changes_nothing() -> None:
    broker = FakeBroker()
    topic = broker.create("a")

    good = grow(broker, 2, validate_only=True)
    bad = grow(broker, 1, validate_only=True)

    assert (good["error_code"], bad["error_code"]) == (0, 37)
    assert len(topic.logs) == stored_count(broker) == 1


@pytest.mark.parametrize(("topic", "error"), [("b", 3), ("a b", 17), (OFFSETS_TOPIC, 42)])
def test_a_topic_that_cannot_be_extended_has_an_error_and_a_message(topic: str, error: int) -> None:
    broker = FakeBroker()
    broker.create(OFFSETS_TOPIC)

    answer = grow(broker, 5, topic=topic)

    assert answer["error_code"] == error
    assert answer["error_message"]


def test_a_topic_named_twice_is_refused_and_answered_once() -> None:
    broker = FakeBroker()
    for name in "ab":
        broker.create(name)
    wanted = [{"name": name, "count": 2, "assignments": None} for name in ("a", "b", "a")]

    results = broker.ask(37, 1, topics=wanted, timeout_ms=1, validate_only=False)["results"]

    assert [(each["name"], each["error_code"]) for each in results] == [("a", 42), ("b", 0)]


def test_a_failing_disk_leaves_the_topic_unchanged() -> None:
    broker = FakeBroker()
    topic = broker.create("a", 2)
    broker.broken_partition = 3

    assert grow(broker, 4)["error_code"] == 56

    assert len(topic.logs) == stored_count(broker) == 2
    assert broker.table.topics["a"][1] == topic.logs
    assert grow(broker, 3)["error_code"] == 0


def test_a_topic_deleted_during_the_request_is_unknown() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.store.values.clear()
    broker.reload()

    assert grow(broker, 2)["error_code"] == 3
