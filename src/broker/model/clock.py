"""The only door to the time: whoever needs it is given a Clock, so that tests can turn it."""

import time
from collections.abc import Callable
from typing import Protocol

# Nanoseconds of CLOCK_MONOTONIC: to measure with what one turn of the loop does.
monotonic_ns: Callable[[], int] = time.monotonic_ns


class Clock(Protocol):
    """Wall time for what is stored and shown, monotonic time for every timeout."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, which an operator or NTP may set back."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment, never running backwards."""

    def aged_ms(self) -> int:
        """The wall time to delete by; the beginning of time once the wall clock has stepped."""

    def latest_ms(self) -> int:
        """The wall time that is stored to tell an age by: the later one when it steps."""


class SystemClock:
    """The clocks of the operating system."""

    __slots__ = ()

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds of CLOCK_MONOTONIC."""
        return time.monotonic_ns() // 1_000_000

    def boot_ms(self) -> int:
        """Milliseconds of CLOCK_BOOTTIME, which goes on while the machine sleeps."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def aged_ms(self) -> int:
        """As the wall clock: nobody watches it here."""
        return self.wall_ms()

    def latest_ms(self) -> int:
        """As the wall clock."""
        return self.wall_ms()


class ManualClock:
    """A clock that stands still until a test moves it."""

    __slots__ = ("_monotonic_ms", "_wall_ms")

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 0) -> None:
        """Start both clocks at the given times."""
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as set."""
        return self._wall_ms

    def monotonic_ms(self) -> int:
        """Milliseconds since the start, as advanced."""
        return self._monotonic_ms

    def aged_ms(self) -> int:
        """As the wall clock."""
        return self._wall_ms

    def latest_ms(self) -> int:
        """As the wall clock."""
        return self._wall_ms

    def boot_ms(self) -> int:
        """As the monotonic clock."""
        return self._monotonic_ms

    def advance(self, milliseconds: int) -> None:
        """Let time pass on both clocks."""
        if milliseconds < 0:
            raise ValueError("time only advances; set_wall_ms() turns the wall clock back")
        self._wall_ms += milliseconds
        self._monotonic_ms += milliseconds

    def set_wall_ms(self, wall_ms: int) -> None:
        """Set the wall clock alone, as an operator can."""
        self._wall_ms = wall_ms
