"""A log that follows is cut in the I/O thread, while nothing else works on its files."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from broker._native.log import moving
from broker._native.log.partition_log import PartitionLog
from broker.core.logs.log_loader import LogLoader
from broker.core.scheduling.io_thread import IoThread
from broker.model.errors import DiskFull, StorageError
from broker.server.partition_logs import NativeLogs
from tests.unit.storage.broker_run import BATCH, CONFIG, TOPIC_ID, BrokerRun

if TYPE_CHECKING:
    from broker.core.topics.deletion import Deletions

EPOCH = 1  # of the leader that the log follows
BUSY_SECONDS = 0.005  # longer than a cut waits between two looks


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerRun]:
    """A new data directory, opened."""
    yield (run := BrokerRun(tmp_path))
    run.store.close()
    run.commit.stop()


def with_log(
    broker: BrokerRun, scenario: Callable[[NativeLogs, PartitionLog], Awaitable[None]]
) -> PartitionLog:
    """Run a scenario with a log of three batches that follows."""

    async def run() -> PartitionLog:
        io_thread = IoThread()
        loader = LogLoader(asyncio.get_running_loop(), broker.partitions)
        deletions = cast("Deletions", None)  # no topic is deleted
        logs = NativeLogs(broker.partitions, loader, broker.turn, io_thread, deletions)
        (log,) = await logs.open_topic("topic", TOPIC_ID, [0], CONFIG)
        for _ in range(3):
            log.append(BATCH)
        broker.end_synced(log)
        log.follow(EPOCH)
        await scenario(logs, log)
        loader.stop()
        io_thread.stop()
        return log

    return asyncio.run(run())


def test_a_log_is_cut(broker: BrokerRun) -> None:
    async def scenario(logs: NativeLogs, log: PartitionLog) -> None:
        cutting = asyncio.ensure_future(logs.truncate(log, 1, EPOCH))
        await asyncio.sleep(0)
        assert log.is_loading
        await cutting

    log = with_log(broker, scenario)

    assert (log.log_end_offset, log.high_watermark) == (1, 1)
    assert log.is_in_service
    assert log.is_follower


def test_a_log_is_begun_anew(broker: BrokerRun) -> None:
    async def scenario(logs: NativeLogs, log: PartitionLog) -> None:
        await logs.begin_anew(log, 70, EPOCH)

    log = with_log(broker, scenario)

    assert (log.log_start_offset, log.log_end_offset) == (70, 70)
    assert log.is_in_service


def test_others_leave_the_files_before(broker: BrokerRun) -> None:
    told: list[tuple[int, bool, int]] = []

    async def leave(log: PartitionLog, offset: int) -> None:
        told.append((offset, log.is_loading, log.log_end_offset))

    async def scenario(logs: NativeLogs, log: PartitionLog) -> None:
        logs.before_cut(leave)
        await logs.truncate(log, 2, EPOCH)

    with_log(broker, scenario)

    assert told == [(2, False, 3)]


def test_a_log_that_has_led_before_its_files_are_free_is_not_cut(broker: BrokerRun) -> None:
    async def lead_and_follow(log: PartitionLog, _offset: int) -> None:
        log.lead(EPOCH + 1, 1, [1, 2], [1, 2])
        log.follow(EPOCH + 2)

    async def scenario(logs: NativeLogs, log: PartitionLog) -> None:
        logs.before_cut(lead_and_follow)
        await logs.truncate(log, 1, EPOCH)

    log = with_log(broker, scenario)

    assert log.log_end_offset == 3
    assert not log.is_loading


def test_a_log_is_cut_once_it_uses_its_copy(broker: BrokerRun) -> None:
    async def scenario(logs: NativeLogs, log: PartitionLog) -> None:
        assert moving.hold(log)
        cutting = asyncio.ensure_future(logs.truncate(log, 1, EPOCH))
        for _ in range(5):
            await asyncio.sleep(BUSY_SECONDS)
        assert log.is_loading
        assert log.log_end_offset == 3
        assert not moving.hold(log), "a cut waits"
        moving.end_hold(log)
        broker.turn.end()
        await cutting

    log = with_log(broker, scenario)

    assert log.log_end_offset == 1
    assert log.is_in_service


def test_a_log_is_released_after_its_cut(broker: BrokerRun) -> None:
    async def scenario(logs: NativeLogs, log: PartitionLog) -> None:
        await asyncio.gather(logs.truncate(log, 1, EPOCH), logs.release(log))

    log = with_log(broker, scenario)

    assert log.is_released
    assert not log.is_offline
    (again,) = broker.open()
    assert again.log_end_offset == 1


def test_a_log_is_released_after_a_cut_that_begins_while_others_leave_it(broker: BrokerRun) -> None:
    cuts: list[asyncio.Future[None]] = []

    async def scenario(logs: NativeLogs, log: PartitionLog) -> None:
        async def cut(_log: PartitionLog) -> None:
            cuts.append(asyncio.ensure_future(logs.truncate(log, 1, EPOCH)))
            while not log.is_loading:
                await asyncio.sleep(0)

        logs.before_release(cut)
        await logs.release(log)
        assert cuts[0].done(), "the I/O thread has its files"
        await cuts[0]

    log = with_log(broker, scenario)

    assert log.is_released
    assert not log.is_offline
    (again,) = broker.open()
    assert again.log_end_offset == 1


def failing(broker: BrokerRun, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> PartitionLog:
    """Return a log whose cut has failed."""

    def fail(_log: PartitionLog, _offset: int) -> None:
        raise failure

    monkeypatch.setattr(broker.partitions, "truncate", fail)

    async def scenario(logs: NativeLogs, log: PartitionLog) -> None:
        with pytest.raises(StorageError):
            await logs.truncate(log, 1, EPOCH)

    return with_log(broker, scenario)


def test_a_log_whose_cut_fails_is_offline(
    broker: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert failing(broker, monkeypatch, StorageError("the disk has failed")).is_offline


def test_a_log_stays_in_service_if_the_disk_is_full(
    broker: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = failing(broker, monkeypatch, DiskFull("no space"))

    assert log.is_in_service
    assert log.log_end_offset == 3


def test_a_cancelled_cut_is_waited_for(broker: BrokerRun) -> None:
    async def scenario(logs: NativeLogs, log: PartitionLog) -> None:
        cutting = asyncio.ensure_future(logs.truncate(log, 1, EPOCH))
        await asyncio.sleep(0)
        cutting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cutting

    log = with_log(broker, scenario)

    assert log.log_end_offset in {1, 3}
    assert not log.is_loading
