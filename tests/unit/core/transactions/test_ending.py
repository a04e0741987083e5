"""Markers of a transaction whose coordinator was loaded again while they were being written."""

from broker.core.transactions.commands import Producer, WriteMarkers
from broker.core.transactions.ending import Endings
from broker.core.transactions.markers import Markers
from broker.model.clock import ManualClock
from tests.memory_log import ClientLog

FIRST, SECOND = ("t", 0), ("t", 1)
REQUEST = WriteMarkers(Producer("x", 7, 3), True, frozenset((FIRST, SECOND)))


class Coordinator:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.decided = True
        self.ended: list[Producer] = []

    def synced(self, producer: Producer, attempt: int, *, is_durable: bool) -> None:
        raise AssertionError("no data is synced here", producer, attempt, is_durable)

    def marked(self, producer: Producer) -> None:
        self.ended.append(producer)

    def is_decided(self, producer: Producer) -> bool:
        assert producer == REQUEST.producer
        return self.decided

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
        self.endings = Endings(self.coordinator, markers)

    def no_groups(self, *_: object) -> None:
        raise AssertionError("no group is part of the transaction")


def test_who_is_not_to_write_any_more_writes_nothing() -> None:
    world = World()
    world.logs[SECOND].is_loading = True
    world.endings.write(REQUEST)
    world.logs[SECOND].is_loading = False

    world.coordinator.decided = False
    world.endings.tick(is_retry=True)

    assert world.logs[SECOND].markers == []
    assert not world.endings.wants_retry


def test_only_the_last_who_was_asked_says_that_it_is_done() -> None:
    world = World()
    world.endings.write(REQUEST)
    world.logs[FIRST].is_loading = True
    world.endings.write(REQUEST)

    world.logs[SECOND].sync()
    assert world.coordinator.ended == []
    world.logs[FIRST].is_loading = False
    world.endings.tick(is_retry=True)

    assert world.coordinator.ended == [REQUEST.producer]


def test_a_marker_carries_the_epoch_of_its_coordinator() -> None:
    world = World()
    world.endings.write(REQUEST)

    [marker] = world.logs[FIRST].markers

    assert marker == (7, 3, True, 1)
