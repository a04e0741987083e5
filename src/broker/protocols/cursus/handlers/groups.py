"""JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP, and the status of groups.

A member that joins is assigned its partitions at once. The next commands of the other members are
answered with GEN_MISMATCH, and they join again. core/groups/assigned/rejoining.py decides which
member a client is that joins again.
"""

import json
from datetime import UTC, datetime
from typing import Final

from broker.core import access
from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedError,
    AssignedJoin,
    AssignedProtocol,
    AssignedResponse,
    AssignedStatus,
)
from broker.core.groups.commands.listing import ListGroupsRequest
from broker.core.scheduling.steps import ascending, in_parts, in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode
from broker.model.limits import NAMES_READ_PER_STEP
from broker.protocols.cursus import permissions
from broker.protocols.cursus.errors import checked
from broker.protocols.cursus.forwarding import groups_elsewhere
from broker.protocols.cursus.grammar import generation_of
from broker.protocols.cursus.members import call_of
from broker.protocols.cursus.reads import DEFAULT_GROUP
from broker.protocols.cursus.requests import Request

_COMPACT: Final = (",", ":")


async def register(request: Request) -> str:
    """Check that a group may read a topic; the first JOIN_GROUP binds it to the topic."""
    command = request.command
    topic = request.topic()
    group = command.need("group")
    await _check_topic(request, topic, group)
    return f"OK group={group} topic={topic.name} registered=true"


async def subscribe(request: Request) -> str:
    """Do as `register`, under the document's name; the group is optional in positional form."""
    command = request.command
    topic = request.topic()
    group = command.get("group")
    if not group:
        group = DEFAULT_GROUP if command.is_positional else command.need("group")
    permissions.check_read(request.session, command.keyword, topic.name, group)
    await _check_topic(request, topic, group)
    return f"OK topic={topic.name} group={group} subscribed=true"


async def _check_topic(request: Request, topic: Topic, group: str) -> None:
    """Raise RefusedError if the group has live members that read another topic."""
    call = call_of(topic, group, "", None)
    found = await (await request.groups(group)).assigned_status(call)
    error = found.error
    if error is AssignedError.GROUP_NOT_FOUND:
        return
    if error is AssignedError.NONE and found.members and found.topic != topic.name:
        error = AssignedError.OTHER_TOPIC
    checked(AssignedResponse(error, topic=found.topic), call)


async def join(request: Request) -> str:
    """Join a group as a new member, or again as the same member."""
    command = request.command
    topic = request.topic()
    call = call_of(topic, command.need("group"), command.need("member"), None)
    is_resumption = bool(command.get("generation"))
    if is_resumption:
        generation_of(command)
    wanted = AssignedJoin(
        AssignedProtocol.CURSUS,
        call.group_id,
        topic.name,
        call.member_id,
        topic.partition_count,
        suffix=request.state.member_suffix(),
        client_host=request.session.java_host,
    )
    response = checked(await (await request.groups(call.group_id)).assigned_join(wanted), call)
    # One client parses the response to its end, so a field is added only if it sent a generation.
    is_resumed = is_resumption and response.member_id == call.member_id
    return f"{_assignment(response)}{' resumed=true' if is_resumed else ''}"


async def sync(request: Request) -> str:
    """Return the assignment of a member of the current generation."""
    return _assignment(await _extend_session(request))


async def heartbeat(request: Request) -> str:
    """Extend a member's session."""
    response = await _extend_session(request)
    return f"OK member={response.member_id} generation={response.generation}"


async def leave(request: Request) -> str:
    """Remove a member; its partitions are assigned to the others."""
    command = request.command
    generation = generation_of(command) if command.get("generation") else None
    topic = request.topic()
    call = call_of(topic, command.need("group"), command.need("member"), generation)
    response = checked(await (await request.groups(call.group_id)).assigned_leave(call), call)
    return f"OK group={call.group_id} member={response.member_id} left=true"


async def _extend_session(request: Request) -> AssignedResponse:
    command = request.command
    topic = request.topic()
    group, member = command.need("group"), command.need("member")
    call = call_of(topic, group, member, generation_of(command))
    return checked(await (await request.groups(call.group_id)).assigned_sync(call), call)


def _assignment(response: AssignedResponse) -> str:
    partitions = " ".join(map(str, response.partitions))
    return (
        f"OK generation={response.generation} member={response.member_id}"
        f" assignments=[{partitions}]"
    )


async def status(request: Request) -> str:
    """Return a group with its live members, as JSON."""
    broker = request.broker
    group = request.command.need("group")
    groups = await request.groups(group)
    # Only protocol and group matter here; the response has the group's topic.
    call = AssignedCall(AssignedProtocol.CURSUS, group, "", "", None, 0)
    found = await groups.assigned_status(call)
    checked(AssignedResponse(found.error), call)
    topic = broker.topics.get(found.topic)
    partitions = 0 if topic is None else topic.partition_count
    return json.dumps(_shown(group, found, partitions), separators=_COMPACT)


def _shown(group: str, found: AssignedStatus, partitions: int) -> dict[str, object]:
    return {
        "status": "OK",
        "group_name": group,
        "topic_name": found.topic,
        "state": "Stable" if found.members else "Dead",
        "generation": found.generation,
        "member_count": len(found.members),
        "partition_count": partitions,
        "members": [
            {
                "member_id": each.member_id,
                "last_heartbeat": _time(each.last_seen_ms),
                "assignments": list(each.partitions),
            }
            for each in found.members
        ],
        "last_rebalance": _time(found.rebalanced_ms),
    }


def _time(wall_ms: int) -> str:
    moment = datetime.fromtimestamp(wall_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ms % 1000:03}Z"


async def list_groups(request: Request) -> str:
    """Return the names of this protocol's groups, sorted."""
    groups = await request.groups()
    session = request.session
    sees_all = access.may_cluster(session, Operation.DESCRIBE)

    def may_see(group: str) -> bool:
        return sees_all or access.may(session, Operation.DESCRIBE, ResourceType.GROUP, group)

    found: list[str] = []
    for number in groups.within_reach():
        answer = await groups.list_groups(number, ListGroupsRequest())
        if answer.error is not ErrorCode.NONE:
            continue
        found += [
            each.group_id
            async for each in in_steps(answer.groups, NAMES_READ_PER_STEP)
            if each.protocol_type == AssignedProtocol.CURSUS.value
        ]
    found += await groups_elsewhere(request.session)
    per_step = access.per_step(session, NAMES_READ_PER_STEP)
    found = [each async for each in in_steps(found, per_step) if may_see(each)]
    names: list[str] = []
    async for part in in_parts(await ascending(found, NAMES_READ_PER_STEP), NAMES_READ_PER_STEP):
        names += part
    return f"OK count={len(names)} groups={','.join(names)}"
