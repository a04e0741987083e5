"""DeleteRecords (kafka.md 2.2, KIP-107)."""

from typing import Any

import pytest

from broker.core.topic import OFFSETS_TOPIC
from tests.fakes import FakeBroker, batch, only

END = 5


@pytest.fixture
def world() -> FakeBroker:
    """Topic "a" with two partitions of offsets 0-4."""
    world = FakeBroker()
    world.create("a", 2)
    for partition in range(2):
        world.log("a", partition).append(batch(3))
        world.log("a", partition).append(batch(2))
    return world


def delete(
    world: FakeBroker, offset: int, *, topic: str = "a", partition: int = 0, version: int = 2
) -> tuple[int, int]:
    partitions = [{"partition_index": partition, "offset": offset}]
    answer = world.ask(
        21, version, topics=[{"name": topic, "partitions": partitions}], timeout_ms=1
    )
    result = only(only(answer["topics"])["partitions"])
    assert result["partition_index"] == partition
    return result["error_code"], result["low_watermark"]


@pytest.mark.parametrize("version", range(3))
def test_records_below_an_offset_are_gone_and_the_start_is_durable(
    world: FakeBroker, version: int
) -> None:
    assert delete(world, 2, version=version) == (0, 2)

    assert world.log("a").log_start_offset == 2
    assert world.durable_starts == {("a", 0): 2}


def test_minus_1_deletes_up_to_the_high_watermark(world: FakeBroker) -> None:
    world.log("a").is_held = True
    world.log("a").append(batch(4))

    assert delete(world, -1) == (0, END)


def test_an_offset_below_the_start_answers_the_start(world: FakeBroker) -> None:
    delete(world, 3)

    assert delete(world, 1) == (0, 3)
    assert delete(world, 3) == (0, 3)


@pytest.mark.parametrize("offset", [END + 1, -2, 1 << 62])
def test_an_offset_that_nobody_can_read_is_out_of_range(world: FakeBroker, offset: int) -> None:
    world.log("a").is_held = True
    world.log("a").append(batch(4))

    assert delete(world, offset) == (1, -1)
    assert world.log("a").log_start_offset == 0
    assert world.durable_starts == {}  # nothing was to be written


@pytest.mark.parametrize(
    ("policy", "error"), [("compact", 44), ("compact,delete", 0), ("delete", 0), ("", 0)]
)
def test_only_compaction_deletes_from_a_topic_that_is_only_compacted(
    policy: str, error: int
) -> None:
    world = FakeBroker()
    world.create("c", config={"cleanup.policy": policy})
    world.log("c").append(batch(4))

    assert delete(world, 2, topic="c")[0] == error


@pytest.mark.parametrize(
    ("topic", "partition", "error"), [("b", 0, 3), ("a", 2, 3), ("a b", 0, 17), ("a", -1, 3)]
)
def test_what_does_not_exist_has_an_error(
    world: FakeBroker, topic: str, partition: int, error: int
) -> None:
    assert delete(world, 1, topic=topic, partition=partition) == (error, -1)


def test_records_of_the_broker_are_not_deleted(world: FakeBroker) -> None:
    world.create(OFFSETS_TOPIC)

    assert delete(world, 0, topic=OFFSETS_TOPIC) == (17, -1)


def test_a_log_that_is_offline_is_a_storage_error(world: FakeBroker) -> None:
    world.log("a").fail()

    assert delete(world, 1) == (56, -1)


def test_partitions_are_answered_by_themselves_and_the_last_offset_counts(
    world: FakeBroker,
) -> None:
    def parts(*offsets: tuple[int, int]) -> list[dict[str, Any]]:
        return [{"partition_index": index, "offset": offset} for index, offset in offsets]

    topics = [
        {"name": "a", "partitions": parts((0, 1), (1, 99), (0, 4))},
        {"name": "b", "partitions": parts((0, 1))},
    ]

    answer = world.ask(21, 1, topics=topics, timeout_ms=1)["topics"]

    assert [
        (
            topic["name"],
            [(each["low_watermark"], each["error_code"]) for each in topic["partitions"]],
        )
        for topic in answer
    ] == [("a", [(4, 0), (-1, 1)]), ("b", [(-1, 3)])]


def test_a_start_that_cannot_be_made_durable_is_a_storage_error(world: FakeBroker) -> None:
    world.store.is_broken = True

    assert delete(world, 1) == (56, -1)
    assert world.log("a").log_start_offset == 0
