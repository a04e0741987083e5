"""Fetch, v4-18: read whole batches, or wait for some.

v4 isolation level; v5 log start offset; v7 sessions (KIP-227); v9 leader epochs (KIP-320); v10
zstd (KIP-110); v11 rack (KIP-392); v12 flexible, diverging epochs (KIP-595); v13 topic ids; v14
tiered storage; v15 replica state; v16 node endpoints; v17 and v18 concern followers only.

The native path serves the usual request, and sessions. This one serves every request, each by
itself: a full fetch is answered with session id 0, which is Kafka's "no session", and an
incremental one as unknown, so its client starts again in full.
"""

from asyncio import get_running_loop
from collections.abc import Awaitable, Iterator

from broker.codec import scan_headers
from broker.core.log import Log
from broker.core.partition import ATTRIBUTES_POSITION, check_leader_epoch
from broker.core.session import Session
from broker.core.topic import Topic
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.limits import FETCH_WAIT_MS_MAX
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request
from broker.protocols.kafka.lookup import log_of, topic_by_id, topic_by_name

_READ_COMMITTED = 1
_ZSTD_SINCE = 10
_TOPIC_IDS_SINCE = 13
_REPLICA_STATE_SINCE = 15
_CODEC = 0x07
_ZSTD = 4
_LENGTH_POSITION = 8  # of a batch: int32, counts what follows it
_LENGTH_END = 12


class _Reading:
    """One pass over the request's partitions: what they have at this moment."""

    __slots__ = ("_bytes_left", "bytes_read", "is_final", "logs", "request", "responses", "session")

    def __init__(self, request: Request, session: Session) -> None:
        """Read every partition in the request's order."""
        self.request = request
        self.session = session
        fetch_max = session.broker.config.integer("fetch.max.bytes")
        self._bytes_left = min(request.body["max_bytes"], fetch_max)
        self.bytes_read = 0
        self.is_final = False  # an error, or something else that the client must learn now
        self.logs: list[Log] = []
        self.responses = [self._topic(each) for each in request.body["topics"]]

    @property
    def is_enough(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.is_final or not self.logs or self.bytes_read >= self.request.body["min_bytes"]

    def _topic(self, wanted: Fields) -> Fields:
        partitions = [self._partition(wanted, each) for each in wanted["partitions"]]
        return {"topic": wanted["topic"], "topic_id": wanted["topic_id"], "partitions": partitions}

    def _partition(self, topic: Fields, wanted: Fields) -> Fields:
        index = wanted["partition"]
        try:
            return {"partition_index": index, **self._read(self._find(topic), wanted)}
        except RequestError as error:
            self.is_final = True
            return {
                "partition_index": index,
                "error_code": errors.number(error.code),
                "high_watermark": -1,
                "aborted_transactions": None,
                "records": b"",
            }

    def _find(self, wanted: Fields) -> Topic:
        topics = self.session.broker.topics
        if self.request.version >= _TOPIC_IDS_SINCE:
            return topic_by_id(topics, wanted["topic_id"])
        return topic_by_name(topics, wanted["topic"])

    def _read(self, topic: Topic, wanted: Fields) -> Fields:
        log = log_of(topic, wanted["partition"])
        check_leader_epoch(log, wanted["current_leader_epoch"])
        is_committed = self.request.body["isolation_level"] == _READ_COMMITTED
        fields: Fields = {
            "error_code": 0,
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "log_start_offset": log.log_start_offset,
            "aborted_transactions": [] if is_committed else None,
            "records": b"",
        }
        diverging = _diverging_epoch(log, wanted)
        if diverging:
            self.is_final = True
            return {**fields, "diverging_epoch": diverging}
        self.logs.append(log)
        end = log.last_stable_offset if is_committed else log.high_watermark
        fields["records"] = records = self._records(log, wanted, end)
        if is_committed and records:
            fields["aborted_transactions"] = _aborted(log, wanted["fetch_offset"], records)
        return fields

    def _records(self, log: Log, wanted: Fields, end: int) -> bytes:
        """At least one batch for the first partition that has any, within the limits after it."""
        offset = wanted["fetch_offset"]
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset >= end:
            return b""
        size_max = max(0, min(wanted["partition_max_bytes"], self._bytes_left))
        try:
            records = log.read(offset, size_max, not self.bytes_read, end)
        except StorageError as error:
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        if self.request.version < _ZSTD_SINCE and _ZSTD in _codecs(records):
            raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        self._bytes_left -= len(records)
        self.bytes_read += len(records)
        return records


def handle(request: Request, session: Session) -> Fields | Awaitable[Fields]:
    """Read once; if that is too little, wait and read again."""
    body = request.body
    if body["session_epoch"] > 0:
        raise RequestError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    if _is_follower(request):
        return {"responses": [_not_a_follower(each) for each in body["topics"]]}
    reading = _Reading(request, session)
    if reading.is_enough or body["max_wait_ms"] <= 0:
        return {"responses": reading.responses}
    return _wait(request, session, reading)


async def _wait(request: Request, session: Session, reading: _Reading) -> Fields:
    """Read again whenever a partition grows, until it is enough or the time is over."""
    wait_ms = min(request.body["max_wait_ms"], FETCH_WAIT_MS_MAX)
    loop = get_running_loop()
    deadline = loop.time() + wait_ms / 1000
    while not reading.is_enough and (seconds_left := deadline - loop.time()) > 0:
        await session.broker.growth.wait(reading.logs, seconds_left)
        reading = _Reading(request, session)
    return {"responses": reading.responses}


def _is_follower(request: Request) -> bool:
    if request.version >= _REPLICA_STATE_SINCE:
        return bool(request.body["replica_state"]["replica_id"] >= 0)
    return bool(request.body["replica_id"] >= 0)


def _not_a_follower(wanted: Fields) -> Fields:
    """No partition has replicas elsewhere; a stranger may not read above the high watermark."""
    partition = {
        "error_code": errors.number(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        "high_watermark": -1,
        "aborted_transactions": None,
        "records": b"",
    }
    partitions = [
        {"partition_index": each["partition"], **partition} for each in wanted["partitions"]
    ]
    return {"topic": wanted["topic"], "topic_id": wanted["topic_id"], "partitions": partitions}


def _diverging_epoch(log: Log, wanted: Fields) -> Fields | None:
    """Where the reader's log and ours part, if it has records that we do not have (KIP-595)."""
    epoch = wanted["last_fetched_epoch"]
    if epoch == -1:
        return None
    known, end = log.epoch_end(epoch)
    if known == -1:
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if known == epoch and end >= wanted["fetch_offset"]:
        return None
    return {"epoch": known, "end_offset": end}


def _aborted(log: Log, start: int, records: bytes) -> list[Fields]:
    """The aborted transactions that have some of these records, by their first offsets."""
    end = scan_headers(records)[-1].last_offset + 1
    try:
        found = log.aborted_transactions(start, end)
    except StorageError as error:  # without the list, aborted records would pass for good
        raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    return [{"producer_id": each, "first_offset": first} for each, first, _ in found]


def _codecs(records: bytes) -> Iterator[int]:
    """The compression of each batch."""
    position = 0
    while position < len(records):
        yield records[position + ATTRIBUTES_POSITION + 1] & _CODEC
        length = records[position + _LENGTH_POSITION : position + _LENGTH_END]
        position += _LENGTH_END + int.from_bytes(length)


API = Api(1, "Fetch", range(4, 19), handle)
