"""JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT: members of a group that the broker assigns at once."""

from typing import Final

from broker.core.groups.assigned.commands import (
    AssignedCall,
    AssignedCommit,
    AssignedError,
    AssignedJoin,
    AssignedProtocol,
    AssignedResponse,
    Assignor,
)
from broker.core.topic_rules import check_name
from broker.protocols.v1.commands import Request, integer, name, numbers
from broker.protocols.v1.errors import RefusedError, bad_request, of_group
from broker.protocols.v1.topics import groups_of, partition_count

_ASSIGNORS: Final = {f"assignor={each.value}": each for each in Assignor}


async def join(request: Request) -> str:
    """Become a member, or hear again what one has."""
    group, topic, member, *rest = request.args
    assignor = _ASSIGNORS.get(rest[0].lower()) if rest else None
    if rest and assignor is None:
        raise bad_request("invalid assignor; expected assignor=round_robin|range")
    check_name(topic)
    command = AssignedJoin(
        AssignedProtocol.V1,
        name(group, "group"),
        topic,
        name(member, "consumer_id"),
        partition_count(request, topic),
        assignor,
        client_host=request.session.java_host,
    )
    groups = await groups_of(request)
    return _assignment(_checked(await groups.assigned_join(command)))


async def sync(request: Request) -> str:
    """What a member of the current generation has been assigned."""
    call = _call(request)
    groups = await groups_of(request)
    return _assignment(_checked(await groups.assigned_sync(call)))


async def heartbeat(request: Request) -> str:
    """A member is alive."""
    call = _call(request)
    groups = await groups_of(request)
    _checked(await groups.assigned_heartbeat(call))
    return "heartbeat=ok"


async def leave(request: Request) -> str:
    """A member goes, and the others share what it had."""
    call = _call(request)
    groups = await groups_of(request)
    _checked(await groups.assigned_leave(call))
    return "left=true"


async def commit(request: Request) -> str:
    """A member says which record of a partition of its own it will read next."""
    call = _call(request)
    partition = integer(request.args[4], "partition")
    offset = integer(request.args[5], "offset")
    if offset < 0:
        raise bad_request("invalid offset")
    groups = await groups_of(request)
    _checked(await groups.assigned_commit(AssignedCommit(call, partition, offset)))
    return "committed=true"


def _call(request: Request) -> AssignedCall:
    group, topic, member, generation, *_ = request.args
    return AssignedCall(
        AssignedProtocol.V1,
        name(group, "group"),
        topic,
        member,
        integer(generation, "generation"),
        partition_count(request, topic),
    )


def _checked(response: AssignedResponse) -> AssignedResponse:
    if response.error is not AssignedError.NONE:
        raise RefusedError(of_group(response.error))
    return response


def _assignment(response: AssignedResponse) -> str:
    return f"generation={response.generation} assigned={numbers(response.partitions)}"
