"""OFFSET: a group's committed offset of a partition, whichever protocol committed it."""

from typing import Final

from broker.core.groups.commands.offsets import FetchOffsetsRequest
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.v1.commands import Request, integer, name
from broker.protocols.v1.topics import groups_of

_NOT_COMMITTED: Final = 0
# Groups that cannot exist or do not exist have committed nothing, which is not an error.
_NO_GROUP: Final = (ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND)


async def handle(request: Request) -> str:
    """Return the next offset to read; 0 if none was committed, which is not an error."""
    group, topic, partition_text = request.args
    partition = integer(partition_text, "partition")
    wanted = FetchOffsetsRequest(name(group, "group"), {topic: (partition,)})
    groups = await groups_of(request, group)
    response = await groups.fetch_offsets(wanted)
    if response.error is not ErrorCode.NONE and response.error not in _NO_GROUP:
        raise RequestError(response.error)
    committed = response.topics.get(topic, {}).get(partition)
    return f"offset={_NOT_COMMITTED if committed is None else committed.offset}"
