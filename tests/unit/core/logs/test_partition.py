"""Partitions: what is accepted, the epoch of an offset, and waiting."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from broker.codec import encode
from broker.core.logs import partition
from broker.core.logs.partition import (
    ATTRIBUTES_POSITION,
    LogWaiters,
    acknowledgement,
    append,
    check_epoch,
    epoch_at,
    until_acknowledged,
    wait_durable,
    wait_synced,
)
from broker.model.errors import ErrorCode, RequestError
from broker.model.log_results import AppendResult, AppendStatus
from tests.support.fakes import NOW_MS, FakeBroker, FakeLog, batch


def make_log(config: dict[str, str] | None = None) -> FakeLog:
    broker = FakeBroker()
    broker.create("a", config=config)
    return broker.log("a")


def refusal(log: FakeLog, records: bytes) -> ErrorCode:
    with pytest.raises(RequestError) as caught:
        append(log, log.config, records, NOW_MS)
    return caught.value.code


def test_an_append_returns_the_first_and_last_offset_of_the_batch() -> None:
    log = make_log()
    append(log, log.config, batch(3), NOW_MS)

    assert append(log, log.config, batch(2), NOW_MS) == AppendResult(AppendStatus.APPENDED, 3, 5)


def test_a_repeated_batch_gets_the_offset_of_its_original(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    found = AppendResult(AppendStatus.DUPLICATE, 10, 12)
    monkeypatch.setattr(log, "append", lambda _, **_of: found)

    assert append(log, log.config, batch(2), NOW_MS) == AppendResult(AppendStatus.DUPLICATE, 10, 12)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (AppendStatus.BATCH_CRC, ErrorCode.CORRUPT_MESSAGE),
        (AppendStatus.BATCH_ATTRIBUTES, ErrorCode.INVALID_RECORD),
        (AppendStatus.SEQUENCE_OUT_OF_ORDER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (AppendStatus.SEQUENCE_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (AppendStatus.LOG_OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_the_status_of_the_log_becomes_an_error_code(
    monkeypatch: pytest.MonkeyPatch, status: AppendStatus, code: ErrorCode
) -> None:
    log = make_log()
    monkeypatch.setattr(log, "append", lambda _, **_of: AppendResult(status))

    assert refusal(log, batch()) is code


def test_every_reason_for_refusing_a_batch_has_an_error_code() -> None:
    others = {*partition._IS_IN_LOG, AppendStatus.BATCH_TOO_LARGE}

    assert partition._REFUSALS.keys() | others == set(AppendStatus)


def test_records_older_than_the_topic_allows_are_refused() -> None:
    log = make_log({"message.timestamp.before.max.ms": "1000"})

    append(log, log.config, batch(timestamp=NOW_MS - 1000), NOW_MS)
    assert refusal(log, batch(timestamp=NOW_MS - 1001)) is ErrorCode.INVALID_TIMESTAMP


def test_records_without_a_timestamp_are_accepted() -> None:
    log = make_log({"message.timestamp.before.max.ms": "1000"})

    append(log, log.config, batch(timestamp=-1), NOW_MS)


def test_a_first_record_without_a_timestamp_does_not_exempt_the_others() -> None:
    log = make_log({"message.timestamp.after.max.ms": "1000"})
    [data] = encode([(None, b"v"), (None, b"v", [], NOW_MS + 1001)], timestamp_ms=-1)

    assert refusal(log, data) is ErrorCode.INVALID_TIMESTAMP


def test_only_the_broker_sets_log_append_time() -> None:
    [data] = encode([b"v"], timestamp_ms=NOW_MS, timestamp_type="LogAppendTime")

    assert refusal(make_log(), data) is ErrorCode.INVALID_TIMESTAMP
    log = make_log({"message.timestamp.type": "LogAppendTime"})
    assert append(log, log.config, data, NOW_MS + 5).append_time_ms == NOW_MS + 5


@pytest.mark.parametrize("attributes", [0x08, 0x10, 0x20, 0x07, 0x7F])
@pytest.mark.parametrize("timestamp", [NOW_MS, NOW_MS - 5_000])
def test_the_crc_is_checked_before_any_field(attributes: int, timestamp: int) -> None:
    log = make_log({"message.timestamp.before.max.ms": "1000"})
    broken = bytearray(batch(timestamp=timestamp))
    broken[ATTRIBUTES_POSITION + 1] ^= attributes

    assert refusal(log, bytes(broken)) is ErrorCode.CORRUPT_MESSAGE


def test_a_different_leader_epoch_is_refused() -> None:
    check_epoch(3, -1)
    check_epoch(3, 3)
    for epoch, code in ((2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(RequestError) as caught:
            check_epoch(3, epoch)
        assert caught.value.code is code


def test_the_epoch_of_an_offset_is_the_first_that_ends_above_it() -> None:
    log = make_log()
    log.epochs = [(0, 5), (2, 5), (4, 9)]
    log.leader_epoch = 7
    append(log, log.config, batch(12), NOW_MS)

    assert [epoch_at(log, offset) for offset in (0, 4, 5, 8, 9, 12)] == [0, 0, 4, 4, 7, 7]


def test_a_durable_offset_needs_no_wait() -> None:
    log = make_log()

    assert asyncio.run(wait_durable(log, 0))
    assert log.callback_count == 0


@pytest.mark.parametrize(
    ("is_led", "is_durable", "code"),
    [
        (True, True, None),
        (True, False, ErrorCode.KAFKA_STORAGE_ERROR),
        (False, True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (False, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_write_is_acknowledged_if_it_is_durable_while_its_log_is_led(
    is_led: bool, is_durable: bool, code: ErrorCode | None
) -> None:
    log = make_log()

    async def scenario() -> ErrorCode | None:
        task = asyncio.create_task(until_acknowledged(log, 1))
        await asyncio.sleep(0)
        log.is_held = True
        append(log, log.config, batch(), NOW_MS)
        log.is_led = is_led
        log.sync() if is_durable else log.fail()
        try:
            await task
        except RequestError as error:
            return error.code
        return None

    assert asyncio.run(scenario()) is code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (FakeLog.sync, None),
        (FakeLog.fail, ErrorCode.KAFKA_STORAGE_ERROR),
        (FakeLog.lose_replicas, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        (FakeLog.elected, ErrorCode.REQUEST_TIMED_OUT),  # nothing
    ],
)
def test_a_write_waits_for_all_replicas_in_sync_until_its_timeout(
    change: Callable[[FakeLog], None], code: ErrorCode | None
) -> None:
    log = make_log()
    log.is_replicated = log.is_held = True
    append(log, log.config, batch(), NOW_MS)

    async def scenario() -> ErrorCode | None:
        task = asyncio.create_task(acknowledgement(log, 1, 50))
        await asyncio.sleep(0)
        change(log)
        return await task

    assert asyncio.run(scenario()) is code


def test_a_batch_for_all_replicas_is_refused_while_too_few_are_in_sync() -> None:
    log = make_log()
    log.lacks_replicas = True

    assert refusal(log, batch()) is ErrorCode.NOT_ENOUGH_REPLICAS
    append(log, log.config, batch(), NOW_MS, is_for_all=False)

    assert log.log_end_offset == 1


@pytest.mark.parametrize("wait", [wait_durable, wait_synced])
def test_a_cancelled_wait_does_not_affect_the_log(
    wait: Callable[[FakeLog, int], Coroutine[None, None, bool]],
) -> None:
    log = make_log()

    async def scenario() -> None:
        task = asyncio.create_task(wait(log, 5))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        log.fail()

    asyncio.run(scenario())


def test_growth_wakes_all_waiters_of_a_log() -> None:
    log, other = make_log(), make_log()
    log_waiters = LogWaiters()

    async def scenario() -> None:
        waits = [asyncio.create_task(log_waiters.wait([log, other], 60)) for _ in range(3)]
        await asyncio.sleep(0)
        log.append(batch())
        await asyncio.gather(*waits)

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert (log.callback_count, other.callback_count) == (0, 1)


def test_a_wait_for_growth_ends_at_its_deadline() -> None:
    log = make_log()

    asyncio.run(LogWaiters().wait([log], 0.001))
