"""Markers of a transaction whose coordinator was loaded again while they were being written."""

import pytest

from broker.core.transactions.commands import Producer, SyncData, WriteMarkers
from broker.core.transactions.end_driver import Endings
from broker.core.transactions.markers import Markers
from broker.core.transactions.step_queue import StepQueue
from broker.model import limits
from broker.model.clock import ManualClock
from broker.model.errors import LimitExceeded
from tests.memory_log import ClientLog

FIRST, SECOND = ("t", 0), ("t", 1)
REQUEST = WriteMarkers(Producer("x", 7, 3), True, frozenset((FIRST, SECOND)))


class Coordinator:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.decided = True
        self.awaited = True
        self.ended: list[Producer] = []
        self.synced_attempts: list[tuple[Producer, int, bool]] = []

    def synced(self, producer: Producer, attempt: int, *, is_durable: bool) -> None:
        self.synced_attempts.append((producer, attempt, is_durable))

    def marked(self, producer: Producer) -> None:
        self.ended.append(producer)

    def is_decided(self, producer: Producer) -> bool:
        assert producer == REQUEST.producer
        return self.decided

    def awaits_sync(self, producer: Producer, attempt: int) -> bool:
        assert (producer, attempt) == (REQUEST.producer, 1)
        return self.awaited

    def wake(self) -> None:
        """A test ticks by itself."""

    def coordinator_epoch(self, transactional_id: str) -> int:
        return len(transactional_id)


class World:
    """Endings over two logs."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], ClientLog] = {
            FIRST: ClientLog(),
            SECOND: ClientLog(syncs=False),
        }
        self.coordinator = Coordinator()
        markers = Markers(self.logs.get, self.no_groups, ManualClock())
        self.turns = StepQueue(self.coordinator.wake)
        self.endings = Endings(self.coordinator, markers, self.turns)

    def retry(self) -> None:
        self.endings.retry()
        self.turns.tick()

    def no_groups(self, *_: object) -> None:
        raise AssertionError("no group is part of the transaction")


def test_who_is_not_to_write_any_more_writes_nothing() -> None:
    world = World()
    world.logs[SECOND].is_loading = True
    world.endings.write(REQUEST)
    world.logs[SECOND].is_loading = False

    world.coordinator.decided = False
    world.retry()

    assert world.logs[SECOND].markers == []
    assert not world.endings.wants_retry
    assert not world.endings._writing  # nothing of it stays in memory


def test_only_the_last_who_was_asked_says_that_it_is_done() -> None:
    world = World()
    world.endings.write(REQUEST)
    world.logs[FIRST].is_loading = True
    world.endings.write(REQUEST)

    world.logs[SECOND].sync()
    assert world.coordinator.ended == []
    world.logs[FIRST].is_loading = False
    world.retry()

    assert world.coordinator.ended == [REQUEST.producer]


def test_a_marker_carries_the_epoch_of_its_coordinator() -> None:
    world = World()
    world.endings.write(REQUEST)

    [marker] = world.logs[FIRST].markers

    assert marker == (7, 3, True, 1)


def test_an_earlier_sync_of_a_coordinator_that_was_loaded_again_proves_nothing() -> None:
    world = World()
    for place in (FIRST, SECOND):
        world.logs[place].syncs = False
        world.logs[place].admit_transaction(7, 3)
        assert world.logs[place].send(7, 3)
    world.endings.sync(SyncData(REQUEST.producer, frozenset((FIRST,)), 1))
    world.endings.sync(SyncData(REQUEST.producer, frozenset((FIRST, SECOND)), 1))

    world.logs[FIRST].sync()
    assert world.coordinator.synced_attempts == []
    world.logs[SECOND].sync()

    assert world.coordinator.synced_attempts == [(REQUEST.producer, 1, True)]


def test_whose_end_has_been_forgotten_is_not_dismissed_any_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its coordinator was loaded again: the transaction is open, and its producer writes on."""
    monkeypatch.setattr(limits, "MARKERS_PER_TURN", 1)
    world = World()
    for log in world.logs.values():
        log.admit_transaction(7, 3)
    world.endings.sync(SyncData(REQUEST.producer, frozenset((FIRST, SECOND)), 1))

    world.coordinator.awaited = False
    world.turns.tick()

    assert sum(log.admits_transaction(7, 3) for log in world.logs.values()) == 1
    assert world.coordinator.synced_attempts == []


def refuse(*_: object) -> int:
    raise LimitExceeded("no room", 0)


def test_a_marker_that_a_log_refuses_for_whatever_reason_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.logs[SECOND].syncs = True
    with monkeypatch.context() as broken:
        broken.setattr(world.logs[FIRST], "append_internal", refuse)
        world.endings.write(REQUEST)
    assert world.coordinator.ended == []

    world.retry()

    assert world.coordinator.ended == [REQUEST.producer]
    assert [len(log.markers) for log in world.logs.values()] == [1, 1]


@pytest.mark.parametrize("broken", ["dismiss_transaction", "when_synced"])
def test_data_that_a_log_refuses_to_sync_for_whatever_reason_is_not_durable(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    world = World()
    monkeypatch.setattr(world.logs[FIRST], broken, refuse)

    world.endings.sync(SyncData(REQUEST.producer, frozenset((FIRST, SECOND)), 1))

    assert world.coordinator.synced_attempts == [(REQUEST.producer, 1, False)]
