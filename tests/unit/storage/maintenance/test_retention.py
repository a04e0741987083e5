"""Which segments are deleted, as a function of the state of the log."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.maintenance.retention import (
    UNLIMITED,
    Limits,
    LogFacts,
    Plan,
    SegmentFacts,
    plan,
)

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
KEEP_ALL = Limits(UNLIMITED, UNLIMITED)
AN_HOUR = Limits(HOUR_MS, UNLIMITED)


def log_of(
    *ages_ms: int, size: int = 100, start: int = 0, high_watermark: int | None = None
) -> LogFacts:
    """Return a log of segments of ten records, the newest of which have these ages."""
    segments = [
        SegmentFacts(10 * place, size, NOW_MS - age_ms) for place, age_ms in enumerate(ages_ms)
    ]
    end = 10 * len(ages_ms)
    return LogFacts(
        segments,
        len(segments),
        size * len(segments),
        start,
        end if high_watermark is None else high_watermark,
        end,
    )


def test_a_young_log_is_unchanged() -> None:
    assert plan(log_of(3, 2, 1), AN_HOUR, NOW_MS) == Plan(0, rolls=False)


def test_old_segments_are_deleted() -> None:
    log = log_of(HOUR_MS + 2, HOUR_MS + 1, 0)

    assert plan(log, AN_HOUR, NOW_MS) == Plan(20, rolls=False)


def test_a_segment_of_exactly_the_retention_age_stays() -> None:
    assert plan(log_of(HOUR_MS, 0), AN_HOUR, NOW_MS) == Plan(0, rolls=False)


def test_a_young_segment_keeps_the_older_ones_after_it() -> None:
    log = log_of(0, HOUR_MS + 1, 0)

    assert plan(log, AN_HOUR, NOW_MS) == Plan(0, rolls=False)


def test_an_old_active_segment_is_rolled_and_deleted() -> None:
    log = log_of(HOUR_MS + 2, HOUR_MS + 1)

    assert plan(log, AN_HOUR, NOW_MS) == Plan(20, rolls=True)


def test_an_empty_active_segment_is_not_rolled() -> None:
    log = log_of(HOUR_MS + 1, size=0)

    assert plan(log, AN_HOUR, NOW_MS) == Plan(0, rolls=False)


def test_nothing_at_or_above_the_high_watermark_is_deleted() -> None:
    log = log_of(HOUR_MS + 3, HOUR_MS + 2, HOUR_MS + 1, high_watermark=15)

    assert plan(log, AN_HOUR, NOW_MS) == Plan(10, rolls=False)


def test_an_old_active_segment_is_deleted_up_to_the_high_watermark() -> None:
    log = log_of(HOUR_MS + 1, high_watermark=7)

    assert plan(log, AN_HOUR, NOW_MS) == Plan(7, rolls=True)


def test_a_record_with_a_future_timestamp_keeps_its_segment() -> None:
    assert plan(log_of(-HOUR_MS, 0), Limits(0, UNLIMITED), NOW_MS) == Plan(0, rolls=False)


@pytest.mark.parametrize(
    ("retention_bytes", "start"),
    [(1000, 0), (400, 0), (399, 0), (301, 0), (300, 10), (250, 10), (200, 20), (100, 30), (0, 30)],
)
def test_a_log_is_reduced_to_its_size_limit_and_never_below(
    retention_bytes: int, start: int
) -> None:
    log = log_of(4, 3, 2, 1)

    assert plan(log, Limits(UNLIMITED, retention_bytes), NOW_MS) == Plan(start, rolls=False)


def test_segments_below_the_log_start_are_deleted_whatever_their_age() -> None:
    log = log_of(0, 0, 0, start=25)

    assert plan(log, KEEP_ALL, NOW_MS) == Plan(25, rolls=False)


def test_a_log_deleted_to_its_last_record_is_removed_from_the_disk() -> None:
    log = log_of(0, 0, start=20)

    assert plan(log, KEEP_ALL, NOW_MS) == Plan(20, rolls=True)


def test_the_last_listed_segment_of_a_partial_list_is_not_deleted() -> None:
    log = log_of(*[HOUR_MS + 1] * 9)._replace(segment_count=20, high_watermark=200)

    assert plan(log, AN_HOUR, NOW_MS) == Plan(80, rolls=False)


@given(
    ages=st.lists(st.integers(-5, 20), min_size=1, max_size=12),
    size=st.integers(0, 50),
    start=st.integers(0, 130),
    visible=st.integers(0, 130),
    limits=st.builds(Limits, st.integers(-1, 20), st.integers(-1, 400)),
)
def test_a_plan_stays_within_its_limits(
    ages: list[int], size: int, start: int, visible: int, limits: Limits
) -> None:
    end = 10 * len(ages)
    high_watermark = min(visible, end)
    log = log_of(*ages, size=size, high_watermark=high_watermark, start=min(start, high_watermark))

    decided = plan(log, limits, NOW_MS)

    assert log.log_start_offset <= decided.log_start_offset <= high_watermark
    gone = [
        segment
        for segment, next_base in zip(log.segments, [*accumulate([10] * len(ages))], strict=True)
        if log.log_start_offset < next_base <= decided.log_start_offset
    ]
    left = log.size
    for segment in gone:
        left -= segment.size
        is_old = limits.retention_ms >= 0 and NOW_MS - segment.newest_ms > limits.retention_ms
        assert is_old or (limits.retention_bytes >= 0 and left >= limits.retention_bytes)
    if decided.rolls:
        assert decided.log_start_offset == high_watermark
