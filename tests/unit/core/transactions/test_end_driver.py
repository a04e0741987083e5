"""Markers of a transaction whose coordinator was loaded again while they were being written."""

import pytest

from broker.core.transactions.commands import Producer, SyncData, WriteMarkers
from broker.core.transactions.end_driver import EndDriver
from broker.core.transactions.markers import Markers
from broker.core.transactions.step_queue import StepQueue
from broker.model import limits
from broker.model.errors import LimitExceeded
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import ClientLog

FIRST, SECOND = ("t", 0), ("t", 1)
REQUEST = WriteMarkers(Producer("x", 7, 3), True, frozenset((FIRST, SECOND)))


class Coordinator:
    """Records what it is told."""

    def __init__(self) -> None:
        self.decided = True
        self.has_space = True  # for the record that a transaction has ended
        self.awaited = True
        self.load = object()
        self.ended: list[Producer] = []
        self.synced_attempts: list[tuple[Producer, int, bool]] = []

    def synced(self, producer: Producer, attempt: int, *, is_durable: bool) -> None:
        self.synced_attempts.append((producer, attempt, is_durable))

    def marked(self, producer: Producer) -> None:
        if self.has_space:
            self.decided = False
            self.ended.append(producer)

    def decided_in(self, producer: Producer) -> object:
        assert producer == REQUEST.producer
        return self.load if self.decided else None

    def awaits_sync(self, producer: Producer, attempt: int) -> bool:
        assert (producer, attempt) == (REQUEST.producer, 1)
        return self.awaited

    def wake(self) -> None:
        """Do nothing: a test ticks by itself."""

    def coordinator_epoch(self, transactional_id: str) -> int:
        return len(transactional_id)

    def load_of(self, _transactional_id: str) -> object:
        return self.load


class Fakes:
    """Endings over two logs."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], ClientLog] = {
            FIRST: ClientLog(),
            SECOND: ClientLog(syncs=False),
        }
        self.coordinator = Coordinator()
        markers = Markers(self.logs.get, self.no_groups, ManualClock())
        self.steps = StepQueue(self.coordinator.wake)
        self.end_driver = EndDriver(self.coordinator, markers, self.steps)

    def retry(self) -> None:
        self.end_driver.retry()
        self.steps.tick()

    def no_groups(self, *_: object) -> None:
        raise AssertionError("no group is part of the transaction")


def test_an_end_whose_record_cannot_be_appended_is_reported_again() -> None:
    fakes = Fakes()
    fakes.coordinator.has_space = False
    fakes.end_driver.write(REQUEST)
    fakes.steps.tick()
    fakes.logs[SECOND].sync()
    assert fakes.end_driver.wants_retry

    fakes.retry()
    assert fakes.end_driver.wants_retry
    fakes.coordinator.has_space = True
    fakes.retry()

    assert fakes.coordinator.ended == [REQUEST.producer]
    assert not fakes.end_driver.wants_retry
    assert fakes.end_driver.writing == {}
    assert [len(each.markers) for each in fakes.logs.values()] == [1, 1]


def test_an_undecided_producers_markers_are_not_written() -> None:
    fakes = Fakes()
    fakes.logs[SECOND].is_loading = True
    fakes.end_driver.write(REQUEST)
    fakes.logs[SECOND].is_loading = False

    fakes.coordinator.decided = False
    fakes.retry()

    assert fakes.logs[SECOND].markers == []
    assert not fakes.end_driver.wants_retry
    assert not fakes.end_driver.writing  # nothing of it stays in memory


def test_only_the_latest_request_for_markers_reports_completion() -> None:
    fakes = Fakes()
    fakes.end_driver.write(REQUEST)
    fakes.logs[FIRST].is_loading = True
    fakes.end_driver.write(REQUEST)

    fakes.logs[SECOND].sync()
    assert fakes.coordinator.ended == []
    fakes.logs[FIRST].is_loading = False
    fakes.retry()

    assert fakes.coordinator.ended == [REQUEST.producer]


def test_markers_that_an_earlier_load_of_the_coordinator_has_written_complete_nothing() -> None:
    """The producer may be in its next transaction, decided by another broker meanwhile."""
    fakes = Fakes()
    fakes.end_driver.write(REQUEST)

    fakes.coordinator.load = object()
    fakes.logs[SECOND].sync()

    assert fakes.coordinator.ended == []
    assert not fakes.end_driver.writing


def test_markers_of_an_earlier_load_of_the_coordinator_are_not_written_again() -> None:
    fakes = Fakes()
    fakes.logs[FIRST].is_loading = True
    fakes.end_driver.write(REQUEST)

    fakes.coordinator.load = object()
    fakes.logs[FIRST].is_loading = False
    fakes.retry()

    assert fakes.logs[FIRST].markers == []
    assert not fakes.end_driver.writing


def test_the_end_of_a_transaction_without_partitions_is_complete_at_once() -> None:
    fakes = Fakes()

    fakes.end_driver.write(REQUEST._replace(partitions=frozenset()))

    assert fakes.coordinator.ended == [REQUEST.producer]


def test_a_marker_carries_the_coordinator_epoch() -> None:
    fakes = Fakes()
    fakes.end_driver.write(REQUEST)

    [marker] = fakes.logs[FIRST].markers

    assert marker == (7, 3, True, 1)


def test_a_sync_requested_by_a_previous_load_of_the_coordinator_does_not_count() -> None:
    fakes = Fakes()
    for place in (FIRST, SECOND):
        fakes.logs[place].syncs = False
        fakes.logs[place].admit_transaction(7, 3)
        assert fakes.logs[place].send(7, 3)
    fakes.end_driver.sync(SyncData(REQUEST.producer, frozenset((FIRST,)), 1))
    fakes.end_driver.sync(SyncData(REQUEST.producer, frozenset((FIRST, SECOND)), 1))

    fakes.logs[FIRST].sync()
    assert fakes.coordinator.synced_attempts == []
    fakes.logs[SECOND].sync()

    assert fakes.coordinator.synced_attempts == [(REQUEST.producer, 1, True)]


def test_a_sync_of_an_earlier_load_of_the_coordinator_decides_nothing() -> None:
    """Attempts are counted anew by each load."""
    fakes = Fakes()
    fakes.logs[SECOND].admit_transaction(7, 3)
    assert fakes.logs[SECOND].send(7, 3)
    fakes.end_driver.sync(SyncData(REQUEST.producer, frozenset((SECOND,)), 1))

    fakes.coordinator.load = object()
    fakes.logs[SECOND].sync()

    assert fakes.coordinator.synced_attempts == []
    assert not fakes.end_driver.syncing


def test_a_producer_whose_end_was_lost_is_not_dismissed_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its coordinator was loaded again: the transaction is open, and its producer continues."""
    monkeypatch.setattr(limits, "MARKERS_PER_TURN", 1)
    fakes = Fakes()
    for log in fakes.logs.values():
        log.admit_transaction(7, 3)
    fakes.end_driver.sync(SyncData(REQUEST.producer, frozenset((FIRST, SECOND)), 1))

    fakes.coordinator.awaited = False
    fakes.steps.tick()

    assert sum(log.admits_transaction(7, 3) for log in fakes.logs.values()) == 1
    assert fakes.coordinator.synced_attempts == []


def refuse(*_: object) -> int:
    raise LimitExceeded("no room", 0)


def test_a_marker_refused_by_a_log_for_any_reason_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fakes = Fakes()
    fakes.logs[SECOND].syncs = True
    with monkeypatch.context() as broken:
        broken.setattr(fakes.logs[FIRST], "append_internal", refuse)
        fakes.end_driver.write(REQUEST)
    assert fakes.coordinator.ended == []

    fakes.retry()

    assert fakes.coordinator.ended == [REQUEST.producer]
    assert [len(log.markers) for log in fakes.logs.values()] == [1, 1]


@pytest.mark.parametrize("broken", ["dismiss_transaction", "when_synced"])
def test_data_whose_sync_is_refused_for_any_reason_is_not_durable(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    fakes = Fakes()
    monkeypatch.setattr(fakes.logs[FIRST], broken, refuse)

    fakes.end_driver.sync(SyncData(REQUEST.producer, frozenset((FIRST, SECOND)), 1))

    assert fakes.coordinator.synced_attempts == [(REQUEST.producer, 1, False)]
