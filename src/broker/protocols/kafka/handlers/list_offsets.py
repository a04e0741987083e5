"""ListOffsets, v0-11: the start or end of a partition, or the offset of a timestamp.

v0 lists the base offsets of segments (old_offsets.py). v1 one offset (KIP-79); v2 isolation level;
v4 leader epochs (KIP-320); v6 flexible; v7 the latest timestamp (KIP-734); v8 earliest local, v9
latest tiered (KIP-405, KIP-1005); v10 timeout for remote reads; v11 earliest pending upload
(KIP-1023). There is no tiered storage: all data is local.

Partitions are looked up in steps: each result is that of its step.
"""

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from broker.core.logs.log import Log
from broker.core.logs.partition import check_leader_epoch, epoch_at
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.session import Session
from broker.core.topics.lookup import log_of, topic_by_name
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import NAMES_READ_PER_STEP, OFFSETS_FOUND_PER_STEP
from broker.protocols.kafka import errors, old_offsets
from broker.protocols.kafka.api import Api, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

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


async def handle(
    request: "Request[bodies.ListOffsetsRequest]", session: Session
) -> "bodies.ListOffsetsResponse":
    """Look up each partition."""
    if request.version < _ONE_OFFSET_SINCE:
        return await old_offsets.list_offsets(request, session)
    topics = request.body["topics"]
    count: Counter[tuple[str, int]] = Counter()
    async for named in in_parts(_named(topics), NAMES_READ_PER_STEP):
        count.update((name, wanted["partition_index"]) for name, wanted in named)
    answers: dict[str, dict[int, bodies.ListOffsetsResponsePartition]] = {}
    async for part in in_parts(topics, NAMES_READ_PER_STEP):
        answers.update((topic["name"], {}) for topic in part)
    async for name, wanted in in_steps(_named(topics), OFFSETS_FOUND_PER_STEP):
        index = wanted["partition_index"]
        is_twice = count[name, index] > 1
        answers[name][index] = _answer(request, session, name, wanted, is_twice=is_twice)
    return {
        "topics": [
            {"name": name, "partitions": list(partitions.values())}
            async for name, partitions in in_steps(answers.items(), NAMES_READ_PER_STEP)
        ]
    }


def _named(
    topics: "list[bodies.ListOffsetsRequestTopic]",
) -> "Iterator[tuple[str, bodies.ListOffsetsRequestPartition]]":
    return ((topic["name"], each) for topic in topics for each in topic["partitions"])


def _answer(
    request: "Request[bodies.ListOffsetsRequest]",
    session: Session,
    name: str,
    wanted: "bodies.ListOffsetsRequestPartition",
    *,
    is_twice: bool,
) -> "bodies.ListOffsetsResponsePartition":
    index = wanted["partition_index"]
    try:
        log = _log(session, name, wanted, is_twice=is_twice)
        found = _find(request, log, wanted["timestamp"])
    except RequestError as error:
        return {"partition_index": index, "error_code": errors.number(error.code)}
    return {
        "partition_index": index,
        "error_code": 0,
        "offset": found.offset,
        "timestamp": found.timestamp,
        "leader_epoch": found.leader_epoch,
    }


def _log(
    session: Session, name: str, wanted: "bodies.ListOffsetsRequestPartition", *, is_twice: bool
) -> Log:
    if is_twice:
        raise RequestError(ErrorCode.INVALID_REQUEST)
    log = log_of(topic_by_name(session.broker.topics, name), wanted["partition_index"])
    check_leader_epoch(log, wanted["current_leader_epoch"])
    return log


def _find(request: "Request[bodies.ListOffsetsRequest]", log: Log, timestamp: int) -> _Found:
    end = log.last_stable_offset if request.body["isolation_level"] else log.high_watermark
    if timestamp >= 0:
        return _record(log, log.find_timestamp(timestamp), end)
    if timestamp not in _SINCE or request.version < _SINCE[_Target(timestamp)]:
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
    match _Target(timestamp):
        case _Target.LATEST:
            return _Found(end, leader_epoch=log.leader_epoch)
        case _Target.EARLIEST | _Target.EARLIEST_LOCAL:
            start = log.log_start_offset
            return _Found(start, leader_epoch=epoch_at(log, start))
        case _Target.MAX_TIMESTAMP:
            return _record(log, log.find_max_timestamp(), end)
        case _:
            return _NOTHING


def _record(log: Log, found: tuple[int, int] | None, end: int) -> _Found:
    """Return a record that was found, if it is below the end that the client may read."""
    if found is None or found[0] >= end:
        return _NOTHING
    return _Found(*found, leader_epoch=epoch_at(log, found[0]))


API = Api(2, "ListOffsets", range(12), handle)
