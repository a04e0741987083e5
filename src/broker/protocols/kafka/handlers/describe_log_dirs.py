"""DescribeLogDirs, v0-5. v2 flexible; v3 error; v4 total and usable bytes (KIP-827); v5 cordoned.

There is one directory, and every partition is where it belongs: nothing lags, nothing moves between
directories (KIP-113). A size is that of the log, without what a file has in reserve.
"""

from broker.core.session import Session
from broker.core.topic import Topic
from broker.model.errors import ErrorCode, StorageError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request


async def handle(request: Request, session: Session) -> Fields:
    """Describe what was asked for, or everything; what does not exist is left out."""
    broker = session.broker
    directory: Fields = {"error_code": 0, "log_dir": str(broker.config.data_dir), "topics": []}
    try:
        space = await broker.disk_space()
    except StorageError:
        directory["error_code"] = errors.number(ErrorCode.KAFKA_STORAGE_ERROR)
        return {"results": [directory]}
    directory |= {"total_bytes": space.total_bytes, "usable_bytes": space.usable_bytes}
    wanted = request.body["topics"]
    if wanted is None:
        described = [_topic(topic, range(len(topic.logs))) for topic in broker.topics]
    else:
        partitions: dict[str, set[int]] = {}
        for each in wanted:
            partitions.setdefault(each["topic"], set()).update(each["partitions"])
        topics = [(broker.topics.get(name), numbers) for name, numbers in partitions.items()]
        described = [_topic(topic, sorted(numbers)) for topic, numbers in topics if topic]
    directory["topics"] = [each for each in described if each["partitions"]]
    return {"error_code": 0, "results": [directory]}


def _topic(topic: Topic, partitions: list[int] | range) -> Fields:
    logs = [(partition, topic.log(partition)) for partition in partitions]
    return {
        "name": topic.name,
        "partitions": [
            {
                "partition_index": partition,
                "partition_size": log.size,
                "offset_lag": 0,
                "is_future_key": False,
            }
            for partition, log in logs
            if log
        ],
    }


API = Api(35, "DescribeLogDirs", range(6), handle)
