"""The broker's clock: wall time, monotonic time, and times that are safe against clock steps.

Expiry (retention, offsets, transactional ids, tombstones) uses `aged_ms`; a timestamp that is
stored only to compute an age later uses `latest_ms`. Records get the wall time as it is.
docs/decisions/0007-clock-steps-pause-deletion.md has the reason.
"""

import logging
from typing import Protocol

from broker.model.clock import Clock
from broker.model.clock_guard import Change, ClockGuard, ClockState, Reading

_log = logging.getLogger(__name__)


class MachineClock(Clock, Protocol):
    """A clock that also reports the time since boot."""

    def boot_ms(self) -> int:
        """Return milliseconds since the boot, including time asleep."""


class GuardedClock:
    """A clock that checks for steps of the wall clock each time an age is computed."""

    __slots__ = ("_clock", "_guard", "_heard_ms", "change_count", "step_count")

    def __init__(
        self, clock: MachineClock, boot_id: str, seen: ClockState | None, confirmed_ms: int
    ) -> None:
        """Start from the clock state that was stored before the last stop, if any."""
        self._clock = clock
        self._guard = ClockGuard(seen, boot_id, self._now(), confirmed_ms)
        self._heard_ms = 0  # the last confirmation that was processed
        self.change_count = 0  # of changes that must be stored without delay
        self.step_count = 0  # of the wall clock, since the start
        self.confirm(confirmed_ms)

    def wall_ms(self) -> int:
        """Return the wall time in milliseconds since 1970."""
        return self._clock.wall_ms()

    def monotonic_ms(self) -> int:
        """Return milliseconds of CLOCK_MONOTONIC."""
        return self._clock.monotonic_ms()

    def aged_ms(self) -> int:
        """Return the wall time for expiry; after a clock step nothing is old by it."""
        return self._guard.aged_ms(self._look())

    def latest_ms(self) -> int:
        """Return the later one of the wall time and the expected time."""
        return self._guard.latest_ms(self._look())

    def seen(self) -> ClockState:
        """Return what has to be stored for the next start."""
        return self._guard.seen(self._look())

    @property
    def is_held(self) -> bool:
        """Whether the wall clock is not believed: nothing is old by it."""
        return self._guard.is_held

    def confirm(self, confirmed_ms: int) -> None:
        """Process the operator's confirmation (polylog.clock.confirmed.ms) that is in force."""
        now = self._look()
        was_held = self._guard.is_held
        is_new = confirmed_ms != self._heard_ms
        # Stored, so that the next start does not take it for a confirmation of a later step.
        self.change_count += is_new
        change = self._guard.confirm(confirmed_ms, now)
        if change is not None:
            self._log_change(change, now)
        elif was_held and is_new:
            _log.warning(
                "this value does not confirm the clock's step, deletion by age still waits:"
                " polylog.clock.confirmed.ms=%d wall_ms=%d",
                confirmed_ms,
                now.wall_ms,
            )
        self._heard_ms = confirmed_ms

    def _now(self) -> Reading:
        return Reading(self._clock.wall_ms(), self._clock.boot_ms())

    def _look(self) -> Reading:
        now = self._now()
        away_ms = now.wall_ms - self._guard.line_ms(now)
        change = self._guard.observe(now)
        if change is not None:
            self._log_change(change, now, away_ms)
        return now

    def _log_change(self, change: Change, now: Reading, away_ms: int = 0) -> None:
        self.change_count += 1
        if change is Change.STEPPED:
            self.step_count += 1
            _log.warning(
                "the wall clock has stepped, nothing is deleted by age until it returns or is"
                " confirmed: stepped_ms=%+d wall_ms=%d expected_ms=%d to_confirm=%s",
                away_ms,
                now.wall_ms,
                now.wall_ms - away_ms,
                f"'set the broker configuration polylog.clock.confirmed.ms={now.wall_ms}'",
            )
        else:
            _log.warning(
                "the wall clock is believed, what is old is deleted again: %s wall_ms=%d",
                change.value,
                now.wall_ms,
            )
