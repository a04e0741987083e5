"""Produce, v0-13: append one batch per partition.

v1 throttle time; v2 append time (KIP-32); v3 batches of magic 2, transactional id; v5 log start
offset; v7 zstd (KIP-110); v8 record errors, error message (KIP-467); v9 flexible; v10 current
leader (KIP-951); v11 TRANSACTION_ABORTABLE, v12 implicit partitions (KIP-890); v13 topic ids.

The native path (src/_native/protocols/kafka/produce.pyx) serves most requests; this handler serves
every request and is its specification. A request passes four phases, each in steps:

    read       its partitions; one that is named twice is refused
    admit      the coordinator adds new partitions to the producer's transaction (KIP-890)
    append     per partition, in request order: check, prepare, write
    answer     once everything that is acknowledged is durable

A batch is checked in this order, and the first error is the partition's answer: the request (acks),
the topic, the partition, its transaction, what the API version allows, the records, the topic's
settings, the producer's sequence. With acks=0 there is no response, and an error closes the
connection.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.core.logs.log import Log
from broker.core.logs.partition import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_BYTES,
    append,
    wait_durable,
)
from broker.core.logs.recompression import (
    KeylessRecordsError,
    Preparation,
    prepare,
)
from broker.core.scheduling.eager import run_to_first_wait
from broker.core.scheduling.steps import StepBudget, in_steps
from broker.core.session import Session
from broker.core.topics.lookup import log_of, topic_by_id, topic_by_name
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, PeerError, RequestError
from broker.model.limits import (
    NAMES_READ_PER_STEP,
    PARTITIONS_ANSWERED_PER_STEP,
    PRODUCE_BYTES_PER_STEP,
    PRODUCE_PARTITION_BYTES,
)
from broker.model.log_results import AppendResult
from broker.model.topic_config import TopicConfig
from broker.protocols.base import Answer
from broker.protocols.kafka import errors, transactions
from broker.protocols.kafka.api import Api, Request, Response
from broker.protocols.kafka.old_messages import Conversion, is_message_set
from broker.protocols.kafka.partitions import named_once

if TYPE_CHECKING:
    from broker.codec import bodies

    _Produced: TypeAlias = Response[bodies.ProduceResponse]

_MAGIC_2_SINCE = 3
_ZSTD_SINCE = 7
_ABORTABLE_SINCE = 11
_IMPLICIT_PARTITIONS_SINCE = 12
_TOPIC_IDS_SINCE = 13
_ACKS = (-1, 0, 1)
_CODEC = 0x07
_ZSTD = 4
_TRANSACTIONAL = 0x10
_PRODUCER = Struct(">h20xqh")  # attributes, producer id and epoch of a batch
_COORDINATOR_IS_BUSY = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_ADMIN_CLIENT = "__admin_client"  # the client id that may write internal topics, if configured


class _Place(NamedTuple):
    """A partition as the request names it: up to v12 by the topic's name, then by its id."""

    name: str
    topic_id: bytes
    partition: int


class _Written(NamedTuple):
    """A batch that was appended, or had been appended before."""

    log: Log
    appended: AppendResult


class _Failure(NamedTuple):
    """A batch that was refused: an error without the frames that it was raised through."""

    code: ErrorCode
    message: str
    keyless_records: list[int]  # the first of them, if that is the reason


_Outcome: TypeAlias = _Written | _Failure
# The records that are sent to each partition, in request order; None: it is named twice.
_Sent: TypeAlias = Mapping[_Place, bytes | None]
_Partition: TypeAlias = tuple[str, int]  # topic name and partition
_Producer: TypeAlias = tuple[int, int]  # id and epoch
_Refused: TypeAlias = Mapping[_Partition, ErrorCode]


def handle(
    request: "Request[bodies.ProduceRequest]", session: Session
) -> "Response[bodies.ProduceResponse] | Awaitable[Response[bodies.ProduceResponse]]":
    """Append all valid batches; respond when they are durable.

    A short request has no wait before that.
    """
    return run_to_first_wait(_serve(request, session))


async def _serve(request: "Request[bodies.ProduceRequest]", session: Session) -> "_Produced":
    sent = await named_once(_read(request))
    refused = await _admit(request, session, sent)
    outcomes = await _append_all(request, session, sent, refused)
    if request.body["acks"] == 0:
        return Answer(None, written=await _all_written(outcomes))
    return await _answer(request, outcomes)


# ---- read ----------------------------------------------------------------------------------------


def _read(request: "Request[bodies.ProduceRequest]") -> Iterator[tuple[_Place, bytes]]:
    """Yield the records for each partition."""
    for topic in request.body["topic_data"]:
        for partition in topic["partition_data"]:
            place = _Place(topic["name"], topic["topic_id"], partition["index"])
            yield place, partition["records"] or b""


def _topic(request: "Request[bodies.ProduceRequest]", session: Session, place: _Place) -> Topic:
    topics = session.broker.topics
    if request.version >= _TOPIC_IDS_SINCE:
        topic = topic_by_id(topics, place.topic_id)
    else:
        topic = topic_by_name(topics, place.name)
    if topic.is_internal and not _may_write_internal(request, session):
        text = f"'{topic.name}' belongs to the broker"
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    return topic


def _may_write_internal(request: "Request[bodies.ProduceRequest]", session: Session) -> bool:
    return request.client_id == _ADMIN_CLIENT and session.broker.config.flag(
        "polylog.internal.topics.writable"
    )


# ---- admit ---------------------------------------------------------------------------------------


async def _admit(
    request: "Request[bodies.ProduceRequest]", session: Session, sent: _Sent
) -> _Refused:
    """Wait until the partitions are in their producers' transactions; return the refused ones."""
    refused: dict[_Partition, ErrorCode] = {}
    if request.body["transactional_id"] is None:
        return refused
    for producer, partitions in (await _unadmitted(request, session, sent)).items():
        answers = await session.broker.transactions.admit(
            request.body["transactional_id"],
            *producer,
            partitions,
            adds_implicitly=request.version >= _IMPLICIT_PARTITIONS_SINCE,
        )
        for partition, error in answers.items():
            if error is not ErrorCode.NONE:
                refused[partition] = _refusal(request, error)
    return refused


async def _unadmitted(
    request: "Request[bodies.ProduceRequest]", session: Session, sent: _Sent
) -> dict[_Producer, list[_Partition]]:
    """Return the partitions, by producer, that are not in the producer's transaction yet."""
    found: dict[_Producer, list[_Partition]] = {}
    async for place, records in in_steps(sent.items(), PARTITIONS_ANSWERED_PER_STEP):
        if records is None or len(records) < BATCH_HEADER_BYTES:
            continue
        attributes, producer = _producer_of(records)
        if not attributes & _TRANSACTIONAL:
            continue
        try:
            topic = _topic(request, session, place)
            log = log_of(topic, place.partition)
        except RequestError:
            continue  # the append returns this error
        # A batch that is already in the log is a retry of a lost response: it needs no transaction.
        if not log.admits_transaction(*producer) and not log.has_batch(records):
            found.setdefault(producer, []).append((topic.name, log.partition))
    return found


def _producer_of(records: bytes) -> tuple[int, _Producer]:
    attributes, producer_id, epoch = _PRODUCER.unpack_from(records, ATTRIBUTES_POSITION)
    return attributes, (producer_id, epoch)


def _refusal(request: "Request[bodies.ProduceRequest]", error: ErrorCode) -> ErrorCode:
    """Translate a coordinator's error to one that producers handle (KIP-890, ReplicaManager)."""
    if error in _COORDINATOR_IS_BUSY:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # retriable for every producer
    return transactions.abortable(error, supports_abortable=request.version >= _ABORTABLE_SINCE)


# ---- append --------------------------------------------------------------------------------------


async def _append_all(
    request: "Request[bodies.ProduceRequest]", session: Session, sent: _Sent, refused: _Refused
) -> dict[_Place, _Outcome]:
    """Append in request order.

    With acks=0 a producer may disconnect as soon as it has sent the request: all of it is appended
    nevertheless, within the limits of `Broker.appends`.
    """
    rest = run_to_first_wait(_append_each(request, session, sent, refused))
    if not isinstance(rest, Awaitable):
        return rest
    if request.body["acks"] != 0:
        return await rest
    size = sum(len(records or b"") for records in sent.values())
    return await session.broker.appends.run_to_completion(rest, size)


async def _append_each(
    request: "Request[bodies.ProduceRequest]", session: Session, sent: _Sent, refused: _Refused
) -> dict[_Place, _Outcome]:
    budget = StepBudget(PRODUCE_BYTES_PER_STEP)
    outcomes: dict[_Place, _Outcome] = {}
    for place, records in sent.items():
        try:
            outcomes[place] = await _append(request, session, place, records, refused)
        except KeylessRecordsError as error:
            outcomes[place] = _Failure(error.code, error.message, error.places)
        except RequestError as error:
            outcomes[place] = _Failure(error.code, error.message, [])
        await budget.spend(PRODUCE_PARTITION_BYTES + len(records or b""))
    return outcomes


async def _append(
    request: "Request[bodies.ProduceRequest]",
    session: Session,
    place: _Place,
    records: bytes | None,
    refused: _Refused,
) -> _Written:
    """Check, prepare and append one partition's batch; RequestError is the partition's answer."""
    if records is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names this partition twice")
    if request.body["acks"] not in _ACKS:
        raise RequestError(ErrorCode.INVALID_REQUIRED_ACKS)
    topic = _topic(request, session, place)
    log = log_of(topic, place.partition)
    if (topic.name, place.partition) in refused:
        raise RequestError(refused[topic.name, place.partition])
    write = partial(_write, session, log, topic.config)
    preparation = _preparation(request, topic.config, records)
    if preparation is None:
        return write(records)
    if not preparation.is_slow:
        return write(preparation.run())
    return await session.broker.recompression.append(preparation, write)


def _preparation(
    request: "Request[bodies.ProduceRequest]", config: TopicConfig, records: bytes
) -> Conversion | Preparation | None:
    """Return the work on the records before they are appended; None: there is none.

    v0-2 have message sets, which are converted to batches (old_messages.py).
    """
    if request.version < _MAGIC_2_SINCE and is_message_set(records):
        return Conversion(records, config)
    _check_version(request, records)
    return prepare(config, records)


def _check_version(request: "Request[bodies.ProduceRequest]", records: bytes) -> None:
    """Check what depends on the API version."""
    if request.version >= _MAGIC_2_SINCE and is_message_set(records):
        text = f"Produce v{request.version} takes batches of magic 2 only"
        raise RequestError(ErrorCode.INVALID_RECORD, text)
    if len(records) < BATCH_HEADER_BYTES:
        return  # the log refuses it
    attributes, _ = _producer_of(records)
    if attributes & _CODEC == _ZSTD and request.version < _ZSTD_SINCE:
        raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if attributes & _TRANSACTIONAL and request.body["transactional_id"] is None:
        raise RequestError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _write(session: Session, log: Log, config: TopicConfig, records: bytes) -> _Written:
    return _Written(log, append(log, config, records, session.broker.clock.wall_ms()))


# ---- answer --------------------------------------------------------------------------------------


async def _all_written(outcomes: Mapping[_Place, _Outcome]) -> list[tuple[Log, int]]:
    """Return the end offset of each batch; an error raises PeerError, to close the connection."""
    written = []
    async for place, outcome in in_steps(outcomes.items(), NAMES_READ_PER_STEP):
        if isinstance(outcome, _Failure):
            error = RequestError(outcome.code, outcome.message)
            text = f"Produce with acks=0 to {place.name!r}-{place.partition} refused: {error}"
            raise PeerError(text)
        written.append((outcome.log, outcome.appended.end_offset))
    return written


async def _answer(
    request: "Request[bodies.ProduceRequest]", outcomes: Mapping[_Place, _Outcome]
) -> "bodies.ProduceResponse":
    number = errors.number if request.version >= _MAGIC_2_SINCE else errors.old_number
    topics: dict[tuple[str, bytes], list[bodies.ProduceResponsePartitionResponse]] = {}
    async for place, outcome in in_steps(outcomes.items(), PARTITIONS_ANSWERED_PER_STEP):
        partitions = topics.setdefault((place.name, place.topic_id), [])
        partitions.append(await _partition(place.partition, outcome, number))
    responses: list[bodies.ProduceResponseResponse] = []
    async for (name, topic_id), partitions in in_steps(topics.items(), NAMES_READ_PER_STEP):
        responses.append({"name": name, "topic_id": topic_id, "partition_responses": partitions})
    return {"responses": responses}


async def _partition(
    index: int, outcome: _Outcome, number: Callable[[ErrorCode], int]
) -> "bodies.ProduceResponsePartitionResponse":
    if isinstance(outcome, _Written):
        log, appended = outcome
        if await wait_durable(log, appended.end_offset):
            return {
                "index": index,
                "error_code": 0,
                "base_offset": appended.base_offset,
                "log_append_time_ms": appended.append_time_ms,
                "log_start_offset": log.log_start_offset,
            }
        outcome = _Failure(
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND  # a retry may still write it
            if log.is_full
            else ErrorCode.KAFKA_STORAGE_ERROR,
            "",
            [],
        )
    return {
        "index": index,
        "error_code": number(outcome.code),
        "base_offset": -1,
        "record_errors": [
            {"batch_index": place, "batch_index_error_message": "the record has no key"}
            for place in outcome.keyless_records
        ],
        "error_message": outcome.message or None,
    }


API = Api(0, "Produce", range(14), handle, has_own_limits=True)
