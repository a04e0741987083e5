"""COMMIT_OFFSET and BATCH_COMMIT: a member commits offsets of its assigned partitions.

Both need the member's generation. All offsets of a batch are committed, or none. A commit cannot
lower an offset, nor commit one below those in the member's open transactions: it would replace
them, and clients periodically commit offsets that they processed earlier.
"""

from typing import Final

from broker.core.scheduling.steps import in_steps
from broker.core.topics.topic import Topic
from broker.protocols.cursus import members
from broker.protocols.cursus.errors import RefusedError, checked, quoted
from broker.protocols.cursus.grammar import (
    OFFSETS,
    Command,
    generation_of,
    integer,
    offset_of,
    partition_of,
)
from broker.protocols.cursus.requests import Request, check_partition
from broker.protocols.cursus.staged import Scope

_ENTRIES_PER_STEP: Final = 1_000  # about 1 ms


async def commit(request: Request) -> str:
    """Commit the offset of one partition."""
    command = request.command
    topic = request.topic()
    partition = partition_of(command)
    group = command.need("group")
    offset = offset_of(command)
    await _commit(request, topic, group, ((partition, offset),))
    return "OK"


async def commit_batch(request: Request) -> str:
    """Commit the offsets of several partitions, given as `P0:3,P1:1` or `0:3,1:1`."""
    command = request.command
    topic = request.topic()
    group = command.need("group")
    command.need("member")
    offsets = await entries(command, topic, group)
    await _commit(request, topic, group, tuple(offsets.items()))
    return f"OK batched={len(offsets)}"


async def _commit(
    request: Request, topic: Topic, group: str, offsets: tuple[tuple[int, int], ...]
) -> None:
    command = request.command
    generation, member = generation_of(command), command.need("member")
    call = members.call_of(topic, group, member, generation)
    groups = await request.groups(group)
    scope = Scope(topic.name, group, member, generation)
    pending = request.state.transactions.pending(scope, request.broker.transactions.is_unfinished)
    for partition, offset in offsets:
        current = pending.get(partition, 0)
        if offset < current:
            checked(await groups.assigned_check(call), call)
            raise members.regression(group, topic.name, partition, current, offset)
    await members.commit(request, call, offsets)


async def entries(command: Command, topic: Topic, group: str) -> dict[int, int]:
    """Return the payload's offsets by partition; raise RefusedError at the first invalid entry."""
    if not command.payload:
        raise RefusedError("invalid_batch_commit_format")
    offsets: dict[int, int] = {}
    async for entry in in_steps(command.payload.split(","), _ENTRIES_PER_STEP):
        if not entry:
            continue
        number, colon, text = entry.partition(":")
        if not colon:
            raise RefusedError("invalid_batch_commit_entry", entry=quoted(entry))
        partition = integer(number.removeprefix("P"))
        if partition is None or partition < 0:
            raise RefusedError("invalid_partition", entry=quoted(entry))
        offset = integer(text)
        if offset is None or offset not in OFFSETS:
            raise RefusedError("invalid_offset", entry=quoted(entry))
        check_partition(topic, partition)
        if partition in offsets:
            raise RefusedError(
                "duplicate_partition", partition=partition, group=group, topic=topic.name
            )
        offsets[partition] = offset
    if not offsets:
        raise RefusedError("no_valid_offsets")
    return offsets
