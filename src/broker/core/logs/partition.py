"""The rules of a partition: which batches it accepts, and waiting for new records.

Bytes and offsets belong to the native log. These fields of a batch's header (Kafka's record batch
v2) are read here:

    8 length (int32)   16 magic (int8)   17 CRC-32C of all that follows   21 attributes (int16)
    27 base timestamp (int64)   35 max timestamp (int64)   61 end of the header
"""

from asyncio import Future, get_running_loop
from collections.abc import Callable, Iterable
from functools import partial
from struct import Struct

from broker._native.kernel.checksum import crc32c
from broker.core.logs.log import Log, SyncedLog
from broker.core.scheduling.admission import Share
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import REPLICAS_WAIT_MS
from broker.model.log_results import AppendResult, AppendStatus
from broker.model.topic_config import TopicConfig

MAGIC = 2
MAGIC_POSITION = 16
ATTRIBUTES_POSITION = 21
BATCH_HEADER_BYTES = 61
_LENGTH_POSITION = 8
_LENGTH_END = 12  # the length counts the bytes after itself
_CRC_POSITION = 17
_TIMESTAMPS_POSITION = 27
_LOG_APPEND_TIME = 0x08
NOT_COPIED_TEXT = "the replicas in sync have not copied it in time"
_ALL = -1  # Kafka's DeleteRecordsRequest.HIGH_WATERMARK
_LENGTH = Struct(">i")
_CRC = Struct(">I")
_TIMESTAMPS = Struct(">qq")
_MAX_TIMESTAMP = Struct(">q")


_IS_IN_LOG = (AppendStatus.APPENDED, AppendStatus.DUPLICATE)
_REFUSALS = {
    AppendStatus.BATCH_EMPTY: ErrorCode.INVALID_RECORD,
    AppendStatus.BATCH_TRUNCATED: ErrorCode.CORRUPT_MESSAGE,
    AppendStatus.BATCH_NOT_ALONE: ErrorCode.INVALID_RECORD,
    AppendStatus.BATCH_MAGIC: ErrorCode.INVALID_RECORD,
    AppendStatus.BATCH_CRC: ErrorCode.CORRUPT_MESSAGE,
    AppendStatus.BATCH_COUNT: ErrorCode.INVALID_RECORD,
    AppendStatus.BATCH_ATTRIBUTES: ErrorCode.INVALID_RECORD,
    AppendStatus.BATCH_LENGTH: ErrorCode.CORRUPT_MESSAGE,
    AppendStatus.BATCH_RECORDS: ErrorCode.INVALID_RECORD,
    AppendStatus.SEQUENCE_OUT_OF_ORDER: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    AppendStatus.SEQUENCE_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    AppendStatus.SEQUENCE_FULL: ErrorCode.POLICY_VIOLATION,
    AppendStatus.TRANSACTION_OPEN: ErrorCode.INVALID_TXN_STATE,
    AppendStatus.TRANSACTION_NOT_ADMITTED: ErrorCode.INVALID_TXN_STATE,
    AppendStatus.LOG_OFFLINE: ErrorCode.KAFKA_STORAGE_ERROR,
    AppendStatus.LOG_LOADING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    AppendStatus.LOG_NOT_LED: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    AppendStatus.LOG_FULL: ErrorCode.DISK_FULL,
    AppendStatus.LOG_TOO_FEW_REPLICAS: ErrorCode.NOT_ENOUGH_REPLICAS,
}


def append(
    log: Log, config: TopicConfig, records: bytes, now_ms: int, *, is_for_all: bool = True
) -> AppendResult:
    """Append a client's batch under its topic's configuration, or find it in the log already.

    `is_for_all`: it is acknowledged by all replicas in sync, so there must be enough of them.
    Raises RequestError for a batch that is refused.
    """
    append_time_ms = -1
    if len(records) >= BATCH_HEADER_BYTES and records[MAGIC_POSITION] == MAGIC:
        try:
            check_settings(config, records, now_ms)
        except RequestError:
            _check_crc(records)  # if the CRC is wrong, no other field can be trusted
            raise
        if _is_stamped(config):
            _check_crc(records)
            append_time_ms = now_ms
            records = _stamp(records, now_ms)
    result = log.append(records, needs_replicas=is_for_all)
    if result.status not in _IS_IN_LOG:
        if result.status is AppendStatus.BATCH_TOO_LARGE:
            raise too_large(records, config.integer("max.message.bytes"))
        raise RequestError(_REFUSALS[result.status])
    return result if append_time_ms < 0 else result._replace(append_time_ms=append_time_ms)


def check_settings(config: TopicConfig, records: bytes, now_ms: int) -> None:
    """Refuse a batch with a valid header that its topic's configuration does not allow.

    Raises RequestError. The log itself checks max.message.bytes.
    """
    if len(records) > config.integer("segment.bytes"):
        raise RequestError(ErrorCode.RECORD_LIST_TOO_LARGE)
    if not _is_stamped(config):
        _check_timestamps(config, records, now_ms)


def too_large(records: bytes, size_max: int) -> RequestError:
    """Return the error for a batch with more bytes than its topic allows."""
    message = f"the batch has {len(records)} bytes, max.message.bytes is {size_max}"
    return RequestError(ErrorCode.MESSAGE_TOO_LARGE, message)


def _is_stamped(config: TopicConfig) -> bool:
    return config.text("message.timestamp.type") == "LogAppendTime"


def _check_timestamps(config: TopicConfig, records: bytes, now_ms: int) -> None:
    """Compare the batch's timestamps, which its producer wrote, with what the topic accepts.

    A producer must not set the attribute LogAppendTime: only the log sets it.
    """
    base, latest = _TIMESTAMPS.unpack_from(records, _TIMESTAMPS_POSITION)
    before = config.integer("message.timestamp.before.max.ms")
    after = config.integer("message.timestamp.after.max.ms")
    is_too_old = base != -1 and now_ms - base > before
    is_appended = records[ATTRIBUTES_POSITION + 1] & _LOG_APPEND_TIME
    if is_too_old or latest - now_ms > after or is_appended:
        raise RequestError(ErrorCode.INVALID_TIMESTAMP)


def _check_crc(records: bytes) -> None:
    """Refuse a batch whose CRC is wrong; the log itself refuses one of a wrong length."""
    (length,) = _LENGTH.unpack_from(records, _LENGTH_POSITION)
    (crc,) = _CRC.unpack_from(records, _CRC_POSITION)
    if length + _LENGTH_END == len(records) and crc32c(records[ATTRIBUTES_POSITION:]) != crc:
        raise RequestError(ErrorCode.CORRUPT_MESSAGE)


def _stamp(records: bytes, now_ms: int) -> bytes:
    """Set LogAppendTime and the time in the header of a valid batch, and its new CRC."""
    stamped = bytearray(records)
    stamped[ATTRIBUTES_POSITION + 1] |= _LOG_APPEND_TIME
    _MAX_TIMESTAMP.pack_into(stamped, _TIMESTAMPS_POSITION + 8, now_ms)
    _CRC.pack_into(stamped, _CRC_POSITION, crc32c(bytes(stamped[ATTRIBUTES_POSITION:])))
    return bytes(stamped)


def start_after_delete(log: Log, config: TopicConfig, offset: int) -> int:
    """Return the log start after deleting all below an offset, -1: all that can be read (KIP-107).

    Nothing is changed: the caller makes the result durable before it moves the log start, so that
    deleted records never come back. Raises RequestError.
    """
    policy = config.words("cleanup.policy")
    if "compact" in policy and "delete" not in policy:
        text = "records of a topic with cleanup.policy=compact are only deleted by compaction"
        raise RequestError(ErrorCode.POLICY_VIOLATION, text)
    if config.has_streams:
        text = "a stream keeps all of its events"
        raise RequestError(ErrorCode.POLICY_VIOLATION, text)
    start = log.high_watermark if offset == _ALL else offset
    if not 0 <= start <= log.high_watermark:
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return max(start, log.log_start_offset)


def check_epoch(leader_epoch: int, client_epoch: int) -> None:
    """Refuse a client that knows another leader epoch (KIP-320); -1: it knows none."""
    if client_epoch == -1:
        return
    if client_epoch < leader_epoch:
        raise RequestError(ErrorCode.FENCED_LEADER_EPOCH)
    if client_epoch > leader_epoch:
        raise RequestError(ErrorCode.UNKNOWN_LEADER_EPOCH)


def epoch_at(log: Log, offset: int) -> int:
    """Return the leader epoch of a record; the current one at the log's end."""
    epoch = log.leader_epoch
    while epoch > 0:
        older, end = log.epoch_end(epoch - 1)
        if older == -1 or end <= offset:
            break
        epoch = older
    return epoch


async def wait_durable(log: Log, offset: int) -> bool:
    """Wait until the high watermark is at `offset`; False when the log failed before."""
    return log.high_watermark >= offset or await _called(partial(log.when_durable, offset))


async def wait_synced(log: SyncedLog, offset: int) -> bool:
    """Wait until the disk has everything below `offset`; False when the log failed before."""
    return await _called(partial(log.when_synced, offset))


async def wait_start_copied(log: Log, start: int, timeout_ms: int) -> bool:
    """Wait until no replica in sync begins below `start`; False if that takes too long."""
    return not log.is_replicated or bool(
        await _called_within(timeout_ms, partial(log.when_start_copied, start))
    )


async def _called(register: Callable[[Callable[[bool], None]], None]) -> bool:
    """Wait for the call of a callback, and return its argument."""
    called: Future[bool] = get_running_loop().create_future()

    def finish(is_good: bool) -> None:
        if not called.done():  # it was cancelled: its connection or the broker is closed
            called.set_result(is_good)

    register(finish)
    return await called


async def _called_within(
    timeout_ms: int, register: Callable[[Callable[[bool], None]], None]
) -> bool | None:
    """Wait for the call of a callback, and return its argument; None after the time.

    (A timeout of asyncio needs a task, which a handler is not before its first wait.)
    """
    loop = get_running_loop()
    called: Future[bool | None] = loop.create_future()

    def finish(is_good: bool | None) -> None:
        if not called.done():
            called.set_result(is_good)

    register(finish)
    timer = loop.call_later(timeout_ms / 1000, finish, None)
    try:
        return await called
    finally:
        timer.cancel()


async def until_acknowledged(
    log: Log, offset: int, failure: str = "", *, is_for_all: bool = True
) -> None:
    """Wait until a write that ends at `offset` may be acknowledged to its client.

    It is durable then on all replicas in sync, or with `is_for_all=False` on this one, and this
    broker still leads the partition. RequestError if that cannot be, or takes too long; `failure`
    is its message for a log that has failed.
    """
    error = await acknowledgement(log, offset, REPLICAS_WAIT_MS, is_for_all=is_for_all)
    if not log.is_led:
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if error is ErrorCode.REQUEST_TIMED_OUT:
        raise RequestError(error, NOT_COPIED_TEXT)
    if error:
        raise RequestError(error, failure if error is ErrorCode.KAFKA_STORAGE_ERROR else "")


async def acknowledgement(
    log: Log, offset: int, timeout_ms: int, *, is_for_all: bool = True
) -> ErrorCode | None:
    """Wait for a write that ends at `offset`; return why it cannot be acknowledged, or None.

    With `is_for_all` it waits for all replicas in sync, otherwise for this one. Only a wait for
    others ends after `timeout_ms`. Whether this broker still leads the partition is not checked.
    """
    if not log.is_replicated:
        is_durable = await wait_durable(log, offset)
    elif not is_for_all:
        is_durable = await _called(partial(log.when_kept, offset))
    elif log.lacks_replicas:
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    else:
        called = await _called_within(timeout_ms, partial(log.when_durable, offset))
        if called is None:
            return ErrorCode.REQUEST_TIMED_OUT
        is_durable = called
    if is_durable:
        return None
    if log.is_offline or not (log.is_full or log.lacks_replicas):
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND  # a retry may still write it


class LogWaiters:
    """Wakes requests that wait for new records.

    However many requests wait, a log has at most one callback from here: memory is bounded by the
    number of logs and of waiting requests.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        """Start without waiters."""
        self._waiting: dict[Log, set[Future[None]]] = {}

    async def wait(
        self, logs: Iterable[Log], timeout_seconds: float, share: Share | None = None
    ) -> bool:
        """Return when one of the logs grows or fails, or when the time is over.

        False: others need the memory of the request that waits, which has `share`.
        """
        loop = get_running_loop()
        woken: Future[None] = loop.create_future()
        sets = [self._waiters(log) for log in logs]
        for waiters in sets:
            waiters.add(woken)
        timer = loop.call_later(timeout_seconds, _wake, woken)
        try:
            if share is None:
                await woken
                return True
            with share.polling(partial(_wake, woken)):
                await woken
            return not share.is_needed
        finally:
            timer.cancel()
            for waiters in sets:
                waiters.discard(woken)

    def _waiters(self, log: Log) -> set[Future[None]]:
        waiters = self._waiting.get(log)
        if waiters is None:
            waiters = self._waiting[log] = set()
            log.when_durable(log.high_watermark + 1, partial(self._grew, log))
        return waiters

    def _grew(self, log: Log, _is_durable: bool) -> None:
        for woken in self._waiting.pop(log, ()):
            _wake(woken)


def _wake(woken: Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
