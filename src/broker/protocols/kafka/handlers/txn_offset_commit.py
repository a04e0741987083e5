"""TxnOffsetCommit, v0-5. v2 leader epoch; v3 flexible, member and generation (KIP-447).

v4 TRANSACTION_ABORTABLE; v5 adds the group to the transaction by committing (KIP-890), before it
AddOffsetsToTxn has to. The offsets count when the transaction is committed.
"""

from broker.core.groups.commands import CommitRequest, OffsetToCommit
from broker.core.lookup import topic_by_name
from broker.core.session import Session
from broker.core.transactions.commands import Producer
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import errors, transactions
from broker.protocols.kafka.api import Api, Fields, Request
from broker.protocols.kafka.handlers.offset_commit import offset_to_commit

_ABORTABLE_SINCE = 4
_IMPLICIT_SINCE = 5


async def handle(request: Request, session: Session) -> Fields:
    """Commit what belongs to existing partitions; the others get their own error."""
    answers: list[Fields] = []
    offsets: list[OffsetToCommit] = []
    committed: list[Fields] = []  # the answers to `offsets`
    for topic in request.body["topics"]:
        partitions = []
        for wanted in topic["partitions"]:
            answer = {"partition_index": wanted["partition_index"], "error_code": 0}
            partitions.append(answer)
            try:
                found = topic_by_name(session.broker.topics, topic["name"])
                offsets.append(offset_to_commit(found, wanted))
                committed.append(answer)
            except RequestError as error:
                answer["error_code"] = errors.number(error.code)
        answers.append({"name": topic["name"], "partitions": partitions})
    if offsets:
        codes = await _commit(request, session, tuple(offsets))
        for answer, code in zip(committed, codes, strict=True):
            answer["error_code"] = errors.number(code)
    return {"topics": answers}


async def _commit(
    request: Request, session: Session, offsets: tuple[OffsetToCommit, ...]
) -> tuple[ErrorCode, ...]:
    body = request.body
    producer = Producer(body["transactional_id"], body["producer_id"], body["producer_epoch"])
    command = CommitRequest(
        group_id=body["group_id"],
        member_id=body["member_id"],
        instance_id=body["group_instance_id"],
        generation=body["generation_id_or_member_epoch"],
        offsets=offsets,
        transaction=(producer.producer_id, producer.producer_epoch),
    )
    error = await _admission(request, session, producer)
    if error is not ErrorCode.NONE:
        return (error,) * len(offsets)
    response = await session.broker.groups.commit_offsets(command)
    return response.errors


async def _admission(request: Request, session: Session, producer: Producer) -> ErrorCode:
    """Why the producer's transaction may not commit this group's offsets."""
    group_id = request.body["group_id"]
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    try:
        place = await transactions.offsets_place(session, group_id)
    except RequestError as error:
        return error.code
    coordinator = session.broker.transactions
    adds_implicitly = request.version >= _IMPLICIT_SINCE
    codes = await coordinator.admit(*producer, [place], adds_implicitly=adds_implicitly)
    code = codes[place]
    if code is ErrorCode.NONE and not coordinator.has(producer, place):
        return ErrorCode.CONCURRENT_TRANSACTIONS  # It has ended while this waited.
    return transactions.abortable(code, knows_it=request.version >= _ABORTABLE_SINCE)


API = Api(28, "TxnOffsetCommit", range(6), handle)
