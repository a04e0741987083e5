"""The only door to the time: whoever needs it is given a Clock, so that tests can turn it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored and shown, monotonic time for every timeout."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, which an operator or NTP may set back."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment, never running backwards."""


class SystemClock:
    """The clocks of the operating system."""

    __slots__ = ()

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds of CLOCK_MONOTONIC."""
        return time.monotonic_ns() // 1_000_000


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

    def advance(self, milliseconds: int) -> None:
        """Let time pass on both clocks."""
        if milliseconds < 0:
            raise ValueError("time only advances; set_wall_ms() turns the wall clock back")
        self._wall_ms += milliseconds
        self._monotonic_ms += milliseconds

    def set_wall_ms(self, wall_ms: int) -> None:
        """Set the wall clock alone, as an operator can."""
        self._wall_ms = wall_ms
