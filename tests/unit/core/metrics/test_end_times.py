"""Times of offsets, from the ends that a partition had at some times."""

from broker.core.metrics.end_times import UNKNOWN, EndTimes
from broker.core.metrics.limits import END_TIMES_MAX

HOUR_MS = 3_600_000


def test_records_between_two_ends_have_come_evenly() -> None:
    times = EndTimes()
    assert times.time_ms(0) == UNKNOWN

    times.add(100, 1_000)
    times.add(200, 2_000)

    assert [times.time_ms(each) for each in (99, 100, 150, 199, 200, 500)] == [
        UNKNOWN,
        1_000,
        1_500,
        1_990,
        2_000,
        2_000,
    ]


def test_a_record_after_a_pause_is_as_young_as_the_end_of_the_pause() -> None:
    times = EndTimes()
    for time_ms in (1_000, 2_000, 3_000, 90_000):
        times.add(100, time_ms)

    times.add(200, 91_000)

    assert times.time_ms(99) == UNKNOWN
    assert times.time_ms(100) == 90_000
    assert times.time_ms(150) == 90_500


def test_earlier_ends_may_be_told_later() -> None:
    times = EndTimes()
    times.add(100, 10_000)
    times.add(0, 1_000)
    times.add(50, 8_000)

    assert [times.time_ms(each) for each in (0, 25, 75)] == [1_000, 4_500, 9_000]


def test_what_contradicts_is_left_out() -> None:
    times = EndTimes()
    times.add(100, 10_000)

    times.add(50, 20_000)
    times.add(150, 5_000)

    assert times.time_ms(50) == UNKNOWN
    assert times.time_ms(150) == 10_000


def test_few_times_tell_the_past_less_exactly_the_older_it_is() -> None:
    times = EndTimes()
    now = 300 * 60  # in minutes
    for minute in range(now):
        times.add(end_at(minute), minute * 60_000)

    assert len(times) <= END_TIMES_MAX
    for hours in (1, 3, 9, 15, 30, 90, 240):
        age = hours * 60
        found = now - times.time_ms(end_at(now - age)) / 60_000
        assert 0.8 * age < found < 1.2 * age, hours


def end_at(minute: int) -> int:
    """Return the end of a partition that grows ten times as fast in each other 20 hours."""
    spans, rest = divmod(minute, 40 * 60)
    return spans * 1_320 * 10 + min(rest, 1_200) + 10 * max(rest - 1_200, 0)
