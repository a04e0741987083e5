"""FETCH_OFFSET and COMMIT: a group's committed offsets, for clients that are not its members.

A committed offset is the next one to read, as in Kafka. A commit of this protocol cannot lower it.
"""

from typing import Final

from broker.core.forwarding import coordinator_to_ask
from broker.core.groups.commands.offsets import FetchOffsetsRequest
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import CURSUS_TRANSACTION_END_WAIT_MS
from broker.protocols.cursus import members
from broker.protocols.cursus.forwarding import ask
from broker.protocols.cursus.grammar import offset_of, partition_of
from broker.protocols.cursus.requests import Request, check_partition

# Groups that cannot exist or do not exist have committed nothing, which is not an error.
_NO_GROUP: Final = (ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND)


async def fetch(request: Request) -> str:
    """Return the group's committed offset, 0 if there is none."""
    command = request.command
    topic = request.topic()
    partition = partition_of(command)
    group = command.need("group")
    check_partition(topic, partition)
    await request.groups(group)
    offset = await committed_offset(request, group, topic.name, partition)
    return f"OK offset={0 if offset is None else offset}"


async def commit(request: Request) -> str:
    """Commit an offset of a group without being its member."""
    command = request.command
    topic = request.topic()
    group = command.need("group")
    partition = partition_of(command)
    offset = offset_of(command)
    check_partition(topic, partition)
    call = members.call_of(topic, group, "", None)
    await members.commit(request, call, ((partition, offset),))
    return "OK"


async def committed_offset(request: Request, group: str, topic: str, partition: int) -> int | None:
    """Return a group's committed offset of a partition, None if there is none.

    If another broker is the group's coordinator, it is asked. Commits of transactions that are
    decided but not written to the group yet are waited for, so that a reader does not start before
    them.

    Raises:
        RequestError: COORDINATOR_NOT_AVAILABLE, that takes longer than
            CURSUS_TRANSACTION_END_WAIT_MS; or another error of the coordinator.
    """
    broker = request.broker
    groups = await request.groups()
    coordinator = coordinator_to_ask(request.session, group)
    if coordinator is not None:
        command = f"COMMITTED_OFFSET topic={topic} partition={partition} group={group}"
        answer = await ask(request.session, coordinator, command)
        found = int(answer.rpartition("=")[2])
        return None if found < 0 else found
    wanted = FetchOffsetsRequest(group, {topic: (partition,)}, requires_stable=True)
    await request.state.transactions.wait_for_commit_requests(group)
    response = await groups.fetch_offsets(wanted)
    if response.unstable:
        place = broker.transactions.offsets_partition(group)
        wait_ms = CURSUS_TRANSACTION_END_WAIT_MS
        if not await broker.transactions.wait_for_commits(place, wait_ms):
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response = await groups.fetch_offsets(wanted)
    if response.error is not ErrorCode.NONE and response.error not in _NO_GROUP:
        raise RequestError(response.error)
    committed = response.topics.get(topic, {}).get(partition)
    return None if committed is None else committed.offset
