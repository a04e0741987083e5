"""ListOffsets, v0-11: the start or end of a partition, or the offset of a timestamp.

v0 lists the base offsets of segments (old_offsets.py). v1 one offset (KIP-79); v2 isolation level;
v4 leader epochs (KIP-320); v5 OFFSET_NOT_AVAILABLE (KIP-207); v6 flexible; v7 the latest timestamp
(KIP-734); v8 earliest local, v9 latest tiered (KIP-405, KIP-1005); v10 timeout for remote reads;
v11 earliest pending upload (KIP-1023). There is no tiered storage: all data is local.

Partitions are looked up in steps: each result is that of its step. Other brokers ask, too, for the
lag of groups (core/metrics/remote_ends.py).
"""

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from broker.core import access
from broker.core.cluster_view import log_at_epoch
from broker.core.logs.log import Log
from broker.core.logs.partition import epoch_at
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import topic_by_name
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import OFFSETS_FOUND_PER_STEP
from broker.protocols.kafka import errors, old_offsets
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.partitions import named_once, rows_by_topic, topics_of

if TYPE_CHECKING:
    from broker.codec import bodies


class _Target(IntEnum):
    """Special timestamps."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_SINCE = {
    _Target.LATEST: 0,
    _Target.EARLIEST: 0,
    _Target.MAX_TIMESTAMP: 7,
    _Target.EARLIEST_LOCAL: 8,
    _Target.LATEST_TIERED: 9,
    _Target.EARLIEST_PENDING_UPLOAD: 11,
}


class _Found(NamedTuple):
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


_NOTHING = _Found()
_ONE_OFFSET_SINCE = 1
_NOT_AVAILABLE_SINCE = 5


async def handle(
    request: "Request[bodies.ListOffsetsRequest]", session: Session
) -> "bodies.ListOffsetsResponse":
    """Look up each partition."""
    if request.version < _ONE_OFFSET_SINCE:
        return await old_offsets.list_offsets(request, session)
    topics = request.body["topics"]
    wanted = await named_once(
        ((topic["name"], each["partition_index"]), each)
        for topic in topics
        for each in topic["partitions"]
    )
    answers: dict[str, list[bodies.ListOffsetsResponsePartition]] = await rows_by_topic(
        topic["name"] for topic in topics
    )
    async for (name, index), each in in_steps(wanted.items(), OFFSETS_FOUND_PER_STEP):
        answers[name].append(_answer(request, session, name, index, each))
    return {"topics": await topics_of(answers, lambda name, its: {"name": name, "partitions": its})}


def _answer(
    request: "Request[bodies.ListOffsetsRequest]",
    session: Session,
    name: str,
    index: int,
    wanted: "bodies.ListOffsetsRequestPartition | None",
) -> "bodies.ListOffsetsResponsePartition":
    try:
        if not access.may_cluster(session, Operation.CLUSTER_ACTION):
            access.check_topic(session, Operation.DESCRIBE, name)
        topic = topic_by_name(session.broker.topics, name)
        if wanted is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, "the request names this partition twice")
        cluster, epoch = session.broker.cluster, wanted["current_leader_epoch"]
        log = log_at_epoch(cluster, topic, index, epoch)
        found = _find(request, log, wanted["timestamp"])
    except RequestError as error:
        code = error.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and request.version < _NOT_AVAILABLE_SINCE:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return {"partition_index": index, "error_code": errors.number(code)}
    return {
        "partition_index": index,
        "error_code": 0,
        "offset": found.offset,
        "timestamp": found.timestamp,
        "leader_epoch": found.leader_epoch,
    }


def _find(request: "Request[bodies.ListOffsetsRequest]", log: Log, timestamp: int) -> _Found:
    end = _end(request, log)
    if timestamp >= 0:
        return _record(log, log.find_timestamp(timestamp), end)
    if timestamp not in _SINCE or request.version < _SINCE[_Target(timestamp)]:
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
    match _Target(timestamp):
        case _Target.LATEST:
            _check_known(log, end)
            return _Found(end, leader_epoch=log.leader_epoch)
        case _Target.EARLIEST | _Target.EARLIEST_LOCAL:
            start = log.log_start_offset
            return _Found(start, leader_epoch=epoch_at(log, start))
        case _Target.MAX_TIMESTAMP:
            return _record(log, log.find_max_timestamp(), end)
        case _:
            return _NOTHING


def _end(request: "Request[bodies.ListOffsetsRequest]", log: Log) -> int:
    """Return the end of what the client may read: a replica reads all of a log."""
    if request.body["replica_id"] >= 0 and log.is_replicated:
        return log.log_end_offset
    return log.last_stable_offset if request.body["isolation_level"] else log.high_watermark


def _check_known(log: Log, end: int) -> None:
    """Refuse to name an end that may be before one that an earlier leader has named (KIP-207)."""
    if end < log.log_end_offset and not log.is_caught_up_leader:
        raise RequestError(ErrorCode.OFFSET_NOT_AVAILABLE)


def _record(log: Log, found: tuple[int, int] | None, end: int) -> _Found:
    """Return a record that was found, if it is below the end that the client may read."""
    if found is None or found[0] >= end:
        _check_known(log, end)
        return _NOTHING
    return _Found(*found, leader_epoch=epoch_at(log, found[0]))


API = Api(
    2,
    "ListOffsets",
    range(12),
    handle,
    (
        *on_each(Operation.DESCRIBE, ResourceType.TOPIC),
        *on_each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)
