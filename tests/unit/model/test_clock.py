"""The manual clock and the system clock."""

import pytest

from broker.model.clock import Clock, SystemClock
from tests.support.manual_clock import ManualClock


def test_manual_time_changes_only_when_advanced() -> None:
    clock = ManualClock(wall_ms=1_000, monotonic_ms=5)

    assert (clock.wall_ms(), clock.monotonic_ms()) == (1_000, 5)
    clock.advance(20)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (1_020, 25)


def test_setting_the_wall_clock_back_does_not_affect_timeouts() -> None:
    clock = ManualClock(wall_ms=1_000, monotonic_ms=5)

    clock.set_wall_ms(0)

    assert (clock.wall_ms(), clock.monotonic_ms()) == (0, 5)


def test_time_does_not_advance_backwards() -> None:
    with pytest.raises(ValueError, match="only advances"):
        ManualClock().advance(-1)


def test_system_clock_never_runs_backwards() -> None:
    clock: Clock = SystemClock()

    assert clock.monotonic_ms() <= clock.monotonic_ms()
    assert clock.wall_ms() > 1_700_000_000_000
