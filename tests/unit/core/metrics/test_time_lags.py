"""The times of the first records that groups have not committed."""

from typing import TYPE_CHECKING, cast

import pytest

from broker.core.metrics import time_lags
from broker.core.metrics.time_lags import TimeLags

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog

PLACE = "group", "topic", 0
OTHER = "group", "topic", 1


class CountingLog:
    """A log whose records were made every second."""

    def __init__(self) -> None:
        self.log_start_offset = 0
        self.lookups = 0

    def time_at(self, offset: int) -> int:
        self.lookups += 1
        return offset * 1_000


def time_ms(lags: TimeLags, log: CountingLog, offset: int, place: time_lags.Place = PLACE) -> int:
    return lags.time_ms(place, cast("PartitionLog", log), offset)


def test_a_time_is_looked_up_once_for_an_offset() -> None:
    lags, log = TimeLags(), CountingLog()
    for _ in range(3):
        lags.begin()
        assert time_ms(lags, log, 7) == 7_000
    assert log.lookups == 1

    lags.begin()
    assert time_ms(lags, log, 8) == 8_000
    assert log.lookups == 2


def test_records_that_are_deleted_do_not_count() -> None:
    lags, log = TimeLags(), CountingLog()
    lags.begin()
    assert time_ms(lags, log, 7) == 7_000
    log.log_start_offset = 9

    lags.begin()

    assert time_ms(lags, log, 7) == 9_000


def test_what_a_page_does_not_have_is_forgotten() -> None:
    lags, log = TimeLags(), CountingLog()
    lags.begin()
    time_ms(lags, log, 7)
    lags.begin()
    lags.begin()

    assert time_ms(lags, log, 7) == 7_000
    assert log.lookups == 2


def test_beyond_the_limit_of_lookups_the_time_of_the_last_page_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time_lags, "TIME_LOOKUPS_MAX", 1)
    lags, log = TimeLags(), CountingLog()
    lags.begin()
    assert time_ms(lags, log, 7) == 7_000
    assert time_ms(lags, log, 1, OTHER) == -1

    lags.begin()
    assert time_ms(lags, log, 9) == 7_000, "a moment ago it was the first"
    assert time_ms(lags, log, 3, OTHER) == 3_000


def test_groups_that_all_go_on_have_their_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_lags, "TIME_LOOKUPS_MAX", 2)
    lags, log = TimeLags(), CountingLog()
    places = [("group", "topic", number) for number in range(7)]
    shown = []

    for page in range(8):
        lags.begin()
        shown.append([time_ms(lags, log, page, place) // 1_000 for place in places])

    assert shown[3] == [0, 0, 1, 1, 2, 2, 3]
    assert shown[7] == [4, 4, 5, 5, 6, 6, 7]
    assert log.lookups == 2 * (2 + 2 + 2 + 1)
