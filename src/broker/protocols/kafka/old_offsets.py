"""ListOffsets v0, of Kafka 0.8 and 0.9 consumers: the base offsets of segments.

The response is a list, newest first: the base offsets of the segments that are as old as the
requested time. For -1 it is the high watermark and the base offsets of all segments, for -2 the
oldest base offset only. The time of a segment is the largest timestamp of its records, as for
retention; without timestamps, it is the modification time of its file.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from broker._native.kernel import file_ops
from broker.core import access
from broker.core.logs.log import Log
from broker.core.scheduling.steps import next_step
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.core.topics.lookup import log_of
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.protocols.kafka import errors
from broker.segments.names import LOG, file_name

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.protocols.kafka.api import Request

_LATEST = -1
_EARLIEST = -2


async def list_offsets(
    request: "Request[bodies.ListOffsetsRequest]", session: Session
) -> "bodies.ListOffsetsResponse":
    """Look up one partition after the other."""
    topics: list[bodies.ListOffsetsResponseTopic] = []
    for topic in request.body["topics"]:
        partitions = []
        for wanted in topic["partitions"]:
            partitions.append(await _answer(session, topic["name"], wanted))
            await next_step()  # each may have thousands of segments
        topics.append({"name": topic["name"], "partitions": partitions})
    return {"topics": topics}


async def _answer(
    session: Session, name: str, wanted: "bodies.ListOffsetsRequestPartition"
) -> "bodies.ListOffsetsResponsePartition":
    index = wanted["partition_index"]
    try:
        log = log_of(access.topic_named(session, Operation.DESCRIBE, name), index)
        offsets = await _offsets(session, log, wanted["timestamp"])
    except RequestError as error:
        code = errors.old_number(error.code)
        return {"partition_index": index, "error_code": code, "old_style_offsets": []}
    count = max(0, wanted["max_num_offsets"])
    return {"partition_index": index, "error_code": 0, "old_style_offsets": offsets[:count]}


async def _offsets(session: Session, log: Log, timestamp: int) -> list[int]:
    """Return the offsets as old as a time, newest first."""
    segments = log.segment_entries
    start, end = log.log_start_offset, log.high_watermark
    starts = [min(max(base_offset, start), end) for base_offset, _, _ in segments]
    if timestamp == _EARLIEST:
        return starts[:1]
    if not log.is_caught_up_leader:
        raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE)  # an earlier leader may have named more
    if timestamp == _LATEST:
        return _newest_first([*starts, end])
    times = [newest_ms for _, _, newest_ms in segments]
    undated = [segment[0] for segment in segments if segment[2] < 0]
    if undated:
        changes = partial(_changes_ms, log.folder, undated)
        try:
            changed_ms = await session.broker.io_thread.run(changes)
        except (StorageError, FileNotFoundError) as error:  # retention may have deleted it
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from error
        times = [changed_ms.get(base_offset, newest_ms) for base_offset, _, newest_ms in segments]
    if segments[-1][1]:  # the time of the end is now, unless the last segment is empty
        starts.append(end)
        times.append(session.broker.clock.wall_ms())
    count = max((place for place, time in enumerate(times, 1) if time <= timestamp), default=0)
    return _newest_first(starts[:count])


def _newest_first(ascending: list[int]) -> list[int]:
    return list(dict.fromkeys(reversed(ascending)))


def _changes_ms(folder: str, base_offsets: list[int]) -> dict[int, int]:
    return {
        base_offset: file_ops.modified_ms(str(Path(folder) / file_name(base_offset, LOG)))
        for base_offset in base_offsets
    }
