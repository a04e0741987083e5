"""Copying partitions from a leader while the operator limits that (KIP-73)."""

from collections.abc import Iterator

import pytest

from broker._native.log.partition_log import PartitionLog
from tests.native.replication.test_fetcher import Copying
from tests.support.native_log import TOPIC_ID, Logs
from tests.support.native_wire import Wire
from tests.support.scripted_leader import batch, part

NO_LIMIT = (1 << 63) - 1


@pytest.fixture
def copying(logs: Logs) -> Iterator[Copying]:
    """Nothing is copied yet; a thread syncs the logs."""
    made = Copying(logs, Wire(logs))
    yield made
    made.close()


def throttled(copying: Copying, rate: int) -> PartitionLog:
    """Copy a new log, partition 0, that is throttled to this rate."""
    log = copying.add()
    log.throttle(as_leader=False, as_follower=True)
    copying.logs.turn.follower_throttle.rate = rate
    return log


def test_a_throttled_partition_that_is_behind_waits_until_more_may_be_copied(
    copying: Copying,
) -> None:
    throttled(copying, 1)
    copying.add(1)
    asked = copying.begin()

    copying.leader.answer(asked, part(0, batch(0), high_watermark=9))
    following = copying.leader.request()
    assert following.named == []
    copying.leader.answer(following, part(1, batch(0), high_watermark=9))
    assert copying.leader.request().named == [(1, 1)]

    copying.logs.turn.follower_throttle.rate = NO_LIMIT
    assert copying.leader.request().named == [(0, 1)]


def test_nothing_is_asked_for_while_every_partition_is_held_back(copying: Copying) -> None:
    log = throttled(copying, 1)
    asked = copying.begin()

    copying.leader.answer(asked, part(0, batch(0), high_watermark=9))
    copying.wire.run_until(lambda: log.durable_end == 1)
    assert copying.leader.requests() == []
    copying.leader.connect()  # the session is another one
    assert copying.leader.requests() == []

    log.throttle(as_leader=False, as_follower=False)
    asked = copying.leader.request()
    assert (asked.session, asked.named) == ((0, 0), [(0, 1)])


def test_a_throttled_partition_that_is_not_behind_is_copied(copying: Copying) -> None:
    throttled(copying, 1)
    asked = copying.begin()

    copying.leader.answer(asked, part(0, batch(0), high_watermark=1))

    assert copying.leader.request().named == [(0, 1)]


def test_a_throttled_partition_is_asked_for_what_may_be_copied_in_a_second(
    copying: Copying,
) -> None:
    throttled(copying, 5_000)
    copying.add(1)
    copying.leader.connect()

    (topic,) = copying.leader.request().body["topics"]

    assert [each["partition_max_bytes"] for each in topic["partitions"]] == [5_000, 1 << 20]


def test_a_throttled_partition_that_is_not_copied_any_more_is_forgotten(copying: Copying) -> None:
    log = throttled(copying, 1)
    asked = copying.begin()
    copying.leader.answer(asked, part(0, batch(0), high_watermark=9))
    copying.wire.run_until(lambda: log.durable_end == 1)

    copying.fetcher.remove(TOPIC_ID, 0)

    assert copying.fetcher.partitions == 0
    assert copying.leader.request().forgotten == [0]
