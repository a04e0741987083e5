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


def ask_as_replica(broker: FakeBroker, epoch: int) -> tuple[int, int, int]:
    wanted = {"partition": 0, "leader_epoch": epoch}
    topics = [{"topic": "a", "partitions": [wanted]}]
    found = only(only(broker.ask(23, 4, replica_id=2, topics=topics)["topics"])["partitions"])
    return found["error_code"], found["leader_epoch"], found["end_offset"]


@pytest.mark.parametrize("is_led", [True, False])
def test_a_replica_gets_the_end_of_the_log_led_or_followed(
    broker: FakeBroker, is_led: bool
) -> None:
    topic = broker.topics.get("a")
    assert topic is not None
    if not is_led:
        topic.followed[0] = broker.log("a")
        topic.logs[0] = None

    assert ask_as_replica(broker, (1 << 31) - 1) == (0, 4, 7)
    assert ask_as_replica(broker, 3) == (0, 3, 5)
    assert ask(broker, 4)[0] == (0 if is_led else 6)


def test_a_replica_gets_nothing_of_a_log_that_is_not_loaded_or_not_here(
    broker: FakeBroker,
) -> None:
    topic = broker.topics.get("a")
    assert topic is not None
    broker.log("a").is_loading = True
    assert ask_as_replica(broker, 3) == (9, -1, -1)

    topic.logs[0] = None
    assert ask_as_replica(broker, 3) == (9, -1, -1)
