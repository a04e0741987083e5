"""AlterReplicaLogDirs, v0-2. v2 flexible (KIP-113).

A partition stays in its directory: a "move" to it changes nothing, a move to another one that this
broker has is refused, and other directories are not found. As in Kafka the directory is checked
before the partition.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.partitions import topics_of

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.AlterReplicaLogDirsRequest]", session: Session
) -> "bodies.AlterReplicaLogDirsResponse":
    """Return a result for each partition; none is moved."""
    refusal = ErrorCode.NONE
    try:
        access.check_cluster(session, Operation.ALTER)
    except RequestError as error:
        refusal = error.code
    own = {str(path) for path in session.broker.directories}
    results: dict[str, list[bodies.AlterReplicaLogDirsResponsePartition]] = {}
    named = (
        (directory["path"], topic["name"], partition)
        for directory in request.body["dirs"]
        for topic in directory["topics"]
        for partition in topic["partitions"] or (None,)
    )
    async for path, name, partition in in_steps(named, PARTITIONS_ANSWERED_PER_STEP):
        answers = results.setdefault(name, [])
        if partition is not None:
            code = refusal
            if refusal is ErrorCode.NONE:
                is_own = path in own
                code = (
                    _error(session, name, partition, path if len(own) > 1 else None)
                    if is_own
                    else ErrorCode.LOG_DIR_NOT_FOUND
                )
            answers.append({"partition_index": partition, "error_code": errors.number(code)})
    return {
        "results": await topics_of(
            results, lambda name, its: {"topic_name": name, "partitions": its}
        )
    }


def _error(session: Session, name: str, partition: int, path: str | None) -> ErrorCode:
    """Return the error of a move; `path` None: this broker has one directory."""
    topic = session.broker.topics.get(name)
    log = None if topic is None else topic.held_log(partition)
    if log is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_there = path is None or log.folder.rpartition("/")[0] == path
    return ErrorCode.NONE if is_there else ErrorCode.INVALID_REQUEST


API = Api(
    34,
    "AlterReplicaLogDirs",
    range(3),
    handle,
    on_each(Operation.ALTER, ResourceType.CLUSTER),
    lambda _: {"results": []},
)
