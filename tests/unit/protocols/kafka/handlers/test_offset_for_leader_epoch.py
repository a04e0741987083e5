"""OffsetForLeaderEpoch (KIP-101, KIP-320)."""

from typing import Any

import pytest

from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from tests.support.fakes import FakeBroker, batch, only


@pytest.fixture
def broker() -> FakeBroker:
    """Topic "a": epoch 0 ended at 2, 3 at 5, the current one is 4."""
    broker = FakeBroker()
    broker.create("a")
    log = broker.log("a")
    log.append(batch(7))
    log.epochs = [(0, 2), (3, 5)]
    log.leader_epoch = 4
    return broker


def ask(
    broker: FakeBroker,
    epoch: int,
    *,
    version: int = 4,
    topic: str = "a",
    partition: int = 0,
    **more: Any,
) -> tuple[int, int, int]:
    wanted = {"partition": partition, "leader_epoch": epoch, **more}
    answer = broker.ask(23, version, topics=[{"topic": topic, "partitions": [wanted]}])
    named = only(answer["topics"])
    found = only(named["partitions"])
    assert (named["topic"], found["partition"]) == (topic, partition)
    return found["error_code"], found.get("leader_epoch", -1), found["end_offset"]


@pytest.mark.parametrize(
    ("epoch", "found"),
    [(0, (0, 2)), (1, (0, 2)), (2, (0, 2)), (3, (3, 5)), (4, (4, 7)), (-1, (-1, -1))],
)
def test_an_epoch_returns_the_largest_one_up_to_it_and_its_end_offset(
    broker: FakeBroker, epoch: int, found: tuple[int, int]
) -> None:
    assert ask(broker, epoch) == (0, *found)


@pytest.mark.parametrize("version", range(5))
def test_every_version_returns_the_end_offset(broker: FakeBroker, version: int) -> None:
    error, epoch, end = ask(broker, 3, version=version)

    assert (error, end) == (0, 5)
    assert epoch == (3 if version else -1)


@pytest.mark.parametrize(("current", "error"), [(3, 74), (4, 0), (5, 75), (-1, 0)])
def test_the_clients_leader_epoch_is_checked(broker: FakeBroker, current: int, error: int) -> None:
    assert ask(broker, 0, current_leader_epoch=current)[0] == error


@pytest.mark.parametrize(("topic", "partition"), [("b", 0), ("a", 1), ("a", -1)])
def test_unknown_topics_and_partitions_are_error_3(
    broker: FakeBroker, topic: str, partition: int
) -> None:
    assert ask(broker, 0, topic=topic, partition=partition) == (3, -1, -1)


def test_other_tasks_run_while_many_partitions_are_looked_up(broker: FakeBroker) -> None:
    parts = [{"partition": 0, "leader_epoch": 0}]
    topics = [{"topic": "a", "partitions": parts}] * (3 * PARTITIONS_ANSWERED_PER_STEP)

    assert broker.turns(23, 4, topics=topics) >= 3
