"""AlterReplicaLogDirs, v0-2. v2 flexible (KIP-113).

A partition that this broker leads or follows moves to another directory of it in the background; a
request for the directory where it is ends its move. As in Kafka the directory is checked before the
partition, and for a partition that this broker does not have yet the directory is remembered.
"""

from pathlib import Path
from typing import TYPE_CHECKING, cast

from broker.core import access
from broker.core.broker import Broker
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.partitions import topics_of
from broker.storage import move_names
from broker.storage.directories import Directories

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.AlterReplicaLogDirsRequest]", session: Session
) -> "bodies.AlterReplicaLogDirsResponse":
    """Return a result for each partition, when its move has begun."""
    refusal = ErrorCode.NONE
    try:
        access.check_cluster(session, Operation.ALTER)
    except RequestError as error:
        refusal = error.code
    directories = session.broker.directories
    known = {*directories, *directories.missing}
    results: dict[str, list[bodies.AlterReplicaLogDirsResponsePartition]] = {}
    named = (
        (path, topic["name"], partition)
        for directory in request.body["dirs"]
        for path in (Path(directory["path"]),)
        for topic in directory["topics"]
        for partition in topic["partitions"] or (None,)
    )
    async for path, name, partition in in_steps(named, PARTITIONS_ANSWERED_PER_STEP):
        answers = results.setdefault(name, [])
        if partition is not None:
            code = refusal
            if refusal is ErrorCode.NONE:
                code = (
                    await _move(session.broker, directories, name, partition, path)
                    if path in known
                    else _refusal(name, partition, ErrorCode.LOG_DIR_NOT_FOUND)
                )
            answers.append({"partition_index": partition, "error_code": errors.number(code)})
    return {
        "results": await topics_of(
            results, lambda name, its: {"topic_name": name, "partitions": its}
        )
    }


async def _move(
    broker: Broker, directories: Directories, name: str, partition: int, path: Path
) -> ErrorCode:
    """Begin to move a partition to a known directory; return the error, if there is one."""
    takes = directories.takes(path)
    refusal = _refusal(name, partition, ErrorCode.NONE if takes else ErrorCode.KAFKA_STORAGE_ERROR)
    if refusal is not ErrorCode.NONE:
        return refusal
    has_several = len([*directories]) > 1
    topic = broker.topics.get(name)
    log = None if topic is None else topic.held_log(partition)
    if topic is None or log is None:
        if has_several and partition >= 0:
            directories.prefer(f"{name}-{partition}", path)
        is_known = topic is not None and 0 <= partition < topic.partition_count
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if log.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        if broker.moves is not None:
            await broker.moves.ask(topic, cast("PartitionLog", log), path)
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _refusal(name: str, partition: int, of_directory: ErrorCode) -> ErrorCode:
    """Return why a partition cannot move, given what is wrong with the directory."""
    is_too_long = move_names.is_too_long(f"{name}-{partition}")
    return ErrorCode.INVALID_TOPIC_EXCEPTION if is_too_long else of_directory


API = Api(
    34,
    "AlterReplicaLogDirs",
    range(3),
    handle,
    on_each(Operation.ALTER, ResourceType.CLUSTER),
    lambda _: {"results": []},
)
