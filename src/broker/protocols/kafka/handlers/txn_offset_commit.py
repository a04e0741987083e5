"""TxnOffsetCommit, v0-5. v2 leader epoch; v3 flexible, member and generation (KIP-447).

v4 TRANSACTION_ABORTABLE; v5 adds the group to the transaction implicitly (KIP-890), before v5
AddOffsetsToTxn must precede. The offsets are pending until the transaction is committed.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.groups.commands.offsets import CommitRequest, CommitResponse, OffsetToCommit
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.transactions.commands import Producer
from broker.core.transactions.records import TopicPartition
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import (
    NAMES_READ_PER_STEP,
    OFFSETS_COMMITTED_PER_STEP,
    PARTITIONS_ANSWERED_PER_STEP,
)
from broker.protocols.kafka import transactions
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.offsets import Offsets
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.codec import bodies

_ABORTABLE_SINCE = 4
_IMPLICIT_SINCE = 5


async def handle(
    request: "Request[bodies.TxnOffsetCommitRequest]", session: Session
) -> "bodies.TxnOffsetCommitResponse":
    """Commit offsets of existing partitions; the others get an error each."""
    body = request.body
    try:
        kind = ResourceType.TRANSACTIONAL_ID
        access.check(session, Operation.WRITE, kind, body["transactional_id"])
        access.check_group(session, Operation.READ, body["group_id"])
    except RequestError as error:
        return {"topics": await Offsets.refused(body["topics"], error)}
    offsets = Offsets()
    reading = offsets.read(body["topics"], session)
    async for _ in in_steps(reading, PARTITIONS_ANSWERED_PER_STEP):
        pass
    if offsets.to_commit:
        codes = await _commit(request, session, offsets.to_commit)
        async for _ in in_steps(offsets.answer(codes), NAMES_READ_PER_STEP):
            pass
    return {"topics": offsets.topics}


async def _commit(
    request: "Request[bodies.TxnOffsetCommitRequest]",
    session: Session,
    offsets: list[OffsetToCommit],
) -> list[ErrorCode]:
    """Commit offsets in parts; parts after the end of the transaction are refused."""
    body = request.body
    producer = Producer(body["transactional_id"], body["producer_id"], body["producer_epoch"])
    if not body["group_id"]:
        return [ErrorCode.INVALID_GROUP_ID] * len(offsets)
    try:
        place = await transactions.offsets_partition(session, body["group_id"])
    except RequestError as error:
        return [error.code] * len(offsets)
    if not session.broker.groups.coordinates(body["group_id"]):
        return [ErrorCode.NOT_COORDINATOR] * len(offsets)
    error_code = await _admission(request, session, producer, place)
    if error_code is not ErrorCode.NONE:
        return [error_code] * len(offsets)
    committing: list[Awaitable[CommitResponse]] = []
    begun = 0
    async for part in in_parts(offsets, OFFSETS_COMMITTED_PER_STEP):
        if not session.broker.transactions.is_admitted(producer, place):
            break  # It ended while this waited.
        begun += len(part)
        command = CommitRequest(
            group_id=body["group_id"],
            member_id=body["member_id"],
            instance_id=body["group_instance_id"],
            generation=body["generation_id_or_member_epoch"],
            offsets=tuple(part),
            transaction=(producer.producer_id, producer.producer_epoch),
        )
        committing.append(session.broker.groups.commit_offsets(command))
    codes = [code for each in committing for code in (await each).errors]
    return codes + [ErrorCode.CONCURRENT_TRANSACTIONS] * (len(offsets) - begun)


async def _admission(
    request: "Request[bodies.TxnOffsetCommitRequest]",
    session: Session,
    producer: Producer,
    place: TopicPartition,
) -> ErrorCode:
    """Add the group to the transaction if necessary; return the error if it may not be."""
    coordinator = session.broker.transactions
    adds_implicitly = request.version >= _IMPLICIT_SINCE
    codes = await coordinator.admit(*producer, [place], adds_implicitly=adds_implicitly)
    code = codes[place]
    if code is ErrorCode.NETWORK_EXCEPTION:
        # The transaction's coordinator cannot be reached. After this error clients repeat the
        # request and keep the group's coordinator, as after Kafka's.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return transactions.abortable(code, supports_abortable=request.version >= _ABORTABLE_SINCE)


API = Api(
    28,
    "TxnOffsetCommit",
    range(6),
    handle,
    (
        *on_each(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        *on_each(Operation.READ, ResourceType.GROUP, ResourceType.TOPIC),
    ),
)
