"""Fetch, v0-18: read whole batches, or wait for data.

v0-3 return message sets (old_fetch.py): v1 throttle time, v2 messages of magic 1, v3 a limit over
all partitions (KIP-74). v4 batches of magic 2, isolation level; v5 log start offset; v7 sessions
(KIP-227); v9 leader epochs (KIP-320); v10 zstd (KIP-110); v11 rack (KIP-392); v12 flexible,
diverging epochs (KIP-595); v13 topic ids; v14 tiered storage; v15 replica state; v16 node
endpoints; v17 and v18 are for followers only.

The native path (src/_native/protocols/kafka/fetch.pyx) serves most requests, and fetch sessions.
This handler serves every request without sessions, and is its specification: a full fetch is
answered with session id 0, which is Kafka's "no session", and an incremental one with
FETCH_SESSION_ID_NOT_FOUND, after which the client sends a full fetch.

A partition is checked in this order, and the first error is its answer: the topic, the partition,
the client's leader epoch, truncated data that it has read, the offset, the records. A request with
an error, or whose client must truncate, is answered at once; others wait for `min_bytes`.
"""

from asyncio import get_running_loop
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING

from broker.codec import scan_headers
from broker.core.logs.log import Log
from broker.core.logs.partition import ATTRIBUTES_POSITION, check_leader_epoch
from broker.core.scheduling.eager import run_to_first_wait
from broker.core.scheduling.steps import in_steps
from broker.core.session import Session
from broker.core.topics.lookup import log_of, topic_by_id, topic_by_name
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, PeerError, RequestError, StorageError
from broker.model.limits import (
    FETCH_PARTITIONS_PER_STEP,
    FETCH_WAIT_MS_MAX,
    NATIVE_FETCH_PARTITIONS_MAX,
    PYTHON_FETCH_BYTES_MAX,
)
from broker.protocols.kafka import errors, old_fetch
from broker.protocols.kafka.api import Api, Request

if TYPE_CHECKING:
    from broker.codec import bodies

_READ_COMMITTED = 1
_MAGIC_2_SINCE = 4
_ERRORS_SINCE = 7
_ZSTD_SINCE = 10
_TOPIC_IDS_SINCE = 13
_REPLICA_STATE_SINCE = 15
_CODEC = 0x07
_ZSTD = 4
_LENGTH_POSITION = 8  # of a batch: int32, counts what follows it
_LENGTH_END = 12


def handle(
    request: "Request[bodies.FetchRequest]", session: Session
) -> "bodies.FetchResponse | Awaitable[bodies.FetchResponse]":
    """Refuse what is not served, else read."""
    body = request.body
    if body["session_epoch"] > 0:
        raise RequestError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    count = sum(len(each["partitions"]) for each in body["topics"])
    if count > NATIVE_FETCH_PARTITIONS_MAX:
        raise _too_many(request, count)
    if _is_follower(request):
        return {"responses": [_not_a_follower(each) for each in body["topics"]]}
    fetch = old_fetch.fetch if request.version < _MAGIC_2_SINCE else _fetch
    return run_to_first_wait(fetch(request, session))


async def _fetch(
    request: "Request[bodies.FetchRequest]", session: Session
) -> "bodies.FetchResponse":
    """Read; again whenever a partition grows, until it is enough or `max_wait_ms` has passed.

    It ends early if other requests need its memory.
    """
    wait_ms = min(request.body["max_wait_ms"], FETCH_WAIT_MS_MAX)
    loop = get_running_loop()
    deadline = loop.time() + wait_ms / 1000
    reading = await _read(request, session)
    while not reading.is_enough and (seconds_left := deadline - loop.time()) > 0:
        if not await session.broker.log_waiters.wait(reading.logs, seconds_left, request.share):
            break
        reading = await _read(request, session)
    return {"responses": reading.responses}


async def _read(request: "Request[bodies.FetchRequest]", session: Session) -> "_Reading":
    reading = _Reading(request, session)
    async for _ in in_steps(reading.each(), FETCH_PARTITIONS_PER_STEP):
        pass
    return reading


# ---- what is not served --------------------------------------------------------------------------


def _too_many(request: "Request[bodies.FetchRequest]", count: int) -> RequestError | PeerError:
    text = f"a fetch of {count} partitions, {NATIVE_FETCH_PARTITIONS_MAX} are allowed"
    if request.version < _ERRORS_SINCE:
        return PeerError(text)
    return RequestError(ErrorCode.INVALID_REQUEST, text)


def _is_follower(request: "Request[bodies.FetchRequest]") -> bool:
    if request.version >= _REPLICA_STATE_SINCE:
        return bool(request.body["replica_state"]["replica_id"] >= 0)
    return bool(request.body["replica_id"] >= 0)


def _not_a_follower(wanted: "bodies.FetchRequestTopic") -> "bodies.FetchResponseResponse":
    """Refuse a fetch of a follower: there are none, and it would read above the high watermark."""
    partitions: list[bodies.FetchResponsePartition] = [
        {
            "partition_index": each["partition"],
            "error_code": errors.number(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            "high_watermark": -1,
            "aborted_transactions": None,
            "records": b"",
        }
        for each in wanted["partitions"]
    ]
    return {"topic": wanted["topic"], "topic_id": wanted["topic_id"], "partitions": partitions}


# ---- one pass over the partitions ----------------------------------------------------------------


class _Reading:
    """One pass over the request's partitions."""

    __slots__ = (
        "_bytes_left",
        "_bytes_min",
        "bytes_read",
        "is_final",
        "logs",
        "request",
        "responses",
        "session",
    )

    def __init__(self, request: "Request[bodies.FetchRequest]", session: Session) -> None:
        """Begin without data."""
        self.request = request
        self.session = session
        fetch_max = session.broker.config.integer("fetch.max.bytes")
        self._bytes_left = min(request.body["max_bytes"], fetch_max, PYTHON_FETCH_BYTES_MAX)
        # From half of the limit on, the next batch may not fit: more would never come.
        self._bytes_min = min(request.body["min_bytes"], PYTHON_FETCH_BYTES_MAX // 2)
        self.bytes_read = 0
        self.is_final = False  # an error or a diverging epoch: respond without waiting
        self.logs: list[Log] = []
        self.responses: list[bodies.FetchResponseResponse] = []

    @property
    def is_enough(self) -> bool:
        """Whether the fetch can be answered without waiting."""
        return self.is_final or not self.logs or self.bytes_read >= self._bytes_min

    def each(self) -> Iterator[None]:
        """Read every partition in request order, one per step."""
        for wanted in self.request.body["topics"]:
            partitions: list[bodies.FetchResponsePartition] = []
            self.responses.append(
                {
                    "topic": wanted["topic"],
                    "topic_id": wanted["topic_id"],
                    "partitions": partitions,
                }
            )
            for one in wanted["partitions"]:
                partitions.append(self._partition(wanted, one))
                yield

    def _partition(
        self, topic: "bodies.FetchRequestTopic", wanted: "bodies.FetchRequestPartition"
    ) -> "bodies.FetchResponsePartition":
        try:
            return self._read(self._find(topic), wanted)
        except RequestError as error:
            self.is_final = True
            return {
                "partition_index": wanted["partition"],
                "error_code": errors.number(error.code),
                "high_watermark": -1,
                "aborted_transactions": None,
                "records": b"",
            }

    def _find(self, wanted: "bodies.FetchRequestTopic") -> Topic:
        topics = self.session.broker.topics
        if self.request.version >= _TOPIC_IDS_SINCE:
            return topic_by_id(topics, wanted["topic_id"])
        return topic_by_name(topics, wanted["topic"])

    def _read(
        self, topic: Topic, wanted: "bodies.FetchRequestPartition"
    ) -> "bodies.FetchResponsePartition":
        log = log_of(topic, wanted["partition"])
        check_leader_epoch(log, wanted["current_leader_epoch"])
        is_committed = self.request.body["isolation_level"] == _READ_COMMITTED
        fields: bodies.FetchResponsePartition = {
            "partition_index": wanted["partition"],
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

    def _records(self, log: Log, wanted: "bodies.FetchRequestPartition", end: int) -> bytes:
        """Read within the limits, but at least one batch of the first partition that has data."""
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


def _diverging_epoch(
    log: Log, wanted: "bodies.FetchRequestPartition"
) -> "bodies.FetchResponseDivergingEpoch | None":
    """Return the end of the last common epoch if the client has read truncated data (KIP-595)."""
    epoch = wanted["last_fetched_epoch"]
    if epoch == -1:
        return None
    known, end = log.epoch_end(epoch)
    if known == -1:
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if known == epoch and end >= wanted["fetch_offset"]:
        return None
    return {"epoch": known, "end_offset": end}


def _aborted(
    log: Log, start: int, records: bytes
) -> "list[bodies.FetchResponseAbortedTransaction]":
    """Return the aborted transactions among these records, sorted by first offset."""
    end = scan_headers(records)[-1].last_offset + 1
    try:
        found = log.aborted_transactions(start, end)
    except StorageError as error:  # without the list, aborted records would be delivered
        raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    return [{"producer_id": each, "first_offset": first} for each, first, _ in found]


def _codecs(records: bytes) -> Iterator[int]:
    """Yield the compression codec of each batch."""
    position = 0
    while position < len(records):
        yield records[position + ATTRIBUTES_POSITION + 1] & _CODEC
        length = records[position + _LENGTH_POSITION : position + _LENGTH_END]
        position += _LENGTH_END + int.from_bytes(length)


API = Api(1, "Fetch", range(19), handle)
