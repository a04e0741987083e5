"""FETCH_OFFSET and COMMIT_OFFSET, which take a pattern for members that read one with CONSUME.

A record does not say its topic, so such a reader has one offset for all topics that match.

    FETCH_OFFSET     the lowest offset that the group has committed in them: a CONSUME from there
                     continues in each of them where the group has committed
    COMMIT_OFFSET    after the last record that CONSUME has returned on this connection: everything
                     that it has returned, topic by topic

The member's group is bound to one of the topics, whose commit is checked as any other. What other
brokers lead is not committed: it is read again.
"""

import json
from typing import Final

from broker.core.forwarding import coordinator_to_ask
from broker.core.groups.commands.assigned import AssignedCall, AssignedProtocol, AssignedResponse
from broker.core.scheduling.steps import in_steps
from broker.core.topics.topic import Topic
from broker.model.limits import NAMES_READ_PER_STEP
from broker.protocols.cursus import members
from broker.protocols.cursus.errors import RefusedError, checked
from broker.protocols.cursus.forwarding import ask
from broker.protocols.cursus.grammar import generation_of, is_pattern, offset_of, partition_of
from broker.protocols.cursus.handlers import commits, offsets
from broker.protocols.cursus.handlers.consume import matching
from broker.protocols.cursus.requests import Request, find_topic

_NOT_READ: Final = "it commits what the last CONSUME of it on this connection has returned"


async def fetch(request: Request) -> str:
    """Return the lowest committed offset of the topics that match, 0 if one of them has none."""
    command = request.command
    pattern = command.need("topic")
    if not is_pattern(pattern):
        return await offsets.fetch(request)
    partition, group = partition_of(command), command.need("group")
    lowest: int | None = None
    found = [each for each in await matching(request, pattern) if each.has_partition(partition)]
    if not found:
        raise RefusedError("topic_not_found", topic=pattern)
    async for topic in in_steps(found, NAMES_READ_PER_STEP):
        offset = await offsets.committed_offset(request, group, topic.name, partition) or 0
        lowest = offset if lowest is None else min(lowest, offset)
        if lowest == 0:
            break
    return f"OK offset={lowest}"


async def commit(request: Request) -> str:
    """Commit an offset; for a pattern, all that the last CONSUME has returned."""
    command = request.command
    pattern = command.need("topic")
    if not is_pattern(pattern):
        return await commits.commit(request)
    partition, group = partition_of(command), command.need("group")
    read, offset = request.connection.pattern_read, offset_of(command)
    generation, member = generation_of(command), command.need("member")
    if read is None or read.asked != (pattern, partition, group):
        raise RefusedError("topic_not_found", topic=pattern, detail=_NOT_READ)
    if read.end not in {None, offset}:
        raise RefusedError("invalid_offset", detail=f"{_NOT_READ}, up to offset {read.end}")
    topic = await _topic_of(request, pattern, group, partition)
    call = members.call_of(topic, group, member, generation)
    # Its own topic first: it is checked, the commits of the others are not.
    positions = dict(read.positions)
    if topic.name in positions:
        await _commit(request, call, partition, positions.pop(topic.name))
    else:
        await members.check(request.session, None, call)
    async for name, position in in_steps(positions.items(), 1):
        other = request.broker.topics.get(name)
        if other is not None:  # it may have been deleted meanwhile
            unfenced = members.call_of(other, group, "", None)
            await _commit(request, unfenced, partition, position)
    return "OK"


async def _topic_of(request: Request, pattern: str, group: str, partition: int) -> Topic:
    """Return the topic that a group is bound to, which must be one of the pattern."""
    session = request.session
    groups = await request.groups()
    coordinator = coordinator_to_ask(session, group)
    if coordinator is None:
        call = AssignedCall(AssignedProtocol.CURSUS, group, pattern, "", None, 0)
        status = await groups.assigned_status(call)
        checked(AssignedResponse(status.error), call)
        name = status.topic
    else:
        name = json.loads(await ask(session, coordinator, f"GROUP_STATUS group={group}"))[
            "topic_name"
        ]
    topic = find_topic(request.broker, name)
    if topic not in await matching(request, pattern) or not topic.has_partition(partition):
        raise RefusedError("topic_not_assigned_to_group", expected=name, actual=pattern)
    return topic


async def _commit(request: Request, call: AssignedCall, partition: int, offset: int) -> None:
    coordinator = coordinator_to_ask(request.session, call.group_id)
    if coordinator is None:
        await members.commit(request, call, ((partition, offset),))
        return
    place = f"topic={call.topic} partition={partition} group={call.group_id} offset={offset}"
    member = f" generation={call.generation} member={call.member_id}"
    keyword = "COMMIT_OFFSET" if call.member_id else "COMMIT"
    await ask(request.session, coordinator, f"{keyword} {place}{member if call.member_id else ''}")
