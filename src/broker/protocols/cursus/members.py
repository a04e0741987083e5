"""Members of groups in Cursus's words: what core is asked, and what its refusals are called."""

from typing import Final

from broker.core.broker import Broker
from broker.core.groups.assigned.commands import (
    AssignedCall,
    AssignedCommits,
    AssignedError,
    AssignedProtocol,
    AssignedResponse,
)
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.topic import Topic
from broker.core.transactions.commands import Producer
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.cursus.errors import RefusedError, quoted, reason, refused
from broker.protocols.cursus.grammar import Command, integer

_INT32_MAX: Final = (1 << 31) - 1
# A CONSUME is checked if its group has that member.
_UNFENCED: Final = (
    AssignedError.GROUP_NOT_FOUND,
    AssignedError.OTHER_TOPIC,
    AssignedError.UNKNOWN_MEMBER,
)
_PASSING: Final = {
    AssignedError.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    AssignedError.UNAVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


async def groups_of(broker: Broker) -> GroupCoordinator:
    """The coordinator of every group; whoever comes first has the topic made that they live in."""
    try:
        await broker.topics.offsets_topic()
    except RequestError as error:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
    return broker.groups


def generation_of(command: Command) -> int:
    """The generation that a command names, which it must."""
    number = integer(command.need("generation"))
    if number is None or not 0 <= number <= _INT32_MAX:
        raise refused("invalid_generation", command=command.keyword)
    return number


def call_of(topic: Topic, group: str, member: str, generation: int | None) -> AssignedCall:
    """What a member asks of its group."""
    return AssignedCall(
        AssignedProtocol.CURSUS, group, topic.name, member, generation, topic.partition_count
    )


def checked(response: AssignedResponse, call: AssignedCall) -> AssignedResponse:
    """An answer without an error; RefusedError and RequestError say what is wrong."""
    if response.error is not AssignedError.NONE:
        raise _refusal(response, call)
    return response


def _refusal(response: AssignedResponse, call: AssignedCall) -> Exception:
    error = response.error
    if error in _PASSING:
        return RequestError(_PASSING[error])
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
    """What is wrong with more than a member."""
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
    """An offset is lower than what was committed."""
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
    """Commit some partitions together; RefusedError and RequestError say why none is.

    In a producer's transaction they count with it; CONCURRENT_TRANSACTIONS: it has ended.
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
    """Refuse a reader of an old generation; one that is no member of the group may read: False."""
    topic = broker.topics.get(name)
    if topic is None:
        return False  # a pattern, of which no group is
    call = call_of(topic, group, member, generation)
    response = await (await groups_of(broker)).assigned_check(call)
    if response.error in _UNFENCED:
        return False
    checked(response, call)
    return True


async def check_member(call: AssignedCall, groups: GroupCoordinator) -> None:
    """Refuse one that was a member of this generation and may not be any more."""
    checked(await groups.assigned_check(call), call)
