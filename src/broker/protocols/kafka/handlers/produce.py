"""Produce, v0-13: append one batch per partition.

v1 throttle time; v2 append time (KIP-32); v3 batches of magic 2, transactional id; v5 log start
offset; v7 zstd (KIP-110); v8 record errors, error message (KIP-467); v9 flexible; v10 current
leader (KIP-951); v11 TRANSACTION_ABORTABLE, v12 implicit partitions (KIP-890); v13 topic ids.

v0-2 have message sets, which are converted to batches before they are appended (old_messages.py).
The native path serves most requests; this handler serves every request and is the specification of
the native path. Batches are appended at once, or after the compression thread has prepared them if
the topic or an old producer needs it, always in the order of the connection's requests. The
response is sent when everything it acknowledges is durable. The first batch of a transaction in a
partition waits until the coordinator has added the partition (KIP-890). With acks=0 there is no
response, and an error closes the connection.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from struct import Struct
from typing import NamedTuple

from broker.core.logs.log import Log
from broker.core.logs.partition import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_BYTES,
    Appended,
    append,
    wait_durable,
)
from broker.core.logs.recompression import (
    KeylessRecordsError,
    Preparation,
    RecompressionJob,
    prepare,
)
from broker.core.session import Session
from broker.core.topics.lookup import log_of, topic_by_id, topic_by_name
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, PeerError, RequestError
from broker.model.limits import OLD_MESSAGES_BYTES_MAX
from broker.model.topic_config import TopicConfig
from broker.protocols.base import SilentAnswer
from broker.protocols.kafka import errors, transactions
from broker.protocols.kafka.api import Api, Fields, Request, Response
from broker.protocols.kafka.old_messages import Conversion, is_message_set

_MAGIC_2_SINCE = 3
_ZSTD_SINCE = 7
_TOPIC_IDS_SINCE = 13
_ACKS = (-1, 0, 1)
_CODEC = 0x07
_ZSTD = 4
_TRANSACTIONAL = 0x10
_PRODUCER = Struct(">h20xqh")  # attributes, producer id and epoch of a batch
_ABORTABLE_SINCE = 11
_IMPLICIT_PARTITIONS_SINCE = 12
_COORDINATOR_IS_BUSY = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_ADMIN_CLIENT = "__admin_client"  # the client id that may write internal topics, if configured


class _Written(NamedTuple):
    """A batch that was appended."""

    log: Log
    appended: Appended


class _Pending(NamedTuple):
    """A batch that must be decompressed or compressed before it is appended."""

    log: Log
    config: TopicConfig
    preparation: RecompressionJob


_Outcome = _Written | RequestError
_Place = tuple[str, bytes, int]  # topic name, topic id, partition
_Partition = tuple[str, int]
_Producer = tuple[int, int]  # id, epoch


def handle(request: Request, session: Session) -> Response | Awaitable[Response]:
    """Append all valid batches; respond when they are durable."""
    if request.body["transactional_id"] is not None:
        unadmitted = _unadmitted(request, session)
        if unadmitted:
            return _append_admitted(request, session, unadmitted)
    return _append_all(request, session, {})


def _append_all(
    request: Request, session: Session, refused: Mapping[_Partition, ErrorCode]
) -> Response | Awaitable[Response]:
    topics = request.body["topic_data"]
    count = Counter(
        (each["name"], each["topic_id"], partition["index"])
        for each in topics
        for partition in each["partition_data"]
    )
    begun: dict[_Place, _Outcome | _Pending] = {}
    is_long = _is_long(request)
    for each in topics:
        for partition in each["partition_data"]:
            key = (each["name"], each["topic_id"], partition["index"])
            if count[key] > 1:
                text = "the request names this partition twice"
                begun[key] = RequestError(ErrorCode.INVALID_REQUEST, text)
            else:
                begun[key] = _append(request, session, each, partition, refused, is_long=is_long)
    outcomes = {key: each for key, each in begun.items() if not isinstance(each, _Pending)}
    if len(outcomes) < len(begun):
        return _append_later(request, session, begun)
    return _respond(request, outcomes)


def _respond(request: Request, outcomes: dict[_Place, _Outcome]) -> Response | Awaitable[Response]:
    if request.body["acks"] == 0:
        return SilentAnswer(_all_written(outcomes))
    return _answer(request, outcomes)


def _append(
    request: Request,
    session: Session,
    topic: Fields,
    partition: Fields,
    refused: Mapping[_Partition, ErrorCode],
    *,
    is_long: bool,
) -> _Outcome | _Pending:
    try:
        _check_request(request)
        found = _topic(request, session, topic)
        log = log_of(found, partition["index"])
        if (found.name, partition["index"]) in refused:
            raise RequestError(refused[found.name, partition["index"]])
        records = partition["records"] or b""
        preparation = _preparation(request, found.config, records, is_long=is_long)
        if preparation is None:
            return _write(session, log, found.config, records)
        if preparation.is_slow:
            return _Pending(log, found.config, preparation)
        return _write(session, log, found.config, preparation.run())
    except RequestError as error:
        return error


def _write(session: Session, log: Log, config: TopicConfig, records: bytes) -> _Written:
    return _Written(log, append(log, config, records, session.broker.clock.wall_ms()))


async def _append_later(
    request: Request, session: Session, begun: dict[_Place, _Outcome | _Pending]
) -> Response:
    """Prepare and append pending batches in order; the connection's next request waits too."""
    outcomes: dict[_Place, _Outcome] = {}
    for key, each in begun.items():
        outcomes[key] = await _prepared(session, each) if isinstance(each, _Pending) else each
    response = _respond(request, outcomes)
    return await response if isinstance(response, Awaitable) else response


async def _prepared(session: Session, pending: _Pending) -> _Outcome:
    log, config, preparation = pending
    try:
        return await session.broker.recompression.append(
            preparation, partial(_write, session, log, config)
        )
    except RequestError as error:
        return error


def _check_request(request: Request) -> None:
    if request.body["acks"] not in _ACKS:
        raise RequestError(ErrorCode.INVALID_REQUIRED_ACKS)


def _is_long(request: Request) -> bool:
    """Return whether its message sets are too large to convert in one turn of the loop."""
    size = sum(
        len(partition["records"] or b"")
        for topic in request.body["topic_data"]
        for partition in topic["partition_data"]
    )
    return size > OLD_MESSAGES_BYTES_MAX


def _preparation(
    request: Request, config: TopicConfig, records: bytes, *, is_long: bool
) -> Conversion | Preparation | None:
    """Return the work on the records before they are appended; None: there is none."""
    if request.version < _MAGIC_2_SINCE and is_message_set(records):
        return Conversion(records, config, is_long)
    _check_batch(request, records)
    return prepare(config, records)


def _topic(request: Request, session: Session, wanted: Fields) -> Topic:
    topics = session.broker.topics
    if request.version >= _TOPIC_IDS_SINCE:
        topic = topic_by_id(topics, wanted["topic_id"])
    else:
        topic = topic_by_name(topics, wanted["name"])
    if topic.is_internal and not _may_write_internal(request, session):
        text = f"'{topic.name}' belongs to the broker"
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    return topic


def _may_write_internal(request: Request, session: Session) -> bool:
    return request.client_id == _ADMIN_CLIENT and session.broker.config.flag(
        "polylog.internal.topics.writable"
    )


def _check_batch(request: Request, records: bytes) -> None:
    """Check what depends on the API version; the log checks the rest."""
    if request.version >= _MAGIC_2_SINCE and is_message_set(records):
        text = f"Produce v{request.version} takes batches of magic 2 only"
        raise RequestError(ErrorCode.INVALID_RECORD, text)
    if len(records) < BATCH_HEADER_BYTES:
        return
    attributes, _ = _producer_of(records)
    if attributes & _CODEC == _ZSTD and request.version < _ZSTD_SINCE:
        raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if attributes & _TRANSACTIONAL and request.body["transactional_id"] is None:
        raise RequestError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


# ---- transactions --------------------------------------------------------------------------------


def _unadmitted(request: Request, session: Session) -> dict[_Producer, list[_Partition]]:
    """Return the partitions, by producer, that are not in the producer's transaction yet.

    A batch that is already in the log is a retry of a lost response, and needs no transaction.
    """
    found: dict[_Producer, list[_Partition]] = {}
    for wanted in request.body["topic_data"]:
        for partition in wanted["partition_data"]:
            records = partition["records"] or b""
            if len(records) < BATCH_HEADER_BYTES:
                continue
            attributes, producer = _producer_of(records)
            if not attributes & _TRANSACTIONAL:
                continue
            try:
                topic = _topic(request, session, wanted)
                log = log_of(topic, partition["index"])
            except RequestError:
                continue  # the append returns this error
            if not log.admits_transaction(*producer) and not log.has_batch(records):
                found.setdefault(producer, []).append((topic.name, log.partition))
    return found


def _producer_of(records: bytes) -> tuple[int, _Producer]:
    attributes, producer_id, epoch = _PRODUCER.unpack_from(records, ATTRIBUTES_POSITION)
    return attributes, (producer_id, epoch)


async def _append_admitted(
    request: Request, session: Session, unadmitted: dict[_Producer, list[_Partition]]
) -> Response:
    refused = {}
    for producer, partitions in unadmitted.items():
        answers = await session.broker.transactions.admit(
            request.body["transactional_id"],
            *producer,
            partitions,
            adds_implicitly=request.version >= _IMPLICIT_PARTITIONS_SINCE,
        )
        for place, error in answers.items():
            if error is not ErrorCode.NONE:
                refused[place] = _refusal(request, error)
    response = _append_all(request, session, refused)
    return await response if isinstance(response, Awaitable) else response


def _refusal(request: Request, error: ErrorCode) -> ErrorCode:
    """Translate a coordinator's error to one that producers handle (KIP-890, ReplicaManager)."""
    if error in _COORDINATOR_IS_BUSY:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # retriable for every producer
    return transactions.abortable(error, supports_abortable=request.version >= _ABORTABLE_SINCE)


# ---- answers -------------------------------------------------------------------------------------


def _all_written(outcomes: dict[_Place, _Outcome]) -> list[tuple[Log, int]]:
    """Return the end offset of each batch; an error raises PeerError, to close the connection."""
    written = []
    for (name, _, index), outcome in outcomes.items():
        if isinstance(outcome, RequestError):
            raise PeerError(f"Produce with acks=0 to {name!r}-{index} refused: {outcome}")
        written.append((outcome.log, outcome.appended.end_offset))
    return written


async def _answer(request: Request, outcomes: dict[_Place, _Outcome]) -> Fields:
    number = errors.number if request.version >= _MAGIC_2_SINCE else errors.old_number
    topics: dict[tuple[str, bytes], list[Fields]] = {}
    for (name, topic_id, index), outcome in outcomes.items():
        partitions = topics.setdefault((name, topic_id), [])
        partitions.append({"index": index, **await _partition(outcome, number)})
    return {
        "responses": [
            {"name": name, "topic_id": topic_id, "partition_responses": partitions}
            for (name, topic_id), partitions in topics.items()
        ]
    }


async def _partition(outcome: _Outcome, number: Callable[[ErrorCode], int]) -> Fields:
    if isinstance(outcome, _Written):
        log, appended = outcome
        if await wait_durable(log, appended.end_offset):
            return {
                "error_code": 0,
                "base_offset": appended.base_offset,
                "log_append_time_ms": appended.append_time_ms,
                "log_start_offset": log.log_start_offset,
            }
        outcome = RequestError(
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND  # a retry may still write it
            if log.is_full
            else ErrorCode.KAFKA_STORAGE_ERROR
        )
    places = outcome.places if isinstance(outcome, KeylessRecordsError) else []
    return {
        "error_code": number(outcome.code),
        "base_offset": -1,
        "record_errors": [
            {"batch_index": place, "batch_index_error_message": "the record has no key"}
            for place in places
        ],
        "error_message": outcome.message or None,
    }


API = Api(0, "Produce", range(14), handle, has_own_limits=True)
