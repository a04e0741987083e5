"""Commands of other brokers; what they are for is in forwarding.py."""

from broker.protocols.cursus import members
from broker.protocols.cursus.forwarding import check_internal
from broker.protocols.cursus.grammar import generation_of, partition_of
from broker.protocols.cursus.handlers.offsets import committed_offset as committed
from broker.protocols.cursus.requests import Request


async def check_member(request: Request) -> str:
    """Check that a member is of the present generation."""
    check_internal(request)
    command = request.command
    group, member = command.need("group"), command.need("member")
    call = members.call_of(request.topic(), group, member, generation_of(command))
    await request.groups(group)
    await members.check(request.session, None, call)
    return "OK"


async def committed_offset(request: Request) -> str:
    """Return a group's committed offset, -1 if there is none."""
    check_internal(request)
    command = request.command
    topic, partition, group = request.topic(), partition_of(command), command.need("group")
    await request.groups(group)
    offset = await committed(request, group, topic.name, partition)
    return f"OK offset={-1 if offset is None else offset}"
