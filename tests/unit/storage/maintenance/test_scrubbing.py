"""When a closed segment is due to be scrubbed, and at which rate."""

from broker.storage.maintenance.scrubbing import NEVER_MS, OFF_MS, Closed, due, pause_seconds

NOW_MS = 1_700_000_000_000
WEEK_MS = 7 * 86_400_000
ONE, OTHER, THIRD = Closed("a-0", 0), Closed("a-0", 10), Closed("b-0", 0)


def test_a_segment_is_due_after_its_interval() -> None:
    assert due([(ONE, NOW_MS - WEEK_MS + 1)], NOW_MS, WEEK_MS) == []
    assert due([(ONE, NOW_MS - WEEK_MS)], NOW_MS, WEEK_MS) == [ONE]


def test_the_segments_scrubbed_longest_ago_come_first() -> None:
    checked = [(ONE, NOW_MS - WEEK_MS), (OTHER, NEVER_MS), (THIRD, NOW_MS - 2 * WEEK_MS)]
    assert due(checked, NOW_MS, WEEK_MS) == [OTHER, THIRD, ONE]


def test_a_scrub_time_in_the_future_is_ignored() -> None:
    assert due([(ONE, NOW_MS + 1)], NOW_MS, WEEK_MS) == [ONE]


def test_nothing_is_due_when_the_scrub_is_disabled() -> None:
    assert due([(ONE, NEVER_MS)], NOW_MS, OFF_MS) == []


def test_a_step_sleeps_for_the_time_that_the_rate_requires() -> None:
    assert pause_seconds(1_000, 0.25, 1_000) == 0.75
    assert pause_seconds(1_000, 3.0, 1_000) == 0.0
