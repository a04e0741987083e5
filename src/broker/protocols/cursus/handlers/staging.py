"""TXN_PUBLISH and SEND_OFFSETS_TO_TXN: the records and offsets of a transaction.

Records are appended at once, as batches of the internal producer id, and become visible with the
commit marker; offsets are pending in their group until then. The response means that they are
staged, not that they are durable: END_TXN makes those of this broker durable before it decides, and
a transaction that was open at a restart is aborted. Another broker answers STAGE and STAGE_OFFSETS
when what it has staged is durable.
"""

import re
from collections.abc import AsyncIterator
from typing import Final

from broker.codec.encoding import encode
from broker.core.forwarding import leader_to_ask
from broker.core.logs.partition import until_acknowledged
from broker.core.topics.lookup import log_of
from broker.core.topics.topic import Topic
from broker.core.transactions.commands import AddRequest, Producer
from broker.core.transactions.records import TopicPartition
from broker.core.writing import Written, batch_bytes_max, write_batches
from broker.model.errors import ErrorCode, LimitExceeded, RequestError
from broker.protocols.cursus import members
from broker.protocols.cursus.connections import address_of
from broker.protocols.cursus.errors import (
    RefusedError,
    of_request,
)
from broker.protocols.cursus.forwarding import ask, check_internal
from broker.protocols.cursus.grammar import (
    WHITE_SPACE,
    Command,
    decoded,
    encoded,
    generation_of,
    integer,
    partition_of,
)
from broker.protocols.cursus.handlers.commits import entries
from broker.protocols.cursus.handlers.produce import (
    Row,
    check_size,
    headers_of,
    key_of,
    partition_for,
    size_max,
    writable,
)
from broker.protocols.cursus.holders import (
    Holder,
    aborted,
    holder_of,
    inner_name,
    name_of,
    producer_of,
    refusal_of,
    shown_id,
)
from broker.protocols.cursus.named_producers.sequences import Run
from broker.protocols.cursus.requests import Request
from broker.protocols.cursus.staged import Scope, Staged

# Two clients append their credentials to the message, where every reader of the record would see
# them. They are removed; messages of other clients do not end like this.
_PRINCIPAL: Final = b" principal="
_CREDENTIALS: Final = re.compile(rb" principal=\S+ auth_token=\S+")
_PUBLISH_FAILED: Final = "transaction_publish_failed"
_OFFSETS_FAILED: Final = "transaction_offsets_failed"
_ROUTED: Final = ("", "-1")
_OFFSETS: Final = "offsets="  # some clients write this before the payload
_UINT64: Final = 0xFFFFFFFFFFFFFFFF
_SEQUENCES: Final = 1 << 31  # Kafka's sequence numbers wrap to 0 here
_LAST_SEQUENCE: Final = 2  # index in a log's producer state: id, epoch, last sequence
_EPOCH: Final = 1  # index likewise
_NO_SEQUENCE: Final = -1


async def publish(request: Request) -> str:
    """Append one message in a transaction; a message that is sent again is not appended again."""
    command = request.command
    name = name_of(request)
    topic_name = command.need("topic")
    message = _without_credentials(command.message or b"")
    if not message:
        raise RefusedError("missing_message", command=command.keyword)
    sequence = _sequence(command)
    async with request.state.transactions.lock(name):
        holder = await holder_of(request, name, _PUBLISH_FAILED)
        topic = writable(request.broker, topic_name)
        key = key_of(command)
        is_routed = command.get("partition") in _ROUTED
        wanted = None if is_routed else partition_for(request, topic, key)
        staged = _open(holder, _PUBLISH_FAILED)
        partition = staged.partition_of(topic.name, sequence, (key, message), wanted)
        if partition is None:
            partition = partition_for(request, topic, key) if wanted is None else wanted
            run = Run(encoded(holder.producer_id), holder.producer.producer_epoch, sequence, 0, 1)
            row = (key or None, message, headers_of(run))
            try:
                check_size([row], size_max(topic))
                await _write(request, holder, topic, partition, row)
            except RequestError as error:
                raise of_request(error, address_of(request.session), _PUBLISH_FAILED) from error
            staged.add(topic.name, sequence, (key, message), partition)
    return f"OK transactional_id={name} staged_messages=1 topic={topic.name} partition={partition}"


def _without_credentials(message: bytes) -> bytes:
    text = b" " + message  # the message may consist of credentials only
    start = text.rfind(_PRINCIPAL)
    if start < 0 or not _CREDENTIALS.fullmatch(text, start):
        return message
    return text[:start].strip(WHITE_SPACE)


def _sequence(command: Command) -> int:
    text = command.get("seqNum")
    number = integer(text)
    if number is None or not 0 < number <= _UINT64:
        text = f"seqNum {text} is not a number above 0"
        raise RefusedError("invalid_seq_num", command=command.keyword, detail=text)
    return number


def _open(holder: Holder, code: str) -> Staged:
    """Return the staged state of an open transaction; raise RefusedError if it is not open."""
    if holder.is_abandoned:
        raise aborted(holder.name)
    if not holder.is_open or holder.staged is None:
        raise RefusedError(code, detail=f"transaction {holder.name} is not open")
    return holder.staged


async def _write(request: Request, holder: Holder, topic: Topic, partition: int, row: Row) -> None:
    producer, session = holder.producer, request.session
    leader = leader_to_ask(session, topic, partition)
    if leader is None:
        log = log_of(topic, partition)
        if not log.admits_transaction(producer.producer_id, producer.producer_epoch):
            await _add(request, holder, (topic.name, partition), _PUBLISH_FAILED)
        await _append(request, producer, topic, partition, row)
        return
    if not request.broker.transactions.has(producer, (topic.name, partition)):
        await _add(request, holder, (topic.name, partition), _PUBLISH_FAILED)
    name, message = decoded(row[0] or b""), row[1] or b""
    command = (
        f"STAGE transactional_id={holder.name} topic={topic.name} partition={partition}"
        f" producerId={producer.producer_id} epoch={producer.producer_epoch}"
        f" seqNum={_sequence(request.command)}{f' key={name}' if name else ''} message="
    )
    await ask(session, leader, command, message)


async def stage(request: Request) -> str:
    """Append a message of a transaction that another broker coordinates.

    The coordinator syncs its own logs only before it decides, so the record has to be durable now.
    """
    check_internal(request)
    command, broker = request.command, request.broker
    name = command.need("transactional_id")
    producer = producer_of(command, inner_name(name))
    topic, partition = writable(broker, command.need("topic")), partition_of(command)
    log = log_of(topic, partition)
    producer_id, epoch = producer.producer_id, producer.producer_epoch
    if not log.admits_transaction(producer_id, epoch):
        named = topic.name, partition
        codes = await broker.transactions.admit(*producer, [named], adds_implicitly=False)
        if codes[named] is not ErrorCode.NONE:
            raise refusal_of(codes[named], name, _PUBLISH_FAILED)
    run = Run(encoded(shown_id(producer_id)), epoch, _sequence(command), 0, 1)
    row = (key_of(command) or None, command.message or b"", headers_of(run))
    here, place = request.state.transactions.here, (topic.topic_id, partition)
    content = hash((run.first, *row[:2]))
    end = here.end_of(producer, place, content, log)
    if end is None:
        written = await _append(request, producer, topic, partition, row)
        end = written.end_offset
        here.add(producer, place, content, written.base_offset, end)
    await until_acknowledged(log, end)
    return "OK"


async def stage_offsets(request: Request) -> str:
    """Commit offsets in a transaction that another broker coordinates."""
    check_internal(request)
    command, topic, group = request.command, request.topic(), request.command.need("group")
    call = members.call_of(topic, group, command.need("member"), generation_of(command))
    producer = producer_of(command, "")
    offsets = await entries(command, topic, group)
    groups = await request.groups(group)
    transaction = (producer.producer_id, producer.producer_epoch)
    await members.commit_here(groups, call, tuple(offsets.items()), transaction)
    return "OK"


async def _append(
    request: Request, producer: Producer, topic: Topic, partition: int, row: Row
) -> Written:
    # The lock of the transactional id makes this the only writer of the producer.
    known = log_of(topic, partition).active_producer(producer.producer_id)
    last = _NO_SEQUENCE
    if known is not None and known[_EPOCH] == producer.producer_epoch:
        last = known[_LAST_SEQUENCE]
    batches = _batch(request, producer, topic, row, (last + 1) % _SEQUENCES)
    return await write_batches(request.broker, topic, partition, batches)


async def _batch(
    request: Request, producer: Producer, topic: Topic, row: Row, sequence: int
) -> AsyncIterator[bytes]:
    """Yield the batch of one message."""
    try:
        [batch] = encode(
            [row],
            batch_bytes_max=batch_bytes_max(topic),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
            timestamp_ms=request.broker.clock.wall_ms(),
        )
    except LimitExceeded as error:
        raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    yield batch


async def _add(request: Request, holder: Holder, place: TopicPartition, code: str) -> None:
    """Add a partition to the transaction, before the first write to it."""
    error = await request.broker.transactions.add(AddRequest(holder.producer, (place,)))
    if error is ErrorCode.PRODUCER_FENCED:  # not fenced a moment ago: the transaction timed out
        raise aborted(holder.name)
    if error is not ErrorCode.NONE:
        raise refusal_of(error, holder.name, code)


async def send_offsets(request: Request) -> str:
    """Add offsets of a group's member to a transaction."""
    command = request.command
    name = name_of(request)
    topic = request.topic()
    group = command.need("group")
    async with request.state.transactions.lock(name):
        holder = await holder_of(request, name, _OFFSETS_FAILED)
        member = command.need("member")
        scope = Scope(topic.name, group, member, generation_of(command))
        offsets = await _offsets(command, topic, group)
        staged = _open(holder, _OFFSETS_FAILED)
        is_unfinished = request.broker.transactions.is_unfinished
        pending = request.state.transactions.pending(scope, is_unfinished)
        _check_scope(staged, scope, offsets, pending)
        call = members.call_of(topic, group, member, scope.generation)
        await request.groups()
        await members.check(request.session, None, call)
        place = request.broker.transactions.offsets_partition(group)
        if not request.broker.transactions.has(holder.producer, place):
            await _add(request, holder, place, _OFFSETS_FAILED)
        before = staged.scope, staged.offsets
        staged.scope, staged.offsets = scope, staged.offsets | offsets
        # Set before the commit: the client may be gone by the time it returns.
        try:
            await members.commit(request, call, tuple(offsets.items()), holder.producer)
        except RefusedError:
            staged.scope, staged.offsets = before
            raise
        except RequestError as error:
            if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
                raise aborted(name) from error  # by its timeout, since the check above
            raise of_request(error, address_of(request.session), _OFFSETS_FAILED) from error
    return f"OK transactional_id={name} staged_offsets={len(offsets)}"


async def _offsets(command: Command, topic: Topic, group: str) -> dict[int, int]:
    payload = command.payload.removeprefix(_OFFSETS)
    try:
        return await entries(command._replace(payload=payload), topic, group)
    except RefusedError as error:
        text = f"{error.code} {error.rest}".strip()
        raise RefusedError("invalid_txn_offsets", detail=text) from None


def _check_scope(
    staged: Staged, scope: Scope, offsets: dict[int, int], pending: dict[int, int]
) -> None:
    """Raise RefusedError if the transaction has another member's offsets, or one is lowered."""
    before = staged.scope
    if before is not None and before != scope:
        text = (
            f"the transaction has offsets of topic={before.topic} group={before.group}"
            f" member={before.member} generation={before.generation}"
        )
        raise RefusedError(_OFFSETS_FAILED, detail=text)
    for partition, offset in offsets.items():
        current = pending.get(partition, 0)
        if offset < current:
            raise members.regression(scope.group, scope.topic, partition, current, offset)
