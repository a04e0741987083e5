"""CreatePartitions (kafka.md 2.2, KIP-195)."""

import json
from typing import Any

import pytest

from broker.core.topic import OFFSETS_TOPIC
from broker.model.limits import PARTITIONS_PER_TOPIC_MAX
from tests.fakes import FakeBroker, only


def grow(
    world: FakeBroker,
    count: int,
    assignments: list[list[int]] | None = None,
    *,
    topic: str = "a",
    version: int = 3,
    validate_only: bool = False,
) -> dict[str, Any]:
    assigned = None if assignments is None else [{"broker_ids": each} for each in assignments]
    wanted = {"name": topic, "count": count, "assignments": assigned}
    answer = world.ask(37, version, topics=[wanted], timeout_ms=1, validate_only=validate_only)
    return only(answer["results"])


def stored_count(world: FakeBroker) -> int:
    count = json.loads(world.store.values[b"topic/a"])["partitions"]
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_to_the_count(version: int) -> None:
    world = FakeBroker()
    topic = world.create("a", 2)
    old = list(topic.logs)

    answer = grow(world, 5, version=version)

    assert (answer["name"], answer["error_code"], answer["error_message"]) == ("a", 0, None)
    assert [log.partition for log in topic.logs] == [0, 1, 2, 3, 4]
    assert topic.logs[:2] == old
    assert stored_count(world) == 5


def test_everybody_sees_the_new_partitions() -> None:
    world = FakeBroker()
    topic = world.create("a", 2)

    grow(world, 3)

    assert world.table.topics["a"] == (topic.topic_id, topic.logs)
    described = only(world.ask(3, 12, topics=[{"name": "a"}])["topics"])
    assert [each["partition_index"] for each in described["partitions"]] == [0, 1, 2]


def test_new_partitions_obey_the_topics_configuration() -> None:
    world = FakeBroker()
    world.create("a", config={"retention.ms": "5"})

    grow(world, 2)

    assert world.log("a", 1).config.integer("retention.ms") == 5


def test_a_grown_topic_comes_back_grown_after_a_restart() -> None:
    world = FakeBroker()
    world.create("a")
    grow(world, 3)
    after = FakeBroker(store=world.store)

    after.topics.load()

    topic = after.topics.get("a")
    assert topic is not None
    assert len(topic.logs) == 3


@pytest.mark.parametrize("count", [-1, 0, 1, 2, PARTITIONS_PER_TOPIC_MAX + 1])
def test_a_count_that_is_no_increase_or_too_large_is_refused(count: int) -> None:
    world = FakeBroker()
    world.create("a", 2)

    answer = grow(world, count)

    assert answer["error_code"] == 37
    assert answer["error_message"]
    assert stored_count(world) == 2


def test_a_broker_has_room_for_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.core.topic_rules.PARTITIONS_PER_BROKER_MAX", 5)
    world = FakeBroker()
    world.create("a", 2)
    world.create("b", 1)

    assert grow(world, 5)["error_code"] == 37
    assert grow(world, 4)["error_code"] == 0
    assert grow(world, 5)["error_code"] == 37


def test_an_assignment_to_this_broker_is_taken() -> None:
    world = FakeBroker()
    topic = world.create("a")

    assert grow(world, 3, [[1], [1]])["error_code"] == 0
    assert len(topic.logs) == 3


@pytest.mark.parametrize("assignments", [[], [[1]], [[1], [2]], [[1], [1, 2]], [[1], []]])
def test_a_wrong_assignment_is_refused(assignments: list[list[int]]) -> None:
    world = FakeBroker()
    topic = world.create("a")

    assert grow(world, 3, assignments)["error_code"] == 39
    assert len(topic.logs) == 1


def test_validate_only_checks_and_changes_nothing() -> None:
    world = FakeBroker()
    topic = world.create("a")

    good = grow(world, 2, validate_only=True)
    bad = grow(world, 1, validate_only=True)

    assert (good["error_code"], bad["error_code"]) == (0, 37)
    assert len(topic.logs) == stored_count(world) == 1


@pytest.mark.parametrize(("topic", "error"), [("b", 3), ("a b", 17), (OFFSETS_TOPIC, 42)])
def test_what_cannot_grow_has_an_error_and_a_text(topic: str, error: int) -> None:
    world = FakeBroker()
    world.create(OFFSETS_TOPIC)

    answer = grow(world, 5, topic=topic)

    assert answer["error_code"] == error
    assert answer["error_message"]


def test_a_topic_named_twice_is_refused_and_answered_once() -> None:
    world = FakeBroker()
    for name in "ab":
        world.create(name)
    wanted = [{"name": name, "count": 2, "assignments": None} for name in ("a", "b", "a")]

    results = world.ask(37, 1, topics=wanted, timeout_ms=1, validate_only=False)["results"]

    assert [(each["name"], each["error_code"]) for each in results] == [("a", 42), ("b", 0)]


def test_a_failing_disk_leaves_the_topic_as_it_was() -> None:
    world = FakeBroker()
    topic = world.create("a", 2)
    world.broken_partition = 3

    assert grow(world, 4)["error_code"] == 56

    assert len(topic.logs) == stored_count(world) == 2
    assert world.table.topics["a"][1] == topic.logs
    assert grow(world, 3)["error_code"] == 0


def test_a_topic_that_was_deleted_meanwhile_is_unknown() -> None:
    world = FakeBroker()
    world.create("a")
    world.store.values.clear()

    assert grow(world, 2)["error_code"] == 3
