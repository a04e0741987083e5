"""Decides whether the wall clock can be trusted for expiry. Pure: readings in, a verdict out.

    line    the wall time expected from CLOCK_BOOTTIME since the last trusted reading

    trusted ──(the wall clock leaves the line by more than CLOCK_STEP_MS)──> held
    held ──(it is back at the line, or an operator confirms the time it shows)──> trusted

CLOCK_BOOTTIME advances while the machine sleeps, so waking up is not a step. The line follows the
wall clock, but no faster than a clock is ever slewed: many small steps add up to a large one. While
the clock is held, expiry uses the time 0, by which nothing is old. A timestamp that is stored to
compute an age later gets the later of clock and line, so that the age is never too large, whichever
of the two is right.

A stop of the broker confirms nothing. In the same boot of the machine the line continues. After a
reboot it is unknown how long the machine was off: a clock up to CLOCK_DOWN_MS_MAX ahead of the line
is trusted, one further ahead, or behind, is held, and so is one that was held before.

A confirmation is a wall time in milliseconds that the clock has shown since it stepped; a
confirmation from before a step does not count for it. The reasons for all this are in
docs/decisions/0007-clock-steps-pause-deletion.md.
"""

from enum import Enum
from typing import NamedTuple

from broker.model.limits import CLOCK_DOWN_MS_MAX, CLOCK_SLEW_PPM_MAX, CLOCK_STEP_MS

NOTHING_IS_OLD_MS = 0


class Reading(NamedTuple):
    """Both clocks, read at the same time, in milliseconds."""

    wall_ms: int  # CLOCK_REALTIME
    boot_ms: int  # CLOCK_BOOTTIME


class ClockState(NamedTuple):
    """The state that is stored for the next start."""

    boot_id: str  # of the machine's boot; empty: unknown
    line: Reading  # a point of the line
    ahead_ms_max: int  # how far the clock may be ahead of the line because the machine was off
    is_held: bool
    confirmed_ms: int  # the last confirmation that was processed, whether it had an effect or not


class Change(Enum):
    """The effect of an observation."""

    STEPPED = "stepped"
    RETURNED = "returned"
    CONFIRMED = "confirmed"


class ClockGuard:
    """The line, and whether the wall clock is trusted."""

    __slots__ = (
        "_ahead_ms_max",
        "_boot_id",
        "_boot_ms",
        "_confirmed_ms",
        "_line_us",
        "_stepped",
        "is_held",
    )

    def __init__(
        self, seen: ClockState | None, boot_id: str, now: Reading, confirmed_ms: int
    ) -> None:
        """Continue from the stored state; without one the clock is trusted."""
        self._boot_id = boot_id
        self._boot_ms = now.boot_ms
        self._ahead_ms_max = CLOCK_STEP_MS
        self.is_held = False  # nothing may be deleted by age
        self._confirmed_ms = confirmed_ms
        self._line_us = (now.wall_ms - now.boot_ms) * 1000  # the line minus CLOCK_BOOTTIME
        self._stepped: Reading | None = None  # the first reading after the step
        if seen is not None:
            self._go_on(seen, now)

    def _go_on(self, seen: ClockState, now: Reading) -> None:
        is_same_boot = seen.boot_id == self._boot_id != "" and seen.line.boot_ms <= now.boot_ms
        self._ahead_ms_max = seen.ahead_ms_max
        if is_same_boot:
            self._boot_ms = seen.line.boot_ms
        elif not seen.is_held:
            self._ahead_ms_max += CLOCK_DOWN_MS_MAX
        self._line_us = (seen.line.wall_ms - self._boot_ms) * 1000
        self._confirmed_ms = seen.confirmed_ms
        self.is_held = seen.is_held

    def line_ms(self, now: Reading) -> int:
        """Return the expected wall time, in milliseconds."""
        return now.boot_ms + self._line_us // 1000

    def aged_ms(self, now: Reading) -> int:
        """Return the wall time for expiry; while the clock is held, nothing is old by it."""
        return NOTHING_IS_OLD_MS if self.is_held else now.wall_ms

    def latest_ms(self, now: Reading) -> int:
        """Return the later of the wall time and the line, for timestamps with an age."""
        return max(now.wall_ms, self.line_ms(now)) if self.is_held else now.wall_ms

    def observe(self, now: Reading) -> Change | None:
        """Process a reading of the clocks; called before every other method."""
        passed_ms = max(0, now.boot_ms - self._boot_ms)
        self._boot_ms = now.boot_ms
        away_ms = now.wall_ms - self.line_ms(now)
        if -CLOCK_STEP_MS <= away_ms <= self._ahead_ms_max:
            return self._believe(now, passed_ms, away_ms)
        self.is_held = True
        stepped = self._stepped
        if stepped is not None and abs(_offset_ms(now) - _offset_ms(stepped)) <= CLOCK_STEP_MS:
            return None
        self._stepped = now
        return Change.STEPPED

    def _believe(self, now: Reading, passed_ms: int, away_ms: int) -> Change | None:
        if abs(away_ms) <= CLOCK_STEP_MS:
            slew_us_max = passed_ms * CLOCK_SLEW_PPM_MAX // 1000
            self._line_us += max(-slew_us_max, min(slew_us_max, away_ms * 1000))
        else:
            self._line_us = _offset_ms(now) * 1000  # the machine was off for the difference
        self._ahead_ms_max = CLOCK_STEP_MS
        self._stepped = None
        was_held, self.is_held = self.is_held, False
        return Change.RETURNED if was_held else None

    def confirm(self, confirmed_ms: int, now: Reading) -> Change | None:
        """Process the confirmation in force; CONFIRMED if it confirms the clock's step."""
        is_new, self._confirmed_ms = confirmed_ms != self._confirmed_ms, confirmed_ms
        if self._stepped is None or not is_new:
            return None
        earliest_ms = self._stepped.wall_ms - CLOCK_STEP_MS
        if not earliest_ms <= confirmed_ms <= now.wall_ms + CLOCK_STEP_MS:
            return None
        self._stepped = None
        self._line_us = _offset_ms(now) * 1000
        self._ahead_ms_max = CLOCK_STEP_MS
        self.is_held = False
        return Change.CONFIRMED

    def seen(self, now: Reading) -> ClockState:
        """Return the state to be stored for the next start."""
        line = Reading(self.line_ms(now), now.boot_ms)
        return ClockState(self._boot_id, line, self._ahead_ms_max, self.is_held, self._confirmed_ms)


def _offset_ms(reading: Reading) -> int:
    return reading.wall_ms - reading.boot_ms
