"""AlterReplicaLogDirs, v0-2. v2 flexible (KIP-113).

There is one directory: a partition that is to go there stays where it is, and no other directory is
known. As in Kafka the directory is looked at before the partition.
"""

from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request


def handle(request: Request, session: Session) -> Fields:
    """Answer for each partition; nothing moves."""
    own = str(session.broker.config.data_dir)
    results: dict[str, list[Fields]] = {}
    for directory in request.body["dirs"]:
        for topic in directory["topics"]:
            results.setdefault(topic["name"], []).extend(
                {
                    "partition_index": partition,
                    "error_code": errors.number(
                        _error(session, topic["name"], partition)
                        if directory["path"] == own
                        else ErrorCode.LOG_DIR_NOT_FOUND
                    ),
                }
                for partition in topic["partitions"]
            )
    return {
        "results": [
            {"topic_name": name, "partitions": partitions} for name, partitions in results.items()
        ]
    }


def _error(session: Session, name: str, partition: int) -> ErrorCode:
    topic = session.broker.topics.get(name)
    if topic is None or topic.log(partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


API = Api(34, "AlterReplicaLogDirs", range(3), handle, lambda _: {"results": []})
