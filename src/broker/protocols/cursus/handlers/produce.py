"""Batches and PUBLISH: records for one partition, acknowledged when they can be read.

Key and payload become the record's key and value, and its timestamp is the time of the append;
Cursus's other fields are stored in headers. In a topic with idempotent=true, records that a
producer sends again are not stored again (`named_producers`); the flag in the batch's header is
ignored, as in the original.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from broker._native.protocols.cursus.batch import (
    EPOCH,
    EVENT_TYPE,
    METADATA,
    PRODUCER_ID,
    RECORD_BYTES_MIN,
    SEQUENCE,
    CursusBatch,
    fnv_1a_64,
)
from broker.core.broker import Broker
from broker.core.forwarding import check_led
from broker.core.logs.log import Log
from broker.core.logs.partition import until_acknowledged
from broker.core.scheduling.steps import next_step
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import log_of
from broker.core.topics.topic import Topic
from broker.core.writing import Written, write
from broker.model.errors import CodecError, ErrorCode, RequestError, StorageError
from broker.model.limits import (
    CURSUS_BATCH_RECORDS_ASSUMED,
    CURSUS_PRODUCER_ID_BYTES_MAX,
    CURSUS_RECORD_BYTES_MAX,
    CURSUS_ROWS_PER_TURN,
    CURSUS_RUNS_PER_BATCH_MAX,
)
from broker.protocols.base import Answer, Immediate
from broker.protocols.cursus import permissions
from broker.protocols.cursus.acks import UNACKNOWLEDGED, Sent, failed, led_here, stored
from broker.protocols.cursus.connections import ConnectionState, address_of, state_of
from broker.protocols.cursus.errors import (
    RefusedError,
    of_request,
)
from broker.protocols.cursus.grammar import TRANSACTION_NAMES, Command, decoded, encoded, integer
from broker.protocols.cursus.named_producers.sequences import (
    Plan,
    Run,
    SequenceError,
    Sequences,
    StaleEpochError,
)
from broker.protocols.cursus.protocol_state import ProtocolState
from broker.protocols.cursus.requests import Request, check_partition, find_topic
from broker.protocols.cursus.settings import HASH_KEY, IDEMPOTENT, PARTITIONER

Row: TypeAlias = tuple[bytes | None, bytes, list[tuple[bytes, bytes]] | None]

_NO_ACKS: Final = "0"
_ALL_ACKS: Final = "all"
_ACKS: Final = {"0": _NO_ACKS, "1": "1", "": "1", "-1": _ALL_ACKS, "all": _ALL_ACKS}
_TEXTS: Final = frozenset((PRODUCER_ID, EVENT_TYPE, METADATA))
_KEY_BYTES_MAX: Final = 65_535  # as in a batch
_UINT64: Final = 0xFFFFFFFFFFFFFFFF
_INT64: Final = range(-(1 << 63), 1 << 63)
_FLAGS: Final = frozenset(("", "true", "false"))
_NOT_LEADER: Final = "NOT_LEADER"
# Errors of records that are the same whenever they are sent. The Python SDK, whose producers have
# such names, sends a batch again for ever, and everything behind it waits, unless the error has
# words of a sequence that cannot go on; then the producer ends. Others give such a batch up.
_FINAL: Final = frozenset(
    (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_RECORD)
)
_SENT_FOR_EVER: Final = "py-"
_GIVE_UP: Final = "(left out, it makes an idempotency gap)"


class _Records(NamedTuple):
    """Records to append, and their sequence numbers."""

    topic: Topic
    partition: int
    rows: Sequence[Row]
    runs: Sequence[Run]  # empty: sequence numbers are not checked
    batch_assumed: int  # see Sequences.plan


async def batch(found: CursusBatch, session: Session, state: ProtocolState) -> Immediate:
    """Append a batch; the response is JSON, errors too.

    Raises ElsewhereError if another broker leads the partition.
    """
    broker = session.broker
    sent = Sent(decoded(found.producer_id), found.epoch, found.seq_start, found.seq_end)
    acks = _ACKS.get(decoded(found.acks).lower())
    try:
        if acks is None:
            raise RefusedError("invalid_acks", value=decoded(found.acks))
        name = decoded(found.topic)
        permissions.check(session, "batch", Operation.WRITE, ResourceType.TOPIC, name)
        topic = writable(broker, name)
        if found.count == 0:
            raise RefusedError("broker_error", detail="empty batch messages")
        check_partition(topic, found.partition)
        check_led(session, topic, found.partition)
        is_checked = topic.config.flag(IDEMPOTENT)
        runs = _runs(found) if is_checked else ()
        records = _Records(
            topic, found.partition, await _rows(found), runs, CURSUS_BATCH_RECORDS_ASSUMED
        )
        return await _append(records, session, state, sent, acks)
    except (RefusedError, RequestError, CodecError, StorageError) as error:
        answer = refusal_of(error, sent, session)
    return Answer(answer, is_droppable=True) if acks == _NO_ACKS else answer


def relayed(found: CursusBatch, answer: bytes, connection: ConnectionState) -> Immediate:
    """Return another broker's response to a batch."""
    return _relayed(_ACKS.get(decoded(found.acks).lower()), answer, connection)


def relayed_publish(command: Command, answer: bytes, connection: ConnectionState) -> Immediate:
    """Return another broker's response to a PUBLISH."""
    return _relayed(_ACKS.get(command.get("acks").lower()), answer, connection)


def _relayed(acks: str | None, answer: bytes, connection: ConnectionState) -> Immediate:
    if acks == _NO_ACKS:
        return Answer(answer, is_droppable=True)
    return led_here(answer, connection.leader)


def refusal_of(error: Exception, sent: Sent, session: Session) -> bytes:
    """Return the response to a producer whose records are refused."""
    refusal = _refusal(error, address_of(session))
    if refusal.code == _NOT_LEADER:
        return refusal.text().encode()  # clients expect this error as text
    if getattr(error, "code", None) in _FINAL and sent.producer_id.startswith(_SENT_FOR_EVER):
        refusal.rest = f"{refusal.rest} {_GIVE_UP}"
    return failed(sent, refusal, state_of(session).leader)


def _refusal(error: Exception, leader: str) -> RefusedError:
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, RequestError):
        return of_request(error, leader)
    return RefusedError("broker_error", detail=str(error))


async def _rows(found: CursusBatch) -> list[Row]:
    """Return all records, read in steps."""
    rows: list[Row] = []
    while len(rows) < found.count:
        if rows:
            await next_step()
        rows += found.rows(CURSUS_ROWS_PER_TURN)
    return rows


def _runs(found: CursusBatch) -> list[Run]:
    runs = [Run(*each) for each in found.runs(CURSUS_RUNS_PER_BATCH_MAX)]
    for run in runs:
        _check_producer_id(run.producer_id)
    return runs


def _check_producer_id(producer_id: bytes) -> None:
    if len(producer_id) > CURSUS_PRODUCER_ID_BYTES_MAX:
        text = f"at most {CURSUS_PRODUCER_ID_BYTES_MAX} bytes in an idempotent topic"
        raise RefusedError("invalid_producer_id", detail=text)


def writable(broker: Broker, name: str) -> Topic:
    """Return the topic of that name; raise RefusedError if clients may not write to it."""
    topic = find_topic(broker, name)
    if topic.is_internal:
        raise RefusedError("internal_topic_write_forbidden", topic=name)
    return topic


async def _append(
    records: _Records, session: Session, state: ProtocolState, sent: Sent, acks: str
) -> Immediate:
    broker = session.broker
    check_size(records.rows, size_max(records.topic))
    log = log_of(records.topic, records.partition)
    is_for_all = acks == _ALL_ACKS
    if not records.runs:
        written = await write(
            broker, records.topic, records.partition, records.rows, is_for_all=is_for_all
        )
    else:
        written = await _append_new(records, broker, state, log, is_for_all=is_for_all)
    session.has_written(written.log, written.end_offset)
    if acks == _NO_ACKS:
        return Answer(UNACKNOWLEDGED, is_droppable=True)
    failure = "the log of the partition has failed"
    await until_acknowledged(written.log, written.end_offset, failure, is_for_all=is_for_all)
    return stored(sent, written.end_offset - 1, state_of(session).leader)


def size_max(topic: Topic) -> int:
    """Return how many bytes a record may take in a frame, which has the topic's name, too."""
    return CURSUS_RECORD_BYTES_MAX - len(topic.name)


def check_size(rows: Sequence[Row], bytes_max: int) -> None:
    """Raise RequestError if a record takes more bytes in a frame, in which it will be read."""
    for index, (key, payload, headers) in enumerate(rows):
        size = RECORD_BYTES_MIN + len(key or b"") + len(payload)
        size += sum(len(text) for name, text in headers or () if name in _TEXTS)
        if size > bytes_max:
            text = f"message {index} takes {size} bytes in a frame, a record may take {bytes_max}"
            raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, text)


async def _append_new(
    records: _Records, broker: Broker, state: ProtocolState, log: Log, *, is_for_all: bool
) -> Written:
    """Append the records that the partition does not have yet."""
    async with state.named_producers.of(records.topic, log) as sequences:
        plan = _planned(sequences, records)
        rows = [row for kept in plan.kept for row in records.rows[kept.start : kept.stop]]
        if not rows:
            end = log.log_end_offset
            return Written(log, end, end)  # all of them are stored already
        written = await write(broker, records.topic, records.partition, rows, is_for_all=is_for_all)
        # Nothing is awaited between the append and this.
        sequences.replay(plan.arrivals, broker.clock.latest_ms())
        return written


def _planned(sequences: Sequences, records: _Records) -> Plan:
    try:
        return sequences.plan(records.runs, batch_assumed=records.batch_assumed)
    except StaleEpochError as error:
        raise RefusedError("stale_producer_epoch", str(error)) from None
    except SequenceError as error:
        raise RefusedError("broker_error", detail=str(error)) from None


# ---- PUBLISH -------------------------------------------------------------------------------------


async def publish(request: Request) -> Immediate:
    """Append one message; the response is that of a batch, but errors are texts."""
    command = request.command
    name = command.need("topic")
    if not command.message:
        raise RefusedError("missing_message", command="PUBLISH")
    if any(map(command.get, TRANSACTION_NAMES)):
        raise RefusedError("transaction_metadata_forbidden", command="PUBLISH")
    producer_id = encoded(command.get("producerId") or command.get("producer_id"))
    if not producer_id and not command.is_positional:
        raise RefusedError("missing_producer_id", command="PUBLISH")
    if command.get("isIdempotent").lower() not in _FLAGS:
        raise RefusedError("invalid_is_idempotent", value=command.get("isIdempotent"))
    acks = _ACKS.get(command.get("acks").lower())
    if acks is None:
        raise RefusedError("invalid_acks", value=command.get("acks"))
    sequence = _number(command, "seqNum", "invalid_seq_num", range(_UINT64 + 1))
    epoch = _number(command, "epoch", "invalid_epoch", _INT64)
    topic = writable(request.broker, name)
    records = _message(command, request, topic, Run(producer_id, epoch, sequence, sequence, 1))
    sent = Sent(decoded(producer_id), epoch, sequence, sequence)
    check_led(request.session, topic, records.partition)
    return await _append(records, request.session, request.state, sent, acks)


def _message(command: Command, request: Request, topic: Topic, run: Run) -> _Records:
    key = key_of(command)
    partition = partition_for(request, topic, key)
    row = (key or None, command.message or b"", headers_of(run) or None)
    runs: tuple[Run, ...] = ()
    if topic.config.flag(IDEMPOTENT) and run.first and run.producer_id:
        _check_producer_id(run.producer_id)
        runs = (run,)
    return _Records(topic, partition, [row], runs, 1)


def key_of(command: Command) -> bytes:
    """Return the key of a message, empty for none."""
    key = encoded(command.get("key"))
    if len(key) > _KEY_BYTES_MAX:
        raise RefusedError("invalid_key", detail=f"at most {_KEY_BYTES_MAX} bytes")
    return key


def headers_of(run: Run) -> list[tuple[bytes, bytes]]:
    """Return the headers for a message's producer id, sequence and epoch, without empty or 0."""
    headers = [(PRODUCER_ID, run.producer_id)] if run.producer_id else []
    if run.first:
        headers.append((SEQUENCE, b"%d" % run.first))
    if run.epoch:
        headers.append((EPOCH, b"%d" % run.epoch))
    return headers


def _number(command: Command, name: str, code: str, allowed: range) -> int:
    text = command.get(name)
    if not text:
        return 0
    number = integer(text)
    if number is None or number not in allowed:
        raise RefusedError(code, detail=f"{name} {text} is not a number that it can be")
    return number


def partition_for(request: Request, topic: Topic, key: bytes) -> int:
    """Return a message's partition: the one it names, else that of its key, else round robin."""
    text = request.command.get("partition")
    if text and text != "-1":
        number = integer(text)
        if number is None or number < 0:
            raise RefusedError("invalid_partition", detail=f"{text} is not a partition")
        check_partition(topic, number)
        return number
    if key and topic.config.text(PARTITIONER) == HASH_KEY:
        return fnv_1a_64(key) % topic.partition_count
    if request.session.is_forwarded:
        # Who has forwarded it chose one of this broker's partitions, but could not say so.
        led = topic.led_logs
        if led:
            return led[request.state.turns.next(len(led))].partition
    return request.state.turns.next(topic.partition_count)
