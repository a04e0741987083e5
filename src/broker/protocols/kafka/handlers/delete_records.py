"""DeleteRecords, v0-2. v2 flexible (KIP-107).

When the response is sent, records below the offset cannot be read any more, even after a restart:
the new log start offsets of all partitions of the request are made durable in one write before.
All replicas in sync have moved theirs, too, so no later leader brings the records back; for that
the request waits timeout_ms at most.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.logs.log import Log
from broker.core.logs.partition import start_after_delete, wait_start_copied
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import led_log
from broker.model.errors import ErrorCode, RequestError, StorageError, disk_refusal
from broker.model.limits import DELETION_WAIT_MS_MAX, PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.partitions import topics_of

if TYPE_CHECKING:
    from broker.codec import bodies

_NO_START = -1


async def handle(
    request: "Request[bodies.DeleteRecordsRequest]", session: Session
) -> "bodies.DeleteRecordsResponse":
    """Delete in each partition; if one is named twice, the last offset is used."""
    named = (
        (topic["name"], each["partition_index"], each["offset"])
        for topic in request.body["topics"]
        for each in topic["partitions"]
    )
    wanted: dict[tuple[str, int], int] = {}
    async for name, partition, offset in in_steps(named, PARTITIONS_ANSWERED_PER_STEP):
        wanted[name, partition] = offset
    starts: dict[tuple[str, int], int | RequestError] = {}
    planned: dict[tuple[str, int], tuple[Log, int]] = {}
    async for (name, partition), offset in in_steps(wanted.items(), PARTITIONS_ANSWERED_PER_STEP):
        try:
            log, start = _plan(session, name, partition, offset)
        except RequestError as error:
            starts[name, partition] = error
        else:
            starts[name, partition] = start
            planned[name, partition] = log, start
    lost = await _delete(session, list(planned.values()))
    if not lost:
        starts |= await _unfinished(session, planned, request.body["timeout_ms"])
    topics: dict[str, list[bodies.DeleteRecordsResponsePartition]] = {}
    async for place, found in in_steps(starts.items(), PARTITIONS_ANSWERED_PER_STEP):
        result = lost or found
        if place in planned and not planned[place][0].is_led:  # another broker may lead it by now
            result = RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        topics.setdefault(place[0], []).append(_result(place[1], result))
    return {"topics": await topics_of(topics, lambda name, its: {"name": name, "partitions": its})}


def _plan(session: Session, name: str, partition: int, offset: int) -> tuple[Log, int]:
    topic = access.topic_named(session, Operation.DELETE, name)
    if topic.is_internal:
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    log = led_log(topic, partition)
    return log, start_after_delete(log, topic.config, offset)


async def _delete(session: Session, planned: list[tuple[Log, int]]) -> RequestError | None:
    """Make the new log start offsets durable, then apply them; return the error if that fails."""
    if not planned:
        return None
    try:
        await session.broker.persist_log_starts(planned)
    except StorageError as error:
        return disk_refusal(error)
    async for log, start in in_steps(planned, PARTITIONS_ANSWERED_PER_STEP):
        log.move_log_start(start)
    return None


async def _unfinished(
    session: Session, planned: dict[tuple[str, int], tuple[Log, int]], timeout_ms: int
) -> dict[tuple[str, int], RequestError]:
    """Wait for the replicas in sync, of all partitions at once; return the errors."""
    clock = session.broker.clock
    due_ms = clock.monotonic_ms() + min(timeout_ms, DELETION_WAIT_MS_MAX)
    errors: dict[tuple[str, int], RequestError] = {}
    async for place, (log, start) in in_steps(planned.items(), PARTITIONS_ANSWERED_PER_STEP):
        if not await wait_start_copied(log, start, max(due_ms - clock.monotonic_ms(), 0)):
            errors[place] = RequestError(ErrorCode.REQUEST_TIMED_OUT)
    return errors


def _result(partition: int, start: int | RequestError) -> "bodies.DeleteRecordsResponsePartition":
    if isinstance(start, RequestError):
        code, start = errors.number(start.code), _NO_START
    else:
        code = 0
    return {"partition_index": partition, "low_watermark": start, "error_code": code}


API = Api(21, "DeleteRecords", range(3), handle, on_each(Operation.DELETE, ResourceType.TOPIC))
