"""Plans retention: how many of a log's oldest segments are deleted. Pure functions.

The rules are Kafka's (UnifiedLog.deleteOldSegments). Whole segments are deleted, oldest first, as
long as

    the log start offset is at or after their end (DeleteRecords), or
    retention.ms      their newest record is older (without timestamps: their last write), or
    retention.bytes   the log without them still has that size.

Never past the high watermark. The active segment is deleted only when all of it is old, and is
rolled first, so that old records of a topic without producers are deleted, too. It is also deleted
when DeleteRecords has left nothing of it (docs/decisions/0010-deleted-records-leave-the-disk.md).
"""

from collections.abc import Sequence
from typing import NamedTuple

UNLIMITED = -1


class SegmentFacts(NamedTuple):
    """The state of a segment."""

    base_offset: int
    size: int  # bytes
    newest_ms: int  # largest record timestamp, or the time of its last write


class LogFacts(NamedTuple):
    """The state of a log. `segments` are its oldest ones, or all of them."""

    segments: Sequence[SegmentFacts]
    segment_count: int  # of the whole log
    size: int  # bytes, of the whole log
    log_start_offset: int
    high_watermark: int
    log_end_offset: int


class Limits(NamedTuple):
    """The limits of a topic's configuration; -1: unlimited."""

    retention_ms: int
    retention_bytes: int


class Plan(NamedTuple):
    """The changes to be made."""

    log_start_offset: int  # at least the present one
    rolls: bool  # whether the active segment is rolled first, to be deleted


def plan(log: LogFacts, limits: Limits, now_ms: int) -> Plan:
    """Return the new log start offset, and whether the log rolls first."""
    start = log.log_start_offset
    excess = log.size - limits.retention_bytes if limits.retention_bytes != UNLIMITED else 0
    for index, segment in enumerate(log.segments):
        is_old = limits.retention_ms != UNLIMITED and (
            now_ms - segment.newest_ms > limits.retention_ms
        )
        if index == log.segment_count - 1:
            rolls = segment.size > 0 and (is_old or _is_all_deleted(log, segment))
            return Plan(log.high_watermark if rolls else start, rolls=rolls)
        end = _end(log, index)
        is_passed = end <= log.log_start_offset
        if end > log.high_watermark or not (is_old or is_passed or 0 < segment.size <= excess):
            break
        excess -= segment.size
        start = max(start, end)
    return Plan(start, rolls=False)


def _is_all_deleted(log: LogFacts, active: SegmentFacts) -> bool:
    return log.log_start_offset == log.log_end_offset > active.base_offset


def _end(log: LogFacts, index: int) -> int:
    """Return the end of a sealed segment; past the high watermark if the next one is unknown."""
    following = index + 1
    is_known = following < len(log.segments)
    return log.segments[following].base_offset if is_known else log.high_watermark + 1
