"""Members of groups: the calls of the group coordinator, and the mapping of its errors."""

from typing import Final

from broker.core.broker import Broker
from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommits,
    AssignedError,
    AssignedProtocol,
    AssignedResponse,
)
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.topics.topic import Topic
from broker.core.transactions.commands import Producer
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.cursus.errors import RefusedError, quoted, reason, refused
from broker.protocols.cursus.grammar import Command, integer

_INT32_MAX: Final = (1 << 31) - 1
# A CONSUME or STREAM with these errors is served without a member.
_UNFENCED: Final = (
    AssignedError.GROUP_NOT_FOUND,
    AssignedError.OTHER_TOPIC,
    AssignedError.UNKNOWN_MEMBER,
)
_TRANSIENT: Final = {
    AssignedError.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    AssignedError.UNAVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


async def groups_of(broker: Broker) -> GroupCoordinator:
    """Return the coordinator of all groups; the first call creates `__consumer_offsets`.

    Raises:
        RequestError: COORDINATOR_NOT_AVAILABLE, the topic could not be created.
    """
    try:
        await broker.topics.offsets_topic()
    except RequestError as error:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
    return broker.groups


def generation_of(command: Command) -> int:
    """Return the command's generation, which is required."""
    number = integer(command.need("generation"))
    if number is None or not 0 <= number <= _INT32_MAX:
        raise refused("invalid_generation", command=command.keyword)
    return number


def call_of(topic: Topic, group: str, member: str, generation: int | None) -> AssignedCall:
    """Return the arguments of a member's call to its group."""
    return AssignedCall(
        AssignedProtocol.CURSUS, group, topic.name, member, generation, topic.partition_count
    )


def checked(response: AssignedResponse, call: AssignedCall) -> AssignedResponse:
    """Return the response if it is not an error; otherwise raise RefusedError or RequestError."""
    if response.error is not AssignedError.NONE:
        raise _refusal(response, call)
    return response


def _refusal(response: AssignedResponse, call: AssignedCall) -> Exception:
    error = response.error
    if error in _TRANSIENT:
        return RequestError(_TRANSIENT[error])
    if error is AssignedError.STALE_GENERATION:
        return refused(
            "GEN_MISMATCH",
            current=response.generation,
            requested=call.generation,
            group=call.group_id,
            member=call.member_id,
            reason="REBALANCE_REQUIRED",
        )
    if error is AssignedError.UNKNOWN_MEMBER:
        return refused("member_not_found", member=call.member_id, group=call.group_id)
    if error is AssignedError.NOT_ASSIGNED:
        return refused(
            "NOT_OWNER",
            partition=response.partition,
            member=call.member_id,
            group=call.group_id,
            generation=response.generation,
        )
    return _of_group(response, call)


def _of_group(response: AssignedResponse, call: AssignedCall) -> RefusedError:
    """Return the error of a group, as opposed to one of its members."""
    error = response.error
    if error is AssignedError.OTHER_TOPIC:
        return refused("topic_not_assigned_to_group", expected=response.topic, actual=call.topic)
    if error is AssignedError.OTHER_PROTOCOL:
        text = quoted("it has live members of another protocol")
        return refused("group_in_use", group=call.group_id, reason=text)
    if error is AssignedError.FULL:
        text = quoted("too many groups, or members in this one")
        return refused("group_full", group=call.group_id, reason=text)
    if error is AssignedError.INVALID_NAME:
        return reason("invalid_name", "a group, topic or member is too long, or no text")
    if error is AssignedError.OFFSET_REFUSED:
        return reason("command_failed", "the group has as many committed offsets as it may")
    return refused("group_not_found", group=call.group_id)


def regression(group: str, topic: str, partition: int, current: int, got: int) -> RefusedError:
    """Return the error for a commit below the committed offset."""
    text = (
        f"offset regression group={group} topic={topic} partition={partition}"
        f" current={current} got={got}"
    )
    return refused("offset_regression", reason=quoted(text))


async def commit(
    broker: Broker,
    call: AssignedCall,
    offsets: tuple[tuple[int, int], ...],
    producer: Producer | None = None,
) -> None:
    """Commit offsets of several partitions together, in `producer`'s transaction if there is one.

    Raises:
        RefusedError, RequestError: none was committed. CONCURRENT_TRANSACTIONS: the producer's
            transaction has ended.
    """
    groups = await groups_of(broker)
    transaction = None
    if producer is not None:
        # Nothing is awaited between this and the append.
        if not broker.transactions.has(
            producer, broker.transactions.offsets_partition(call.group_id)
        ):
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
        transaction = (producer.producer_id, producer.producer_epoch)
    response = await groups.assigned_commit_all(AssignedCommits(call, offsets, transaction))
    if response.error is AssignedError.OFFSET_REGRESSION:
        got = dict(offsets)[response.partition]
        raise regression(call.group_id, call.topic, response.partition, response.committed, got)
    checked(response, call)


async def check(broker: Broker, name: str, group: str, member: str, generation: int) -> bool:
    """Return whether a reader is a member of its group; readers that are not may read, too.

    Raises:
        RefusedError: it is a member of an older generation.
        RequestError: of the coordinator.
    """
    topic = broker.topics.get(name)
    if topic is None:
        return False  # a pattern, which groups cannot read
    call = call_of(topic, group, member, generation)
    response = await (await groups_of(broker)).assigned_check(call)
    if response.error in _UNFENCED:
        return False
    checked(response, call)
    return True


async def check_member(call: AssignedCall, groups: GroupCoordinator) -> None:
    """Raise RefusedError if the caller is not a member of its generation any more."""
    checked(await groups.assigned_check(call), call)
