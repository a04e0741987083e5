"""DeleteRecords, v0-2. v2 flexible (KIP-107).

Records below an offset can be read no more once the answer leaves, and after no restart: where each
log begins is made durable for all partitions of the request in one write, however long that takes;
timeout_ms is for replicas.
"""

from broker.core.log import Log
from broker.core.partition import delete_records
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request
from broker.protocols.kafka.lookup import log_of, topic_by_name

_NO_START = -1


async def handle(request: Request, session: Session) -> Fields:
    """Delete in each partition by itself; of one that is named twice the last offset counts."""
    wanted = {
        (topic["name"], each["partition_index"]): each["offset"]
        for topic in request.body["topics"]
        for each in topic["partitions"]
    }
    starts: dict[tuple[str, int], int | RequestError] = {}
    logs: list[Log] = []
    for (name, partition), offset in wanted.items():
        try:
            log, starts[name, partition] = _delete(session, name, partition, offset)
            logs.append(log)
        except RequestError as error:
            starts[name, partition] = error
    lost = await _persist(session, logs)
    topics: dict[str, list[Fields]] = {}
    for (name, partition), start in starts.items():
        topics.setdefault(name, []).append(_result(partition, lost or start))
    return {"topics": [{"name": name, "partitions": each} for name, each in topics.items()]}


def _delete(session: Session, name: str, partition: int, offset: int) -> tuple[Log, int]:
    topic = topic_by_name(session.broker.topics, name)
    if topic.is_internal:
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    log = log_of(topic, partition)
    return log, delete_records(log, topic.config, offset)


async def _persist(session: Session, logs: list[Log]) -> RequestError | None:
    """Make the starts of logs durable; what to answer for all of them when that fails."""
    if not logs:
        return None
    try:
        await session.broker.persist_log_starts(logs)
    except StorageError as error:
        return RequestError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return None


def _result(partition: int, start: int | RequestError) -> Fields:
    if isinstance(start, RequestError):
        code, start = errors.number(start.code), _NO_START
    else:
        code = 0
    return {"partition_index": partition, "low_watermark": start, "error_code": code}


API = Api(21, "DeleteRecords", range(3), handle)
