"""Groups and transactions as a start wires them."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.model.config import load
from broker.server.coordinators import Coordinators
from tests.support.manual_clock import ManualClock


class FakeTopics:
    """Topics with these numbers of partitions."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def get(self, name: str) -> Any:
        count = self.counts.get(name)
        if count is None:
            return None
        led = [SimpleNamespace(partition=each) for each in range(count)]
        return SimpleNamespace(partition_count=count, log=lambda _partition: None, led_logs=led)

    def when_deleted(self, _callback: Any) -> None:
        pass

    def when_gained(self, callback: Any) -> None:
        self.gained = callback

    def when_opened(self, callback: Any) -> None:
        self.opened = callback

    def when_lost(self, callback: Any) -> None:
        self.lost = callback

    async def get_or_create(self, _name: str) -> Any:
        raise NotImplementedError


def log_of(topic: str, *, end: int = 0, is_offline: bool = False) -> Any:
    """Return a log as a start has found it; this broker leads it."""
    return SimpleNamespace(
        topic=topic,
        partition=0,
        log_end_offset=end,
        is_offline=is_offline,
        is_follower=False,
        is_caught_up_leader=True,
        is_released=False,
        lacks_replicas=False,
        epoch_start=end,
        open_transactions={},
    )


@pytest.fixture
def topics() -> FakeTopics:
    return FakeTopics()


@pytest.fixture
def coordinators(topics: FakeTopics) -> Iterator[Coordinators]:
    loop = asyncio.new_event_loop()
    made: Any = topics
    group_configs: Any = SimpleNamespace(setting=None)
    config = load(overrides=["offsets.topic.num.partitions=50"], environment={})
    wired = Coordinators(config, loop, ManualClock(), made, group_configs)
    yield wired
    wired.close()
    loop.close()


def test_an_unusable_log_is_not_treated_as_empty(
    coordinators: Coordinators, topics: FakeTopics
) -> None:
    """Its decisions are unknown: none of its transactions is an orphan."""
    topics.counts = {TRANSACTIONS_TOPIC: 1}
    coordinators.expect()

    coordinators.log_is_ready(log_of(TRANSACTIONS_TOPIC, is_offline=True))

    assert not coordinators.transactions.is_complete


def test_an_empty_log_is_loaded_at_once(coordinators: Coordinators, topics: FakeTopics) -> None:
    topics.counts = {TRANSACTIONS_TOPIC: 1}
    coordinators.expect()

    coordinators.log_is_ready(log_of(TRANSACTIONS_TOPIC))

    assert coordinators.transactions.is_complete


def test_groups_are_in_the_partitions_of_the_existing_topic(
    coordinators: Coordinators, topics: FakeTopics
) -> None:
    before = coordinators.groups.partition_for("hello")

    topics.counts = {OFFSETS_TOPIC: 7, TRANSACTIONS_TOPIC: 3}

    assert before == 99162322 % 50
    assert coordinators.groups.partition_for("hello") == 99162322 % 7


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC])
def test_a_coordinator_comes_and_goes_with_the_leadership_of_its_partition(
    coordinators: Coordinators, topics: FakeTopics, topic: str
) -> None:
    both: dict[str, Any] = {
        OFFSETS_TOPIC: coordinators.groups,
        TRANSACTIONS_TOPIC: coordinators.transactions,
    }
    coordinator = both.pop(topic)
    [other] = both.values()

    topics.gained(topic, 0)
    assert coordinator.is_loading
    topics.lost(topic, 0)
    coordinators.log_is_ready(log_of(topic))

    assert not coordinator.is_loading
    assert coordinator.is_complete
    assert not other.is_loading


def test_a_partition_that_another_broker_has_coordinated_before_is_loaded_without_a_request(
    coordinators: Coordinators, topics: FakeTopics
) -> None:
    """Its timeouts have to be checked, and its markers to be written."""
    topics.counts = {TRANSACTIONS_TOPIC: 1}

    topics.opened(log_of(TRANSACTIONS_TOPIC, end=7))

    assert coordinators.transactions.numbers() == [0]


def test_a_log_that_follows_is_not_loaded(coordinators: Coordinators, topics: FakeTopics) -> None:
    topics.counts = {TRANSACTIONS_TOPIC: 1}
    log = log_of(TRANSACTIONS_TOPIC)
    log.is_follower = True
    coordinators.expect()

    coordinators.log_is_ready(log)

    assert coordinators.transactions.is_loading


def test_a_log_is_loaded_once_it_has_all_that_its_replicas_have(
    coordinators: Coordinators, topics: FakeTopics
) -> None:
    """Another broker may have acknowledged more than this one knows to be replicated."""
    waiting: list[tuple[int, Any]] = []
    log = log_of(TRANSACTIONS_TOPIC)
    log.is_caught_up_leader, log.epoch_start = False, 7
    log.when_durable = lambda offset, callback: waiting.append((offset, callback))
    topics.gained(TRANSACTIONS_TOPIC, 0)

    coordinators.log_is_ready(log)
    [(offset, callback)] = waiting
    is_waiting = coordinators.transactions.is_loading
    log.is_caught_up_leader = True
    callback(True)

    assert (offset, is_waiting, coordinators.transactions.is_loading) == (7, True, False)


def test_a_log_that_is_lost_before_that_is_not_loaded(
    coordinators: Coordinators, topics: FakeTopics
) -> None:
    waiting: list[Any] = []
    log = log_of(TRANSACTIONS_TOPIC)
    log.is_caught_up_leader = False
    log.when_durable = lambda _, callback: waiting.append(callback)
    topics.gained(TRANSACTIONS_TOPIC, 0)
    coordinators.log_is_ready(log)

    topics.lost(TRANSACTIONS_TOPIC, 0)
    [callback] = waiting
    callback(False)

    assert not coordinators.transactions.is_loading


def test_a_log_that_lacks_replicas_meanwhile_is_waited_for_again(
    coordinators: Coordinators, topics: FakeTopics
) -> None:
    waiting: list[Any] = []
    log = log_of(TRANSACTIONS_TOPIC)
    log.is_caught_up_leader = False
    log.when_durable = lambda _, callback: waiting.append(callback)
    topics.gained(TRANSACTIONS_TOPIC, 0)
    coordinators.log_is_ready(log)

    log.lacks_replicas = True
    waiting.pop()(False)
    [callback] = waiting
    assert coordinators.transactions.is_loading
    log.lacks_replicas, log.is_caught_up_leader = False, True
    callback(True)

    assert not coordinators.transactions.is_loading
    assert coordinators.transactions.numbers() == []
