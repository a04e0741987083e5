"""Members of groups: the calls of the group coordinator."""

from typing import TYPE_CHECKING, Final

from broker.core.forwarding import coordinator_to_ask
from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommits,
    AssignedError,
    AssignedProtocol,
)
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.session import Session
from broker.core.topics.topic import Topic
from broker.core.transactions.commands import Producer
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.cursus.errors import RefusedError, checked
from broker.protocols.cursus.forwarding import ask, ask_apart
from broker.protocols.cursus.reads import Read
from broker.protocols.cursus.requests import Request

if TYPE_CHECKING:
    from broker.core.links import Upstreams

# A CONSUME or STREAM with these errors is served without a member.
_UNFENCED: Final = ("group_not_found", "topic_not_assigned_to_group", "member_not_found")


def call_of(topic: Topic, group: str, member: str, generation: int | None) -> AssignedCall:
    """Return the arguments of a member's call to its group."""
    return AssignedCall(
        AssignedProtocol.CURSUS, group, topic.name, member, generation, topic.partition_count
    )


def regression(group: str, topic: str, partition: int, current: int, got: int) -> RefusedError:
    """Return the error for a commit below the committed offset."""
    text = (
        f"offset regression group={group} topic={topic} partition={partition}"
        f" current={current} got={got}"
    )
    return RefusedError("offset_regression", detail=text)


async def commit(
    request: Request,
    call: AssignedCall,
    offsets: tuple[tuple[int, int], ...],
    producer: Producer | None = None,
) -> None:
    """Commit offsets of several partitions together, in `producer`'s transaction if there is one.

    Raises:
        RefusedError, RequestError: none was committed. CONCURRENT_TRANSACTIONS: the producer's
            transaction has ended.
    """
    transaction = coordinator = None
    groups = await request.groups(call.group_id if producer is None else None)
    if producer is not None:
        coordinator = coordinator_to_ask(request.session, call.group_id)
        # Nothing is awaited between this and the append.
        transactions = request.broker.transactions
        if not transactions.has(producer, transactions.offsets_partition(call.group_id)):
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
        transaction = (producer.producer_id, producer.producer_epoch)
    if coordinator is not None and transaction is not None:
        await _stage_elsewhere(request, coordinator, call, offsets, transaction)
        return
    await commit_here(groups, call, offsets, transaction)


async def _stage_elsewhere(
    request: Request,
    coordinator: int,
    call: AssignedCall,
    offsets: tuple[tuple[int, int], ...],
    transaction: tuple[int, int],
) -> None:
    producer_id, epoch = transaction
    payload = ",".join(f"P{partition}:{offset}" for partition, offset in offsets)
    await ask(
        request.session,
        coordinator,
        f"STAGE_OFFSETS {_arguments(call)} producerId={producer_id} epoch={epoch} {payload}",
    )


def _arguments(call: AssignedCall) -> str:
    return (
        f"topic={call.topic} group={call.group_id} member={call.member_id}"
        f" generation={call.generation}"
    )


async def commit_here(
    groups: GroupCoordinator,
    call: AssignedCall,
    offsets: tuple[tuple[int, int], ...],
    transaction: tuple[int, int] | None,
) -> None:
    """Commit offsets of a group whose coordinator is this broker; raises as `commit` does."""
    response = await groups.assigned_commit_all(AssignedCommits(call, offsets, transaction))
    if response.error is AssignedError.OFFSET_REGRESSION:
        got = dict(offsets)[response.partition]
        raise regression(call.group_id, call.topic, response.partition, response.committed, got)
    checked(response, call)


async def check(session: Session, upstreams: "Upstreams | None", call: AssignedCall) -> None:
    """Check that a member is of the group's present generation, wherever the coordinator is.

    With `upstreams`, links of their own are used. Raises RefusedError, RequestError.
    """
    coordinator = coordinator_to_ask(session, call.group_id)
    if coordinator is None:
        checked(await session.broker.groups.assigned_check(call), call)
    elif upstreams is None:
        await ask(session, coordinator, f"CHECK_MEMBER {_arguments(call)}")
    else:
        await ask_apart(upstreams, session, coordinator, f"CHECK_MEMBER {_arguments(call)}")


async def find_reader(request: Request, topic: Topic, read: Read) -> AssignedCall | None:
    """Return the call that checks a reader's membership; None for a reader that is not a member.

    Raises:
        RefusedError: it is a member of an older generation.
        RequestError: of the coordinator.
    """
    if not read.member:
        return None
    call = call_of(topic, read.group, read.member, read.generation)
    await request.groups()
    try:
        await check(request.session, None, call)
    except RefusedError as error:
        if error.code in _UNFENCED:
            return None
        raise
    return call
