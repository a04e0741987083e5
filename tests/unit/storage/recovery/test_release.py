"""Logs that a broker stops to lead while it runs: their files are whole for whoever opens them."""

import asyncio
import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.core.logs.log_loader import LogLoader
from broker.core.scheduling.io_thread import IoThread
from broker.model.errors import StorageError
from broker.model.identifiers import random_id
from broker.segments import text_files
from broker.server.partition_logs import NativeLogs
from tests.unit.storage.broker_run import BATCH, CONFIG, TOPIC_ID, BrokerRun

if TYPE_CHECKING:
    from broker.core.topics.deletion import Deletions


def released(broker: BrokerRun, count: int = 1) -> None:
    """Append to a new log of each partition and release it."""
    for log in broker.make(count=count):
        log.append(BATCH)
        broker.end_synced(log)
        log.begin_loading()
        broker.partitions.release(log)
        log.retire()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_released_log_can_be_opened_again(broker: BrokerRun) -> None:
    released(broker)

    (log,) = broker.open()

    assert log.log_end_offset == 1
    log.append(BATCH)
    broker.end_synced(log)
    assert log.high_watermark == 2


def test_a_released_log_is_attached_after_a_clean_stop(
    broker: BrokerRun, caplog: pytest.LogCaptureFixture
) -> None:
    released(broker)
    broker.stop()
    (again,) = BrokerRun(broker.path).open()

    assert again.log_end_offset == 1
    assert warnings(caplog) == []


def test_a_log_that_was_never_opened_is_attached_after_two_clean_stops(
    broker: BrokerRun, caplog: pytest.LogCaptureFixture
) -> None:
    released(broker)
    broker.stop()
    BrokerRun(broker.path).stop()

    (again,) = BrokerRun(broker.path).open()

    assert again.log_end_offset == 1
    assert warnings(caplog) == []


def test_a_log_that_was_not_recovered_after_an_unclean_stop_leaves_no_clean_marker(
    broker: BrokerRun,
) -> None:
    (log,) = broker.make()
    log.append(BATCH)
    broker.end_synced(log)
    broker.kill()

    BrokerRun(broker.path).stop()

    assert not (broker.path / text_files.CLEAN_SHUTDOWN).exists()


def test_a_released_log_counts_as_recovered_after_an_unclean_stop(broker: BrokerRun) -> None:
    broker.kill()
    again = BrokerRun(broker.path)
    released(again)

    again.stop()

    assert (broker.path / text_files.CLEAN_SHUTDOWN).exists()


def test_a_topic_that_is_deleted_and_made_again_is_as_the_stop_has_left_it(
    broker: BrokerRun, caplog: pytest.LogCaptureFixture
) -> None:
    (log,) = broker.make()
    log.append(BATCH)
    broker.end_synced(log)
    broker.stop()
    again = BrokerRun(broker.path)
    (log,) = again.open()
    again.partitions.delete(log)
    shutil.rmtree(Path(log.folder))
    new_id = random_id()
    again.partitions.open_topic("topic", new_id, [0], CONFIG)
    again.stop()

    (newest,) = BrokerRun(broker.path).open(new_id)

    assert newest.log_end_offset == 0
    assert warnings(caplog) == []


def test_a_log_that_has_failed_is_not_opened_again_in_this_run(broker: BrokerRun) -> None:
    """The kernel reports a failed sync once: the next one would succeed without the data."""
    (log,) = broker.make()
    log.take_offline("the disk has failed")
    broker.partitions.abandon(log)

    (again,) = broker.open()
    broker.kill()
    (after_a_restart,) = BrokerRun(broker.path).open()

    assert (again.is_offline, after_a_restart.is_offline) == (True, False)


def test_a_log_that_cannot_be_closed_in_order_is_not_opened_again_in_this_run(
    broker: BrokerRun,
) -> None:
    (log,) = broker.make()
    log.append(BATCH)
    log.begin_loading()
    file_ops.start_recording()
    file_ops.fail("sync_data", "topic-0/", errno.EIO, times=100)
    broker.turn.end()
    broker.partitions.release(log)
    file_ops.stop_recording()

    (again,) = broker.open()

    assert again.is_offline


def test_a_topic_of_the_name_of_one_with_a_failed_log_is_opened(broker: BrokerRun) -> None:
    (log,) = broker.make()
    log.take_offline("the disk has failed")
    broker.partitions.abandon(log)
    broker.partitions.forget("topic", [0])
    shutil.rmtree(Path(log.folder))

    (newest,) = broker.make(random_id())

    assert not newest.is_offline


def led_again(broker: BrokerRun, fail: Callable[[PartitionLog], None]) -> PartitionLog:
    """Release a log that is led, after a failure, and lead its partition again."""

    async def scenario() -> PartitionLog:
        loop, io_thread = asyncio.get_running_loop(), IoThread()
        loader = LogLoader(loop, broker.partitions)
        deletions = cast("Deletions", None)  # no topic is deleted
        logs = NativeLogs(broker.partitions, loader, broker.turn, io_thread, deletions)
        (log,) = await logs.open_topic("topic", TOPIC_ID, [0], CONFIG)
        fail(log)
        await logs.release(log)
        (again,) = logs.announce_topic("topic", TOPIC_ID, [0], CONFIG)
        logs.load([again])
        await logs.until_loaded([again])
        loader.stop()
        io_thread.stop()
        return again

    return asyncio.run(scenario())


def test_a_log_that_failed_while_it_was_led_stays_offline(broker: BrokerRun) -> None:
    assert led_again(broker, lambda log: log.take_offline("the disk has failed")).is_offline


def test_a_log_that_cannot_be_closed_stays_offline(
    broker: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def release(_log: PartitionLog) -> None:
        raise StorageError("no space")

    monkeypatch.setattr(broker.partitions, "release", release)

    assert led_again(broker, lambda _: None).is_offline
