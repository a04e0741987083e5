"""Copying of all followed partitions: links to leaders, and what is done after their events."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker._native.log import truncation
from broker._native.log.partition_log import PartitionLog
from broker.core.cluster.image import Delta
from broker.core.cluster.slices import complete
from broker.model.clock import SystemClock
from broker.model.errors import StorageError
from broker.server.cluster.replica_link import Fetching
from broker.server.cluster.replicating import Replicating
from tests.support.native_log import appended, records
from tests.support.replica_side import Side
from tests.unit.core.cluster.clusters import Cluster

if TYPE_CHECKING:
    from broker.model.address import Address

SELF = 3
WAIT_SECONDS = 20


class Node:
    """Broker 3 of a cluster: its image, and what reports changes."""

    def __init__(self, partitions: int) -> None:
        self.cluster = Cluster(3)
        self.topic_id = self.cluster.create("t", *[(1, 2, 3)] * partitions)
        self.broker_id = SELF
        self.clock = SystemClock()
        self.metadata = self.member = self
        self.epoch = self.cluster.image.brokers[SELF].epoch
        self._on_image: list[Callable[[Delta], None]] = []
        self._on_phase: list[Callable[[], None]] = []

    @property
    def image(self) -> Any:
        return self.cluster.image

    def when_changed(self, callback: Callable[[Delta], None]) -> None:
        self._on_image.append(callback)

    def when_phase_changes(self, callback: Callable[[], None]) -> None:
        self._on_phase.append(callback)

    def change_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        for callback in self._on_phase:
            callback()

    def elect(self, partition: int, leader: int, epoch: int) -> None:
        """Let a broker lead a partition from an epoch on."""
        state = self.cluster.state(self.topic_id, partition)
        other = Cluster()
        other.store = self.cluster.store
        broker_epoch = self.image.brokers[leader].epoch
        other.put(
            self.topic_id,
            partition,
            state._replace(leader=leader, leader_epoch=epoch, broker_epoch=broker_epoch),
        )
        self.refresh()

    def refresh(self) -> None:
        for changes in self.cluster.store.changes(self.image.revision):
            delta = complete(self.image.apply(changes))
            for callback in self._on_image:
                callback(delta)


class Logs:
    """What reports which logs follow."""

    def __init__(self) -> None:
        self.follow: Callable[[Any, bytes, int], None]
        self.unfollow: Callable[[Any, bytes, int], None]

    def when_followed(self, callback: Callable[[Any, bytes, int], None]) -> None:
        self.follow = callback

    def when_unfollowed(self, callback: Callable[[Any, bytes, int], None]) -> None:
        self.unfollow = callback


class Cutting:
    """Records what is to be cut, and does what a test wants."""

    def __init__(self) -> None:
        self.cut: list[tuple[str, int, int]] = []
        self.work: Callable[[PartitionLog], Awaitable[object]] = self._nothing

    async def _nothing(self, _log: PartitionLog) -> None:
        await asyncio.Event().wait()

    async def truncate(self, log: PartitionLog, offset: int, epoch: int) -> None:
        assert epoch == log.known_epoch
        self.cut.append(("truncate", log.partition, offset))
        await self.work(log)

    async def begin_anew(self, log: PartitionLog, offset: int, epoch: int) -> None:
        assert epoch == log.known_epoch
        self.cut.append(("begin anew", log.partition, offset))
        await self.work(log)


class Brokers:
    """Broker 3 with its Replicating, and the leaders 1 and 2."""

    def __init__(self, path: Path, partitions: int) -> None:
        self.node = Node(partitions)
        self.logs = Logs()
        self.cutting = Cutting()
        self.own = Side(path / "own")
        self.leaders = {each: Side(path / f"leader-{each}") for each in (1, 2)}
        self.addresses: dict[int, Address] = {}
        for side in (self.own, *self.leaders.values()):
            side.create(partitions)
        for broker_id, side in self.leaders.items():
            side.wire.table.add("t", self.node.topic_id, list(side.found))
            side.wire.table.brokers = {SELF: self.node.epoch}
            side.drive()
            self.addresses[broker_id] = side.listen()
        self.own.drive()
        turn, poller = self.own.logs.turn, self.own.wire.poller
        fetching = Fetching(
            *(turn, poller, self.addresses.get, lambda _: None),
            *(SELF, 500, 1, 10 << 20, 1 << 20, 30_000),
        )
        node: Any = self.node
        self.losses: list[int] = []  # the registration at each
        self.replicating = Replicating(node, self.logs, self.cutting, fetching, self._lose)
        self._running = asyncio.ensure_future(self.replicating.run())

    async def _lose(self) -> None:
        self.losses.append(self.node.epoch)

    def register_anew(self, *, is_emptied: bool = True) -> None:
        """Let broker 3 register again, with or without a directory that is intact."""
        if is_emptied:
            self.node.cluster.empty(SELF)
        other = Cluster()
        other.store = self.node.cluster.store
        other.leases, other.intact_since = (
            self.node.cluster.leases,
            self.node.cluster.intact_since,
        )
        other.restart(SELF)
        self.node.refresh()
        for side in self.leaders.values():
            side.wire.table.brokers = {SELF: self.node.image.brokers[SELF].epoch}
        self.node.change_epoch(self.node.image.brokers[SELF].epoch)

    def write_and_delete(self) -> PartitionLog:
        """Write six records to the log of broker 1, and delete those of the first batch, five."""
        log = self.leaders[1].found[0]
        appended(log, records(5))
        appended(log, records())
        self.leaders[1].logs.sync(log)
        log.move_log_start(5)
        return log

    def lead(self, leader: int, partition: int = 0, epoch: int = 0) -> PartitionLog:
        """Let a broker's log lead; return it."""
        log = self.leaders[leader].found[partition]
        log.lead(epoch, leader, [1, 2, 3], [leader, 3])
        return log

    def follow(self, partition: int = 0, epoch: int = 0) -> PartitionLog:
        """Let an own log follow; return it."""
        log = self.own.found[partition]
        log.follow(epoch)
        self.logs.follow(log, self.node.topic_id, partition)
        return log

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                await asyncio.sleep(0.002)

    def connections(self, leader: int) -> int:
        return len(self.leaders[leader].wire.poller.connections)

    async def close(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])
        await self.replicating.stop()
        for side in (self.own, *self.leaders.values()):
            await side.aclose()


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**fixtures: object) -> None:
        asyncio.run(test(**fixtures))

    return run


@asynccontextmanager
async def brokers(path: Path, partitions: int = 1) -> AsyncIterator[Brokers]:
    made = Brokers(path, partitions)
    try:
        yield made
    finally:
        await made.close()


@in_a_loop
async def test_followed_partitions_are_copied_over_one_connection(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2) as all_of_them:
        logs = [(all_of_them.lead(1, each), all_of_them.follow(each)) for each in range(2)]
        for leading, _ in logs:
            appended(leading, records(2))

        await all_of_them.until(lambda: all(each.high_watermark == 2 for each, _ in logs))

        assert [each.log_end_offset for _, each in logs] == [2, 2]
        assert all_of_them.connections(1) == 1
        assert all_of_them.connections(2) == 0


@in_a_loop
async def test_another_leader_is_copied_from_and_the_old_link_closed(tmp_path: Path) -> None:
    async with brokers(tmp_path) as all_of_them:
        log = all_of_them.follow()
        appended(all_of_them.lead(1), records())
        await all_of_them.until(lambda: log.log_end_offset == 1)
        other = all_of_them.lead(2, epoch=1)
        appended(other, records())
        appended(other, records())
        other.lead(2, 2, [1, 2, 3], [2, 3])

        all_of_them.node.elect(0, 2, 2)

        await all_of_them.until(lambda: bool(all_of_them.cutting.cut))
        assert all_of_them.cutting.cut == [("truncate", 0, 0)]
        await all_of_them.until(lambda: all_of_them.connections(1) == 0)


@in_a_loop
async def test_a_later_epoch_of_the_same_leader_is_followed(tmp_path: Path) -> None:
    async with brokers(tmp_path) as all_of_them:
        log = all_of_them.follow()
        leading = all_of_them.lead(1)
        appended(leading, records())
        await all_of_them.until(lambda: log.log_end_offset == 1)

        all_of_them.lead(1, epoch=4)
        all_of_them.node.elect(0, 1, 4)
        appended(leading, records())

        await all_of_them.until(lambda: log.log_end_offset == 2)
        assert log.known_epoch == 4
        assert all_of_them.connections(1) == 1


@in_a_loop
async def test_an_unfollowed_partition_is_not_copied_and_its_link_closed(tmp_path: Path) -> None:
    async with brokers(tmp_path) as all_of_them:
        log = all_of_them.follow()
        leading = all_of_them.lead(1)
        await all_of_them.until(lambda: all_of_them.connections(1) == 1)

        all_of_them.logs.unfollow(log, all_of_them.node.topic_id, 0)
        appended(leading, records())
        all_of_them.node.elect(0, 1, 1)

        await all_of_them.until(lambda: all_of_them.connections(1) == 0)
        assert log.log_end_offset == 0


@in_a_loop
async def test_a_leader_that_does_not_listen_yet_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with brokers(tmp_path) as all_of_them:
        side = all_of_them.leaders[1]
        await side.hang_up()
        log = all_of_them.follow()
        appended(all_of_them.lead(1), records())
        await all_of_them.until(lambda: "no connection to a leader" in caplog.text)

        side.listen(all_of_them.addresses[1].port)

        await all_of_them.until(lambda: log.log_end_offset == 1)


@in_a_loop
async def test_a_lost_connection_is_made_again(tmp_path: Path) -> None:
    async with brokers(tmp_path) as all_of_them:
        log = all_of_them.follow()
        leading = all_of_them.lead(1)
        await all_of_them.until(lambda: all_of_them.connections(1) == 1)

        all_of_them.leaders[1].wire.poller.close()
        appended(leading, records())

        await all_of_them.until(lambda: log.log_end_offset == 1)


@in_a_loop
async def test_a_leader_without_an_address_is_connected_to_when_it_registers(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path) as all_of_them:
        address = all_of_them.addresses.pop(1)
        log = all_of_them.follow()
        appended(all_of_them.lead(1), records())
        await asyncio.sleep(0.3)
        all_of_them.addresses[1] = address

        all_of_them.node.cluster.register(1, host="changed")
        all_of_them.node.refresh()

        await all_of_them.until(lambda: log.log_end_offset == 1)


@in_a_loop
async def test_a_broker_that_does_not_lead_yet_is_asked_again(tmp_path: Path) -> None:
    async with brokers(tmp_path) as all_of_them:
        all_of_them.leaders[1].found[0].follow(0)
        log = all_of_them.follow()
        await asyncio.sleep(0.15)

        appended(all_of_them.lead(1), records())

        await all_of_them.until(lambda: log.log_end_offset == 1)


@in_a_loop
async def test_a_replica_with_another_history_is_truncated_and_copied_again(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path) as all_of_them:
        log = all_of_them.own.found[0]
        log.lead(1, SELF, [SELF], [SELF])
        appended(log, records(2))
        log.lead(3, SELF, [SELF], [SELF])
        appended(log, records(3))
        all_of_them.own.logs.sync(log)
        leading = all_of_them.lead(1, epoch=1)
        appended(leading, records(2))
        leading.lead(2, 1, [1, 2, 3], [1])
        appended(leading, records(9))
        leading.lead(4, 1, [1, 2, 3], [1])
        cut = asyncio.Event()
        begun: list[bool] = []

        async def truncate(log: PartitionLog) -> None:
            begun.append(log.is_follower)
            await cut.wait()
            raise StorageError("planted")

        all_of_them.cutting.work = truncate
        all_of_them.node.elect(0, 1, 4)
        all_of_them.follow(epoch=4)

        await all_of_them.until(lambda: bool(all_of_them.cutting.cut))
        await asyncio.sleep(0.05)

        # The leader says that epoch 2 ends at 11; the largest epoch here up to it is 1.
        assert all_of_them.cutting.cut == [("truncate", 0, 2)]
        assert begun == [True]
        cut.set()
        await all_of_them.until(lambda: len(all_of_them.cutting.cut) > 1)  # it is asked for again


@in_a_loop
async def test_a_replica_that_ends_before_its_leader_begins_is_begun_anew(tmp_path: Path) -> None:
    async with brokers(tmp_path) as all_of_them:
        all_of_them.write_and_delete()
        all_of_them.lead(1)

        all_of_them.follow()

        await all_of_them.until(lambda: bool(all_of_them.cutting.cut))
        assert all_of_them.cutting.cut == [("begin anew", 0, 5)]


@in_a_loop
async def test_a_replica_out_of_sync_whose_last_epoch_its_leader_has_deleted_is_begun_anew(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path) as all_of_them:
        log = all_of_them.own.found[0]
        log.lead(1, SELF, [SELF], [SELF])
        appended(log, records(5))
        all_of_them.own.logs.sync(log)
        leading = all_of_them.leaders[1].found[0]
        leading.lead(2, 1, [1], [1])
        all_of_them.write_and_delete()
        all_of_them.lead(1, epoch=2).set_isr([1], 1)
        all_of_them.node.elect(0, 1, 2)

        all_of_them.follow(epoch=2)

        await all_of_them.until(lambda: bool(all_of_them.cutting.cut))
        assert all_of_them.cutting.cut == [("begin anew", 0, 5)]


@in_a_loop
async def test_an_empty_replica_that_begins_after_its_leaders_end_is_begun_anew(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path) as all_of_them:
        all_of_them.write_and_delete()
        all_of_them.lead(1)
        truncation.recreate(all_of_them.own.found[0], 100)

        all_of_them.follow()

        await all_of_them.until(lambda: bool(all_of_them.cutting.cut))
        assert all_of_them.cutting.cut == [("begin anew", 0, 5)]


@in_a_loop
async def test_a_replica_begins_with_the_batch_that_its_leader_starts_in(tmp_path: Path) -> None:
    async with brokers(tmp_path) as all_of_them:
        leading = all_of_them.leaders[1].found[0]
        for _ in range(3):
            appended(leading, records(4))
        all_of_them.leaders[1].logs.sync(leading)
        leading.move_log_start(6)
        all_of_them.lead(1)

        async def begin_anew(log: PartitionLog) -> None:
            log.begin_loading()
            while not log.hold():
                await asyncio.sleep(0.002)
            truncation.recreate(log, all_of_them.cutting.cut[-1][2])
            log.end_hold()
            log.end_loading()

        all_of_them.cutting.work = begin_anew
        log = all_of_them.follow()

        await all_of_them.until(lambda: log.high_watermark == 12)
        assert all_of_them.cutting.cut == [("begin anew", 0, 4)]
        assert log.log_start_offset == 6
        assert log.read(6, 1 << 20) == leading.read(6, 1 << 20)


@in_a_loop
async def test_an_empty_replica_that_begins_within_a_batch_of_its_leader_is_begun_anew(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path) as all_of_them:
        leading = all_of_them.leaders[1].found[0]
        appended(leading, records(5))
        all_of_them.leaders[1].logs.sync(leading)
        all_of_them.lead(1)
        truncation.recreate(all_of_them.own.found[0], 3)

        all_of_them.follow()

        await all_of_them.until(lambda: bool(all_of_them.cutting.cut))
        assert all_of_them.cutting.cut == [("begin anew", 0, 0)]


@in_a_loop
async def test_an_empty_replica_that_has_led_copies_records_of_an_earlier_epoch(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path) as all_of_them:
        leading = all_of_them.write_and_delete()
        truncation.recreate(all_of_them.own.found[0], 5)
        all_of_them.own.found[0].lead(2, SELF, [1, 2, 3], [1, SELF])
        all_of_them.lead(1, epoch=3)
        all_of_them.node.elect(0, 1, 3)

        async def truncate(log: PartitionLog) -> None:
            assert log.epoch_entries == [(2, 5)]
            truncation.set_epochs(log, [(0, 5)])

        all_of_them.cutting.work = truncate
        log = all_of_them.follow(epoch=3)

        await all_of_them.until(lambda: log.high_watermark == 6)
        assert all_of_them.cutting.cut == [("truncate", 0, 5)]
        assert log.read(5, 1 << 20) == leading.read(5, 1 << 20)


@in_a_loop
async def test_an_empty_replica_is_not_begun_anew_for_records_that_are_not_valid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be in sync: its end must not go back."""
    caplog.set_level("DEBUG")
    async with brokers(tmp_path) as all_of_them:
        leading = all_of_them.write_and_delete()
        [(_, size, _)] = leading.segment_entries
        path = Path(leading.folder) / "00000000000000000000.log"
        file = bytearray(path.read_bytes())
        file[-1] ^= 1
        assert len(file) == size
        path.write_bytes(file)
        all_of_them.lead(1)
        truncation.recreate(all_of_them.own.found[0], 5)

        all_of_them.follow()

        await all_of_them.until(lambda: caplog.text.count("reason=corrupt") > 1)
        assert not all_of_them.cutting.cut


@in_a_loop
async def test_a_broker_that_the_leader_knows_under_another_epoch_tries_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with brokers(tmp_path) as all_of_them:
        table = all_of_them.leaders[1].wire.table
        table.brokers = {SELF: all_of_them.node.epoch + 1}
        log = all_of_them.follow()
        appended(all_of_them.lead(1), records())
        await all_of_them.until(lambda: "another registration of this broker" in caplog.text)
        assert log.log_end_offset == 0

        all_of_them.node.change_epoch(all_of_them.node.epoch + 1)

        await all_of_them.until(lambda: log.log_end_offset == 1)


@in_a_loop
async def test_a_log_that_leads_by_now_is_not_copied(tmp_path: Path) -> None:
    async with brokers(tmp_path) as all_of_them:
        log = all_of_them.follow()
        log.lead(0, SELF, [1, 2, SELF], [SELF])
        appended(all_of_them.lead(1), records())
        await asyncio.sleep(0.3)

        assert log.log_end_offset == 0
        log.follow(0)
        await all_of_them.until(lambda: log.log_end_offset == 1)


@in_a_loop
async def test_a_partition_that_fails_again_and_again_is_logged_now_and_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr("broker.server.cluster.replicating._FAILURES_PER_LINE", 3)
    async with brokers(tmp_path) as all_of_them:
        all_of_them.leaders[1].found[0].follow(0)
        all_of_them.follow()

        await all_of_them.until(lambda: "partition not copied" in caplog.text)

        assert "reason=error number=6 failures=3" in caplog.text


def with_closed_segments(side: Side) -> PartitionLog:
    """Return a log of batches 0..3 and 3..6, which are closed segments, and more after them."""
    log = side.found[0]
    log.configure(segment_bytes_max=1)
    for _ in range(3):
        appended(log, records(3))
        side.logs.settle(log)
    return log


@in_a_loop
async def test_a_replica_whose_broker_has_lost_records_is_cut_before_them_and_copied_again(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path) as all_of_them:
        log = with_closed_segments(all_of_them.own)
        log.mark_damaged(3, [(4, 6, 0, 1)])
        all_of_them.node.elect(0, 1, 1)
        all_of_them.register_anew()
        with_closed_segments(all_of_them.leaders[1])
        all_of_them.lead(1, epoch=1)

        async def repair(log: PartitionLog) -> None:
            log.mark_damaged(3, [])

        all_of_them.cutting.work = repair
        all_of_them.follow(epoch=1)

        await all_of_them.until(lambda: bool(all_of_them.connections(1)))
        assert all_of_them.cutting.cut == [("truncate", 0, 4)]
        assert all_of_them.losses == []


@pytest.mark.parametrize("is_found_later", [False, True])
@in_a_loop
async def test_a_member_registers_as_not_intact_before_its_replica_is_cut(
    tmp_path: Path, *, is_found_later: bool
) -> None:
    async with brokers(tmp_path) as all_of_them:
        log = with_closed_segments(all_of_them.own)
        leading = with_closed_segments(all_of_them.leaders[1])
        leading.lead(1, 1, [1, 2, 3], [1, 3])
        all_of_them.node.elect(0, 1, 1)
        if is_found_later:
            all_of_them.register_anew()
            all_of_them.follow(epoch=1)
            await all_of_them.until(lambda: leading.replica_states()[1][2] == 9)
        log.mark_damaged(0, [(0, 3, 0, 1)])
        if is_found_later:
            all_of_them.replicating.damaged(log)
        else:
            all_of_them.follow(epoch=1)

        await all_of_them.until(lambda: bool(all_of_them.losses))
        await asyncio.sleep(0.3)  # it is tried again meanwhile
        assert all_of_them.cutting.cut == []
        assert all_of_them.losses == [all_of_them.node.epoch]
        all_of_them.register_anew()

        await all_of_them.until(lambda: bool(all_of_them.cutting.cut))
        assert all_of_them.cutting.cut == [("truncate", 0, 0)]
        assert len(all_of_them.losses) == 1


@in_a_loop
async def test_a_registration_that_still_counts_as_intact_is_ended_again(tmp_path: Path) -> None:
    async with brokers(tmp_path) as all_of_them:
        with_closed_segments(all_of_them.own).mark_damaged(3, [(3, 6, 0, 1)])
        all_of_them.node.elect(0, 1, 1)
        all_of_them.lead(1, epoch=1)
        all_of_them.follow(epoch=1)
        await all_of_them.until(lambda: len(all_of_them.losses) == 1)

        all_of_them.register_anew(is_emptied=False)

        await all_of_them.until(lambda: len(all_of_them.losses) == 2)
        assert all_of_them.cutting.cut == []


@in_a_loop
async def test_a_replica_that_is_copied_by_a_lost_member_is_not_cut_in_that_registration(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path) as all_of_them:
        log = with_closed_segments(all_of_them.own)
        leading = with_closed_segments(all_of_them.leaders[1])
        leading.lead(1, 1, [1, 2, 3], [1, 3])
        all_of_them.node.elect(0, 1, 1)
        all_of_them.follow(epoch=1)
        await all_of_them.until(lambda: leading.replica_states()[1][2] == 9)
        all_of_them.register_anew()  # it counts no more, but it may be about to be added
        log.mark_damaged(0, [(0, 3, 0, 1)])

        all_of_them.replicating.damaged(log)

        await all_of_them.until(lambda: bool(all_of_them.losses))
        assert all_of_them.cutting.cut == []


@in_a_loop
async def test_deleted_damaged_records_do_not_matter_to_a_replica(tmp_path: Path) -> None:
    async with brokers(tmp_path) as all_of_them:
        log = with_closed_segments(all_of_them.own)
        log.move_log_start(3)
        log.mark_damaged(0, [(1, 3, 0, 1)])
        with_closed_segments(all_of_them.leaders[1])
        all_of_them.node.elect(0, 1, 1)
        all_of_them.lead(1, epoch=1)

        all_of_them.follow(epoch=1)
        all_of_them.replicating.damaged(log)

        await all_of_them.until(lambda: bool(all_of_them.connections(1)))
        assert (all_of_them.losses, all_of_them.cutting.cut) == ([], [])
