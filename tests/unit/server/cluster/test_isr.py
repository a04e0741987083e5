"""The driver of ISR changes: what logs report is written, and what logs wait for is set before."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.cluster import records
from broker.core.cluster.records import PartitionState
from broker.core.cluster.topic_settings import ReplicaSettings, TopicSettings
from broker.model.clock import SystemClock
from broker.server.cluster.isr import InSync
from broker.server.cluster.node import Node
from broker.storage.metadata import Put
from tests.support.fakes import FakeLog
from tests.support.memory_cluster import MemoryCluster, MemoryMetadata

LAG_MS = 1_000


class ReplicatedLog(FakeLog):
    """A led log with two followers; `ends` are theirs."""

    def __init__(self, topic_id: bytes, settings: Any) -> None:
        super().__init__("t", topic_id, 0, settings)
        self.is_replicated = True
        self.epoch_start = 0
        self.ends: dict[int, tuple[int, int]] = {}
        self.waits: list[list[int]] = []

    def set_isr(self, isr: list[int], committed: int) -> None:
        super().set_isr(isr, committed)
        self.waits.append(isr)

    def replica_states(self) -> list[tuple[int, int, int, int]]:
        return [(each, epoch, end, 0) for each, (epoch, end) in self.ends.items()]


class Leader:
    """Broker 1, which leads partition 0 of a topic of three replicas."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("REPLICAS_CHECKED_SECONDS", "REPLICAS_LAG_SECONDS_MIN"):
            monkeypatch.setattr(f"broker.server.cluster.isr.{name}", 0.001)
        self.cluster = MemoryCluster(1, 2, 3)
        broker = self.cluster.broker(1)
        self.topic_id = broker.create("t").topic_id
        self.metadata = MemoryMetadata(self.cluster.store)
        image = self.metadata.image
        state = PartitionState(1, 0, image.brokers[1].epoch, (1, 2, 3), (1, 2), 1)
        key = records.partition_key(self.topic_id, 0)
        self.cluster.store.transact([], [Put(key, records.partition_value(state))])
        self.metadata.catch_up()
        log: Any = ReplicatedLog(self.topic_id, broker.topics.plan_config)
        self.log: ReplicatedLog = log
        self.turn: Any = SimpleNamespace(
            isr_events=[],
            steady_ms=10 * LAG_MS,
            expiring_count=1,
            lagging_count=1,
            scans=0,
            overdue=[],
            lagging=[],
            fail_overdue=self.fail_overdue,
            lag_scan=self.lag_scan,
        )
        member: Any = SimpleNamespace(
            epoch=image.brokers[1].epoch, when_phase_changes=lambda _: None
        )
        metadata: Any = self.metadata
        metadata.when_changed = self.metadata.callbacks.append
        node = Node(1, metadata, metadata, member, SystemClock(), is_shared=False)
        turn: Any = self.turn
        settings = TopicSettings(image, ReplicaSettings)
        self.in_sync = InSync(node, lambda *_: log, turn, settings, LAG_MS)

    def lag_scan(self, *_: int) -> Any:
        self.turn.scans += 1
        return self.turn.lagging

    def fail_overdue(self, now_ms: int) -> None:
        self.turn.overdue.append(now_ms)

    @property
    def isr(self) -> tuple[int, ...]:
        state = self.metadata.image.state(self.topic_id, 0)
        assert state is not None
        return state.isr

    def run_until(self, condition: Callable[[], Any]) -> None:
        async def scenario() -> None:
            running = asyncio.ensure_future(self.in_sync.run())
            try:
                async with asyncio.timeout(10):
                    while not condition():
                        await asyncio.sleep(0.001)
            finally:
                running.cancel()
                await asyncio.wait([running])
                await self.in_sync.stop()

        asyncio.run(scenario())

    def reports_caught_up(self, replica: int) -> None:
        epoch = self.metadata.image.brokers[replica].epoch
        self.log.ends[replica] = epoch, 0
        self.turn.isr_events.append((self.log, replica, epoch))
        self.turn.when_in_sync()


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Leader:
    return Leader(monkeypatch)


def test_a_follower_that_has_caught_up_is_added_after_the_log_waits_for_it(leader: Leader) -> None:
    leader.reports_caught_up(3)

    leader.run_until(lambda: leader.isr == (1, 2, 3))

    assert leader.log.waits[0] == [1, 2, 3]
    assert leader.turn.isr_events == []


def test_a_follower_that_is_not_in_sync_any_more_is_not_added(leader: Leader) -> None:
    leader.reports_caught_up(3)
    leader.log.high_watermark = 5  # it has reached 0 only

    leader.run_until(lambda: leader.log.waits and leader.log.waits[-1] == [1, 2])

    assert leader.isr == (1, 2)
    assert leader.in_sync.pending((leader.topic_id, 0)) == ()


def test_a_lagging_follower_is_removed(leader: Leader) -> None:
    leader.turn.lagging = [(leader.log, 2)]

    leader.run_until(lambda: leader.isr == (1,))
    leader.turn.lagging = []

    leader.run_until(lambda: leader.log.isr == [1])


def test_a_log_in_another_epoch_gets_its_isr_with_its_role(leader: Leader) -> None:
    leader.log.known_epoch = 7
    leader.reports_caught_up(3)

    leader.run_until(lambda: not leader.turn.isr_events)

    assert leader.log.waits == []


def test_a_follower_that_joins_is_written_without_waiting_for_another_change(
    leader: Leader,
) -> None:
    image = leader.metadata.image
    leader.reports_caught_up(3)
    looked: list[int] = []

    def look(_log: Any = None) -> list[tuple[int, int, int, int]]:
        looked.append(1)
        if len(looked) == 1:  # the state changes while the driver works: it is looked at again
            state = image.state(leader.topic_id, 0)
            assert state is not None
            put = Put(
                records.partition_key(leader.topic_id, 0),
                records.partition_value(state._replace(partition_epoch=9)),
            )
            leader.cluster.store.transact([], [put])
            leader.metadata.catch_up()
        return [(3, image.brokers[3].epoch, 0, 0)]

    leader.log.replica_states = look  # type: ignore[method-assign]

    leader.run_until(lambda: leader.isr == (1, 2, 3))


def test_what_a_log_knows_of_followers_counts_in_its_epoch_only(leader: Leader) -> None:
    item = leader.topic_id, 0
    epoch = leader.metadata.image.brokers[3].epoch
    leader.log.ends[3] = epoch, 0
    assert leader.in_sync._is_in_sync(item, 3, epoch)

    leader.log.is_loading = True
    assert not leader.in_sync._is_in_sync(item, 3, epoch)
    leader.log.is_loading, leader.log.known_epoch = False, 7
    assert not leader.in_sync._is_in_sync(item, 3, epoch)


def test_acknowledgements_that_are_overdue_are_failed_only_while_there_are_some(
    leader: Leader,
) -> None:
    leader.run_until(lambda: leader.turn.overdue)
    leader.turn.expiring_count, leader.turn.overdue = 0, []

    leader.turn.lagging = [(leader.log, 2)]
    leader.turn.steady_ms += LAG_MS
    leader.run_until(lambda: leader.isr == (1,))

    assert leader.turn.overdue == []


def test_nothing_is_looked_at_while_no_log_waits_for_a_follower(leader: Leader) -> None:
    turn = leader.turn
    turn.expiring_count = turn.lagging_count = 0
    turns = iter(range(30))

    def has_passed() -> bool:
        turn.steady_ms += LAG_MS
        return next(turns, None) is None

    leader.run_until(has_passed)

    assert (turn.scans, turn.overdue) == (1, []), "a scan at the start only"


def test_a_log_that_begins_to_wait_for_a_follower_is_looked_at(leader: Leader) -> None:
    turn = leader.turn
    turn.expiring_count = turn.lagging_count = 0
    turns = iter(range(10))

    def is_looked_at() -> bool:
        turn.steady_ms += LAG_MS
        if next(turns, None) == 5:
            turn.expiring_count = turn.lagging_count = 1
            turn.when_awaiting()
        return turn.scans > 1 and turn.overdue

    leader.run_until(is_looked_at)
