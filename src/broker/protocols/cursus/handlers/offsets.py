"""FETCH_OFFSET and COMMIT: how far a group has read, without being one of its members.

Offsets are the next to be read, as everywhere. Through this door they only rise.
"""

from typing import Final

from broker.core.groups.commands import FetchOffsetsRequest
from broker.core.topic import Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import CURSUS_TRANSACTION_END_WAIT_MS
from broker.protocols.cursus import members
from broker.protocols.cursus.errors import refused
from broker.protocols.cursus.grammar import integer, partition_of
from broker.protocols.cursus.members import groups_of
from broker.protocols.cursus.requests import Request

_INT64_MAX: Final = (1 << 63) - 1
# What a group, topic or partition that cannot be is told: nobody has committed there.
_NOWHERE: Final = (ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND)


def offset_of(text: str) -> int | None:
    """An offset that can be committed, None for what is none."""
    offset = integer(text)
    return offset if offset is not None and 0 <= offset <= _INT64_MAX else None


async def fetch(request: Request) -> str:
    """The next offset that a group will read; 0 where nothing was committed."""
    command = request.command
    topic = request.topic()
    partition = partition_of(command)
    group = command.need("group")
    check_partition(topic, partition)
    offset = await committed_offset(request, group, topic.name, partition)
    return f"OK offset={0 if offset is None else offset}"


async def commit(request: Request) -> str:
    """Say how far a group has read, whoever its members are."""
    command = request.command
    topic = request.topic()
    group = command.need("group")
    partition = partition_of(command)
    offset = offset_of(command.need("offset"))
    if offset is None:
        raise refused("invalid_offset", command=command.keyword)
    check_partition(topic, partition)
    call = members.call_of(topic, group, "", None)
    await members.commit(request.broker, call, ((partition, offset),))
    return "OK"


async def committed_offset(request: Request, group: str, topic: str, partition: int) -> int | None:
    """What a group has committed of a partition, None for nothing.

    Who begins there begins behind every commit that was allowed before, also one in a transaction
    that is decided and has not come there yet; RequestError when that takes too long.
    """
    broker = request.broker
    wanted = FetchOffsetsRequest(group, {topic: (partition,)}, requires_stable=True)
    groups = await groups_of(broker)
    await request.memory.transactions.commits_are_asked_for(group)
    response = await groups.fetch_offsets(wanted)
    if response.unstable:
        place = broker.transactions.offsets_partition(group)
        wait_ms = CURSUS_TRANSACTION_END_WAIT_MS
        if not await broker.transactions.wait_for_commits(place, wait_ms):
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response = await groups.fetch_offsets(wanted)
    if response.error is not ErrorCode.NONE and response.error not in _NOWHERE:
        raise RequestError(response.error)
    committed = response.topics.get(topic, {}).get(partition)
    return None if committed is None else committed.offset


def check_partition(topic: Topic, partition: int) -> None:
    """Refuse a partition that a topic does not have."""
    if partition >= topic.partition_count:
        raise refused("partition_not_found", partition=partition)
