"""Members of groups: the calls of the group coordinator."""

from typing import Final

from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommits,
    AssignedError,
    AssignedProtocol,
)
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.topics.topic import Topic
from broker.core.transactions.commands import Producer
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.cursus.errors import RefusedError, checked
from broker.protocols.cursus.reads import Read
from broker.protocols.cursus.requests import Request

# A CONSUME or STREAM with these errors is served without a member.
_UNFENCED: Final = (
    AssignedError.GROUP_NOT_FOUND,
    AssignedError.OTHER_TOPIC,
    AssignedError.UNKNOWN_MEMBER,
)


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
    groups = await request.groups()
    transaction = None
    if producer is not None:
        # Nothing is awaited between this and the append.
        transactions = request.broker.transactions
        if not transactions.has(producer, transactions.offsets_partition(call.group_id)):
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
        transaction = (producer.producer_id, producer.producer_epoch)
    response = await groups.assigned_commit_all(AssignedCommits(call, offsets, transaction))
    if response.error is AssignedError.OFFSET_REGRESSION:
        got = dict(offsets)[response.partition]
        raise regression(call.group_id, call.topic, response.partition, response.committed, got)
    checked(response, call)


async def find_reader(groups: GroupCoordinator, topic: Topic, read: Read) -> AssignedCall | None:
    """Return the call that checks a reader's membership; None for a reader that is not a member.

    Raises:
        RefusedError: it is a member of an older generation.
        RequestError: of the coordinator.
    """
    if not read.member:
        return None
    call = call_of(topic, read.group, read.member, read.generation)
    response = await groups.assigned_check(call)
    if response.error in _UNFENCED:
        return None
    checked(response, call)
    return call
