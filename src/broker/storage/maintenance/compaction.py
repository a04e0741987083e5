"""Plans compaction: which log is next, and how its segments are grouped. Pure functions.

A log has, oldest first,

    a clean part     up to the first dirty offset, which the last pass has checkpointed
    a dirty part     from there on, as far as it may be compacted: sealed segments below the last
                     stable offset and the recovery point, and before the first that has a record
                     younger than min.compaction.lag.ms
    the remainder    with the active segment at least

It is due when more than min.cleanable.dirty.ratio of the first two parts is dirty, or when a dirty
record is older than max.compaction.lag.ms; if the active segment has such records, it is rolled. A
pass rewrites clean and dirty segments in groups, each of which becomes one segment.

Source: Kafka's LogCleanerManager and Cleaner; KIP-58, KIP-354.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from broker.model.limits import COMPACTION_GROUP_SEGMENTS_MAX, SEGMENT_BYTES_MAX

NEVER_MS = (1 << 63) - 1  # max.compaction.lag.ms: no limit
_OFFSET_SPAN_MAX = (1 << 31) - 1  # from a segment's base offset: indexes hold 32 bits


class Segment(NamedTuple):
    """A segment of a log."""

    base_offset: int
    size: int  # bytes
    max_timestamp: int  # ms, -1: no record has one


class LogFacts(NamedTuple):
    """The state of a log that a plan is made from."""

    segments: Sequence[Segment]  # oldest first; the last is active
    first_dirty_offset: int  # as checkpointed; 0 when there is none
    log_start_offset: int
    last_stable_offset: int
    recovery_point: int  # recovery will not read before it, from the next checkpoint on
    segment_bytes: int
    min_cleanable_ratio: float
    min_lag_ms: int
    max_lag_ms: int
    dirty_since_ms: int = -1  # time of the first dirty batch; -1: unknown, or there is none
    active_since_ms: int = -1  # time of the active segment's first batch, likewise


class Plan(NamedTuple):
    """One pass over a log: the keys of [first_dirty_offset, end_offset), then the groups."""

    first_dirty_offset: int
    end_offset: int
    groups: tuple[tuple[Segment, ...], ...]
    dirty_ratio: float
    dirty_bytes: int
    is_overdue: bool  # by max.compaction.lag.ms, whatever the ratio


def must_roll(facts: LogFacts, now_ms: int) -> bool:
    """Return whether the active segment has overdue records and must be rolled first."""
    return _is_overdue(facts, facts.active_since_ms, now_ms)


def plan(facts: LogFacts, now_ms: int) -> Plan | None:
    """Return the pass that a log is due for, or None."""
    start = first_dirty(facts)
    end = _cleanable_end(facts, start, now_ms)
    if end <= start:
        return None
    below_end = [
        segment
        for segment, after in pairwise(facts.segments)
        if after.base_offset <= end and after.base_offset > facts.log_start_offset
    ]
    dirty_bytes = _dirty_bytes(below_end, start, end)
    if dirty_bytes == 0:
        return None
    ratio = dirty_bytes / sum(segment.size for segment in below_end)
    is_overdue = _is_overdue(facts, facts.dirty_since_ms, now_ms)
    if not is_overdue and ratio <= facts.min_cleanable_ratio:
        return None
    return Plan(start, end, _groups(below_end, end, facts), ratio, dirty_bytes, is_overdue)


def first_dirty(facts: LogFacts) -> int:
    """Return where the dirty part begins; a checkpoint outside of the log is ignored."""
    if not facts.log_start_offset <= facts.first_dirty_offset <= facts.segments[-1].base_offset:
        return facts.log_start_offset
    return facts.first_dirty_offset


def _is_overdue(facts: LogFacts, since_ms: int, now_ms: int) -> bool:
    return facts.max_lag_ms < NEVER_MS and 0 <= since_ms < now_ms - facts.max_lag_ms


def _cleanable_end(facts: LogFacts, start: int, now_ms: int) -> int:
    """Return the base offset of the first segment from `start` on that may not be compacted."""
    bound = min(facts.last_stable_offset, facts.recovery_point)
    for segment, after in pairwise(facts.segments):
        is_young = facts.min_lag_ms > 0 and segment.max_timestamp > now_ms - facts.min_lag_ms
        if after.base_offset > bound or (is_young and after.base_offset > start):
            return segment.base_offset
    return facts.segments[-1].base_offset


def _dirty_bytes(segments: Sequence[Segment], start: int, end: int) -> int:
    """Return the bytes of all segments that have dirty offsets, whole ones as in Kafka."""
    ends = [segment.base_offset for segment in segments[1:]] + [end]
    return sum(segment.size for segment, after in zip(segments, ends, strict=True) if after > start)


def _groups(
    segments: Sequence[Segment], end: int, facts: LogFacts
) -> tuple[tuple[Segment, ...], ...]:
    """Group adjacent segments that fit into one by their present sizes and their offsets."""
    bytes_max = min(facts.segment_bytes, SEGMENT_BYTES_MAX)
    ends = [segment.base_offset for segment in segments[1:]] + [end]
    groups: list[list[Segment]] = []
    size = 0
    for segment, segment_end in zip(segments, ends, strict=True):
        fits = (
            groups
            and len(groups[-1]) < COMPACTION_GROUP_SEGMENTS_MAX
            and size + segment.size <= bytes_max
            and segment_end - 1 - groups[-1][0].base_offset <= _OFFSET_SPAN_MAX
        )
        if not fits:
            groups.append([])
            size = 0
        groups[-1].append(segment)
        size += segment.size
    return tuple(tuple(group) for group in groups)


def most_urgent(plans: Iterable[tuple[str, Plan]]) -> tuple[str, Plan] | None:
    """Return the log to be compacted first; among equals the first by name."""
    return min(
        plans,
        key=lambda each: (not each[1].is_overdue, -each[1].dirty_ratio, each[0]),
        default=None,
    )
