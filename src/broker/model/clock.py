"""The clock interface: code that needs the time is given a Clock, so that tests can set it."""

import time
from collections.abc import Callable
from typing import Protocol

# Nanoseconds of CLOCK_MONOTONIC, to measure the work of one turn of the loop.
monotonic_ns: Callable[[], int] = time.monotonic_ns
# Seconds of the same clock, for deadlines beside the event loop's timers.
monotonic: Callable[[], float] = time.monotonic


class Clock(Protocol):
    """Wall time for what is stored and shown, monotonic time for every timeout."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970; an operator or NTP may set this clock back."""

    def monotonic_ms(self) -> int:
        """Return milliseconds of a clock that never runs backwards."""

    def aged_ms(self) -> int:
        """Return the wall time for expiry; 0 after a clock step, so that nothing is old by it."""

    def latest_ms(self) -> int:
        """Return the wall time to store if an age is computed later; see model/clock_guard.py."""


class SystemClock:
    """The clocks of the operating system."""

    __slots__ = ()

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds of CLOCK_MONOTONIC."""
        return time.monotonic_ns() // 1_000_000

    def boot_ms(self) -> int:
        """Return milliseconds of CLOCK_BOOTTIME, which advances while the machine sleeps."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def aged_ms(self) -> int:
        """Return the wall time: this clock does not detect steps."""
        return self.wall_ms()

    def latest_ms(self) -> int:
        """Return the wall time."""
        return self.wall_ms()
