"""DescribeProducers (KIP-664)."""

from typing import Any

import pytest

from tests.support.fakes import FakeBroker, only

KEY = 61


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create("a", 2)
    return broker


def describe(broker: FakeBroker, topic: str, *partitions: int) -> list[dict[str, Any]]:
    """Ask for partitions of one topic; their answers."""
    wanted = [{"name": topic, "partition_indexes": list(partitions)}]
    answer = only(broker.ask(KEY, 0, topics=wanted)["topics"])
    assert answer["name"] == topic
    found: list[dict[str, Any]] = answer["partitions"]
    return found


def test_each_producer_of_a_partition_is_described(broker: FakeBroker) -> None:
    broker.log("a", 1).producers = [(7, 2, 9, 1_000, 3, 40), (8, 0, -1, 2_000, -1, -1)]

    idle, busy = describe(broker, "a", 0, 1)

    assert (idle["partition_index"], idle["error_code"], idle["active_producers"]) == (0, 0, [])
    assert busy["active_producers"] == [
        {
            "producer_id": 7,
            "producer_epoch": 2,
            "last_sequence": 9,
            "last_timestamp": 1_000,
            "coordinator_epoch": 3,
            "current_txn_start_offset": 40,
        },
        {
            "producer_id": 8,
            "producer_epoch": 0,
            "last_sequence": -1,
            "last_timestamp": 2_000,
            "coordinator_epoch": -1,
            "current_txn_start_offset": -1,
        },
    ]


@pytest.mark.parametrize(("topic", "partition"), [("a", 2), ("unknown", 0)])
def test_an_unknown_topic_or_partition_is_reported(
    broker: FakeBroker, topic: str, partition: int
) -> None:
    [answer] = describe(broker, topic, partition)

    assert (answer["error_code"], answer["active_producers"]) == (3, [])


def test_each_topic_and_partition_is_described_once(broker: FakeBroker) -> None:
    wanted = [{"name": "a", "partition_indexes": each} for each in ([1, 1, 0], [1])]

    topic = only(broker.ask(KEY, 0, topics=wanted)["topics"])

    assert topic["name"] == "a"
    assert [each["partition_index"] for each in topic["partitions"]] == [1, 0]


def test_other_tasks_run_after_each_partition(broker: FakeBroker) -> None:
    wanted = [{"name": "a", "partition_indexes": list(range(100))}]

    assert broker.turns(KEY, 0, topics=wanted) >= 100
