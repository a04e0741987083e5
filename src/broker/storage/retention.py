"""Retention: how much of the front of a log may go. Pure: facts and a clock in, a plan out.

The rules are Kafka's (UnifiedLog.deleteOldSegments). Whole segments go, oldest first, as long as

    the log start offset has passed them (DeleteRecords), or
    retention.ms      their newest record is older; one without times counts by its last change, or
    retention.bytes   without them the log still has that size.

Never past the high watermark. The active segment goes only when all of it is old, and is rolled
first, so that old records vanish from a topic that nobody writes to any more. Unlike in Kafka it
goes as well when DeleteRecords has left nothing of it: what was deleted shall not stay on the disk.
"""

from collections.abc import Sequence
from typing import NamedTuple

UNLIMITED = -1


class SegmentFacts(NamedTuple):
    """What is known of a segment."""

    base_offset: int
    size: int  # bytes
    newest_ms: int  # largest record timestamp, or the time of its last change


class LogFacts(NamedTuple):
    """What is known of a log. `segments` are its oldest ones, or all of them."""

    segments: Sequence[SegmentFacts]
    segment_count: int  # of the whole log
    size: int  # bytes, of the whole log
    log_start_offset: int
    high_watermark: int
    log_end_offset: int


class Limits(NamedTuple):
    """What a topic's configuration allows; -1: as much as there is."""

    retention_ms: int
    retention_bytes: int


class Plan(NamedTuple):
    """What is to be done."""

    log_start_offset: int  # at least where it is
    rolls: bool  # the active segment is to be closed first: its records go


def plan(log: LogFacts, limits: Limits, now_ms: int) -> Plan:
    """How far the log start offset moves now."""
    start = log.log_start_offset
    excess = log.size - limits.retention_bytes if limits.retention_bytes != UNLIMITED else 0
    for place, segment in enumerate(log.segments):
        is_old = limits.retention_ms != UNLIMITED and (
            now_ms - segment.newest_ms > limits.retention_ms
        )
        if place == log.segment_count - 1:
            rolls = segment.size > 0 and (is_old or _is_all_deleted(log, segment))
            return Plan(log.high_watermark if rolls else start, rolls=rolls)
        end = _end(log, place)
        is_passed = end <= log.log_start_offset
        if end > log.high_watermark or not (is_old or is_passed or 0 < segment.size <= excess):
            break
        excess -= segment.size
        start = max(start, end)
    return Plan(start, rolls=False)


def _is_all_deleted(log: LogFacts, active: SegmentFacts) -> bool:
    return log.log_start_offset == log.log_end_offset > active.base_offset


def _end(log: LogFacts, place: int) -> int:
    """Where a sealed segment ends; of the last that is known, nothing is decided yet."""
    following = place + 1
    is_known = following < len(log.segments)
    return log.segments[following].base_offset if is_known else log.high_watermark + 1
