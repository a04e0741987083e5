"""Which log is compacted, up to which offset, and in which groups of segments."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.model.limits import COMPACTION_GROUP_SEGMENTS_MAX
from broker.storage.maintenance import compaction
from broker.storage.maintenance.compaction import NEVER_MS, LogFacts, Plan, Segment

NOW = 1_700_000_000_000


def facts(**fields: Any) -> LogFacts:
    """Return a log of three sealed segments of 100 bytes and an active one, all of it stable."""
    segments = [Segment(base, 100, NOW - 50_000 + base) for base in (0, 10, 20, 30)]
    given_facts = LogFacts(
        segments=segments,
        first_dirty_offset=0,
        log_start_offset=0,
        last_stable_offset=40,
        recovery_point=40,
        segment_bytes=10_000,
        min_cleanable_ratio=0.5,
        min_lag_ms=0,
        max_lag_ms=NEVER_MS,
    )
    return given_facts._replace(**fields)


def bases(plan: Plan | None) -> list[list[int]] | None:
    """Return the groups by the base offsets of their segments."""
    return plan and [[segment.base_offset for segment in group] for group in plan.groups]


@st.composite
def any_facts(draw: st.DrawFn) -> LogFacts:
    """Return a log of any kind, whose checkpoint may be that of another one."""
    base, segments = draw(st.integers(0, 50)), []
    for _ in range(draw(st.integers(1, 9))):
        stamp = draw(st.sampled_from([-1, NOW - 5_000, NOW - 10, NOW]))
        segments.append(Segment(base, draw(st.integers(0, 100)), stamp))
        base += draw(st.integers(1, 60) | st.just(1 << 31))
    return LogFacts(
        segments=segments,
        first_dirty_offset=draw(st.integers(0, base + 10)),
        log_start_offset=draw(st.integers(segments[0].base_offset, base)),
        last_stable_offset=draw(st.integers(0, base)),
        recovery_point=draw(st.integers(0, base)),
        segment_bytes=draw(st.integers(1, 300)),
        min_cleanable_ratio=draw(st.sampled_from([0.0, 0.5, 1.0])),
        min_lag_ms=draw(st.sampled_from([0, 1_000])),
        max_lag_ms=draw(st.sampled_from([NEVER_MS, 2_000])),
        dirty_since_ms=draw(st.sampled_from([-1, NOW - 3_000, NOW])),
        active_since_ms=draw(st.sampled_from([-1, NOW - 3_000, NOW])),
    )


@given(any_facts())
def test_a_plan_has_adjacent_sealed_stable_segments_including_the_dirty_ones(
    log: LogFacts,
) -> None:
    plan = compaction.plan(log, NOW)
    if plan is None:
        return
    planned = [segment for group in plan.groups for segment in group]
    place = log.segments.index(planned[0])

    assert planned == list(log.segments[place : place + len(planned)])
    assert log.segments[-1] not in planned
    assert plan.end_offset == log.segments[place + len(planned)].base_offset
    assert plan.end_offset <= min(log.last_stable_offset, log.recovery_point)
    assert planned[0].base_offset <= plan.first_dirty_offset < plan.end_offset
    assert 0 < plan.dirty_ratio <= 1
    assert plan.is_overdue or plan.dirty_ratio > log.min_cleanable_ratio
    if log.min_lag_ms:
        dirty = [
            segment
            for segment, after in pairwise(log.segments)
            if after.base_offset > plan.first_dirty_offset and segment in planned
        ]
        assert all(segment.max_timestamp <= NOW - log.min_lag_ms for segment in dirty)


@given(any_facts())
def test_a_group_fits_into_one_segment(log: LogFacts) -> None:
    plan = compaction.plan(log, NOW)
    for group in plan.groups if plan else ():
        place = log.segments.index(group[-1])

        assert len(group) == 1 or sum(each.size for each in group) <= log.segment_bytes
        span = log.segments[place + 1].base_offset - 1 - group[0].base_offset
        assert len(group) == 1 or span < 1 << 31


def test_a_log_that_was_never_compacted_is_entirely_dirty() -> None:
    plan = compaction.plan(facts(), NOW)

    assert bases(plan) == [[0, 10, 20]]
    assert plan is not None
    assert (plan.first_dirty_offset, plan.end_offset, plan.dirty_ratio) == (0, 30, 1.0)


@pytest.mark.parametrize(
    ("ratio", "is_due"), [(0.0, True), (0.3, True), (1 / 3, False), (0.5, False), (1.0, False)]
)
def test_a_log_is_due_when_its_dirty_ratio_is_above_the_minimum(ratio: float, is_due: bool) -> None:
    log = facts(first_dirty_offset=20, min_cleanable_ratio=ratio)

    assert (compaction.plan(log, NOW) is not None) == is_due


def test_a_clean_log_is_not_due_at_any_ratio() -> None:
    log = facts(first_dirty_offset=30, min_cleanable_ratio=0.0)

    assert compaction.plan(log, NOW) is None


@pytest.mark.parametrize("bound", ["last_stable_offset", "recovery_point"])
@pytest.mark.parametrize(("offset", "end"), [(30, 30), (29, 20), (20, 20), (19, 10), (9, None)])
def test_a_segment_with_an_offset_at_or_above_the_bound_is_not_compacted(
    bound: str, offset: int, end: int | None
) -> None:
    plan = compaction.plan(facts(**{bound: offset}), NOW)

    assert (plan and plan.end_offset) == end


def test_the_first_dirty_segment_with_a_young_record_and_later_ones_are_not_compacted() -> None:
    segments = [Segment(0, 100, NOW), Segment(10, 100, NOW - 9), Segment(20, 100, NOW - 10_000)]
    log = facts(segments=[*segments, Segment(30, 0, -1)], min_lag_ms=10, first_dirty_offset=10)

    assert compaction.plan(log, NOW) is None
    assert bases(compaction.plan(log, NOW + 1)) == [[0, 10, 20]]
    assert bases(compaction.plan(log._replace(min_lag_ms=0), NOW)) == [[0, 10, 20]]


def test_a_dirty_record_older_than_the_maximum_lag_makes_a_log_due_at_any_ratio() -> None:
    log = facts(
        min_cleanable_ratio=1.0, first_dirty_offset=20, max_lag_ms=1_000, dirty_since_ms=NOW - 1_000
    )

    assert compaction.plan(log, NOW) is None
    plan = compaction.plan(log, NOW + 1)
    assert plan is not None
    assert plan.is_overdue


@pytest.mark.parametrize(
    ("since_ms", "max_lag_ms", "rolls"),
    [
        (NOW - 1_001, 1_000, True),
        (NOW - 1_000, 1_000, False),
        (-1, 1_000, False),
        (0, NEVER_MS, False),
    ],
)
def test_an_active_segment_with_an_overdue_record_is_rolled(
    since_ms: int, max_lag_ms: int, rolls: bool
) -> None:
    log = facts(active_since_ms=since_ms, max_lag_ms=max_lag_ms)

    assert compaction.must_roll(log, NOW) is rolls


@pytest.mark.parametrize(("checkpoint", "first"), [(15, 15), (30, 30), (31, 5), (4, 5)])
def test_a_cleaner_checkpoint_outside_the_log_is_ignored(checkpoint: int, first: int) -> None:
    log = facts(first_dirty_offset=checkpoint, log_start_offset=5)

    assert compaction.first_dirty(log) == first


def test_groups_are_filled_up_to_the_segment_size() -> None:
    assert bases(compaction.plan(facts(segment_bytes=200), NOW)) == [[0, 10], [20]]
    assert bases(compaction.plan(facts(segment_bytes=199), NOW)) == [[0], [10], [20]]


def test_a_group_has_no_more_segments_than_are_removed_at_once() -> None:
    segments = [Segment(base, 1, NOW) for base in range(2 * COMPACTION_GROUP_SEGMENTS_MAX + 2)]
    log = facts(segments=segments, last_stable_offset=len(segments), recovery_point=len(segments))

    groups = bases(compaction.plan(log, NOW)) or []

    assert list(map(len, groups)) == [*[COMPACTION_GROUP_SEGMENTS_MAX] * 2, 1]


def test_segments_below_the_log_start_are_left_to_retention() -> None:
    assert bases(compaction.plan(facts(log_start_offset=10), NOW)) == [[10, 20]]
    assert bases(compaction.plan(facts(log_start_offset=9), NOW)) == [[0, 10, 20]]


def test_an_overdue_log_precedes_the_dirtiest_and_that_one_the_others() -> None:
    def plan(ratio: float, is_overdue: bool = False) -> Plan:
        return Plan(0, 1, (), ratio, 1, is_overdue)

    plans = {"a-0": plan(0.6), "b-0": plan(0.9), "c-0": plan(0.9), "d-0": plan(0.1, True)}

    order = []
    while (first := compaction.most_urgent(plans.items())) is not None:
        order.append(first[0])
        del plans[first[0]]
    assert order == ["d-0", "b-0", "c-0", "a-0"]
    assert compaction.most_urgent([]) is None
