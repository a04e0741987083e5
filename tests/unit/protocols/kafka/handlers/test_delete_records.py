"""DeleteRecords (KIP-107)."""

from typing import Any

import pytest

from broker.core.topics.topic import OFFSETS_TOPIC
from tests.support.fakes import FakeBroker, batch, only

END = 5


@pytest.fixture
def broker() -> FakeBroker:
    """Topic "a" with two partitions of offsets 0-4."""
    broker = FakeBroker()
    broker.create("a", 2)
    for partition in range(2):
        broker.log("a", partition).append(batch(3))
        broker.log("a", partition).append(batch(2))
    return broker


def delete(
    broker: FakeBroker, offset: int, *, topic: str = "a", partition: int = 0, version: int = 2
) -> tuple[int, int]:
    partitions = [{"partition_index": partition, "offset": offset}]
    answer = broker.ask(
        21, version, topics=[{"name": topic, "partitions": partitions}], timeout_ms=1
    )
    result = only(only(answer["topics"])["partitions"])
    assert result["partition_index"] == partition
    return result["error_code"], result["low_watermark"]


@pytest.mark.parametrize("version", range(3))
def test_records_below_an_offset_are_deleted_and_the_log_start_is_durable(
    broker: FakeBroker, version: int
) -> None:
    assert delete(broker, 2, version=version) == (0, 2)

    assert broker.log("a").log_start_offset == 2
    assert broker.durable_starts == {("a", 0): 2}


def test_minus_1_deletes_up_to_the_high_watermark(broker: FakeBroker) -> None:
    broker.log("a").is_held = True
    broker.log("a").append(batch(4))

    assert delete(broker, -1) == (0, END)


def test_an_offset_below_the_log_start_returns_the_log_start(broker: FakeBroker) -> None:
    delete(broker, 3)

    assert delete(broker, 1) == (0, 3)
    assert delete(broker, 3) == (0, 3)


@pytest.mark.parametrize("offset", [END + 1, -2, 1 << 62])
def test_an_offset_above_the_high_watermark_is_out_of_range(
    broker: FakeBroker, offset: int
) -> None:
    broker.log("a").is_held = True
    broker.log("a").append(batch(4))

    assert delete(broker, offset) == (1, -1)
    assert broker.log("a").log_start_offset == 0
    assert broker.durable_starts == {}  # nothing was to be written


@pytest.mark.parametrize(
    ("policy", "error"), [("compact", 44), ("compact,delete", 0), ("delete", 0), ("", 0)]
)
def test_delete_records_is_refused_for_a_compacted_topic(policy: str, error: int) -> None:
    broker = FakeBroker()
    broker.create("c", config={"cleanup.policy": policy})
    broker.log("c").append(batch(4))

    assert delete(broker, 2, topic="c")[0] == error


@pytest.mark.parametrize(
    ("topic", "partition", "error"), [("b", 0, 3), ("a", 2, 3), ("a b", 0, 17), ("a", -1, 3)]
)
def test_an_unknown_topic_or_partition_has_an_error(
    broker: FakeBroker, topic: str, partition: int, error: int
) -> None:
    assert delete(broker, 1, topic=topic, partition=partition) == (error, -1)


def test_records_of_internal_topics_cannot_be_deleted(broker: FakeBroker) -> None:
    broker.create(OFFSETS_TOPIC)

    assert delete(broker, 0, topic=OFFSETS_TOPIC) == (17, -1)


def test_a_log_that_is_offline_is_a_storage_error(broker: FakeBroker) -> None:
    broker.log("a").fail()

    assert delete(broker, 1) == (56, -1)


def test_partitions_are_answered_separately_and_the_last_of_repeated_ones_counts(
    broker: FakeBroker,
) -> None:
    def parts(*offsets: tuple[int, int]) -> list[dict[str, Any]]:
        return [{"partition_index": index, "offset": offset} for index, offset in offsets]

    topics = [
        {"name": "a", "partitions": parts((0, 1), (1, 99), (0, 4))},
        {"name": "b", "partitions": parts((0, 1))},
    ]

    answer = broker.ask(21, 1, topics=topics, timeout_ms=1)["topics"]

    assert [
        (
            topic["name"],
            [(each["low_watermark"], each["error_code"]) for each in topic["partitions"]],
        )
        for topic in answer
    ] == [("a", [(4, 0), (-1, 1)]), ("b", [(-1, 3)])]


def test_a_log_start_that_cannot_be_made_durable_is_a_storage_error(broker: FakeBroker) -> None:
    broker.store.is_broken = True

    assert delete(broker, 1) == (56, -1)
    assert broker.log("a").log_start_offset == 0


def test_a_deletion_waits_for_the_replicas_in_sync_until_its_timeout(broker: FakeBroker) -> None:
    broker.log("a").is_replicated = True
    assert delete(broker, 1) == (0, 1)

    broker.log("a").deletes_everywhere = False

    assert delete(broker, 2) == (7, -1)
    assert broker.log("a").log_start_offset == 2, "it is deleted here"
