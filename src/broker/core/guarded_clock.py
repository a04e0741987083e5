"""The broker's clock: the system's, and beside it the times that a step cannot age anything by.

Retention, offsets, transactional ids and tombstones go by `aged_ms`; what is stamped only to tell
its age by later, by `latest_ms`. Records have the wall clock's time, whatever it shows.
"""

import logging
from typing import Protocol

from broker.model.clock import Clock
from broker.model.clock_guard import Change, ClockGuard, ClockState, Reading

_log = logging.getLogger(__name__)


class MachineClock(Clock, Protocol):
    """A clock that knows how long the machine runs."""

    def boot_ms(self) -> int:
        """Milliseconds since its boot, those asleep too."""


class GuardedClock:
    """A clock that is watched; each look at an age looks at the clocks first."""

    __slots__ = ("_clock", "_guard", "_heard_ms", "change_count")

    def __init__(
        self, clock: MachineClock, boot_id: str, seen: ClockState | None, confirmed_ms: int
    ) -> None:
        """Go on from what an earlier life has seen of the clock."""
        self._clock = clock
        self._guard = ClockGuard(seen, boot_id, self._now(), confirmed_ms)
        self._heard_ms = 0  # the last confirmation that was looked at
        self.change_count = 0  # of what the next life must know without delay
        self.confirm(confirmed_ms)

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as the machine has them."""
        return self._clock.wall_ms()

    def monotonic_ms(self) -> int:
        """Milliseconds of CLOCK_MONOTONIC."""
        return self._clock.monotonic_ms()

    def aged_ms(self) -> int:
        """The wall time to delete by; nothing is old by it while the clock is not believed."""
        return self._guard.aged_ms(self._look())

    def latest_ms(self) -> int:
        """The wall time to stamp by: the later one of what is shown and what was expected."""
        return self._guard.latest_ms(self._look())

    def seen(self) -> ClockState:
        """What the next life must know."""
        return self._guard.seen(self._look())

    def confirm(self, confirmed_ms: int) -> None:
        """Take the confirmation that is in force now."""
        now = self._look()
        was_held = self._guard.is_held
        is_new = confirmed_ms != self._heard_ms
        # The next life has to know it, or takes it for one that speaks for a later step.
        self.change_count += is_new
        change = self._guard.confirm(confirmed_ms, now)
        if change is not None:
            self._log_change(change, now)
        elif was_held and is_new:
            _log.warning(
                "this says nothing of the clock's step, deletion by age still waits:"
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
