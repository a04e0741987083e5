"""JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT: members of groups whose partitions the broker assigns."""

from typing import Final

from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommit,
    AssignedError,
    AssignedJoin,
    AssignedProtocol,
    AssignedResponse,
    Assignor,
)
from broker.core.topics.rules import check_name
from broker.protocols.v1.commands import Request, integer, name, numbers
from broker.protocols.v1.errors import RefusedError, bad_request, of_group
from broker.protocols.v1.topics import groups_of, partition_count

_ASSIGNORS: Final = {f"assignor={each.value}": each for each in Assignor}


async def join(request: Request) -> str:
    """Join a group and return the assignment; a member may join again."""
    group, topic, member, *rest = request.args
    assignor = _ASSIGNORS.get(rest[0].lower()) if rest else None
    if rest and assignor is None:
        raise bad_request("invalid assignor; expected assignor=round_robin|range")
    if request.session.broker.topics.get(topic) is None:
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
    groups = await groups_of(request, command.group_id)
    return _assignment(_checked(await groups.assigned_join(command)))


async def sync(request: Request) -> str:
    """Return the assignment of a member of the current generation."""
    call = _call(request)
    groups = await groups_of(request, call.group_id)
    return _assignment(_checked(await groups.assigned_sync(call)))


async def heartbeat(request: Request) -> str:
    """Extend a member's session."""
    call = _call(request)
    groups = await groups_of(request, call.group_id)
    _checked(await groups.assigned_sync(call))
    return "heartbeat=ok"


async def leave(request: Request) -> str:
    """Remove a member; its partitions are assigned to the others."""
    call = _call(request)
    groups = await groups_of(request, call.group_id)
    _checked(await groups.assigned_leave(call))
    return "left=true"


async def commit(request: Request) -> str:
    """Commit the next offset to read of a partition that is assigned to the member."""
    call = _call(request)
    partition = integer(request.args[4], "partition")
    offset = integer(request.args[5], "offset")
    if offset < 0:
        raise bad_request("invalid offset")
    groups = await groups_of(request, call.group_id)
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
