"""The clocks of the broker's machine, of which the wall clock may be wrong.

    passed    CLOCK_BOOTTIME: virtual time, plus the time that the machine slept or was off
    true      the true wall time, which an operator confirms
    shown     the true time plus an error, which a step adds or removes

CLOCK_MONOTONIC is the virtual time: clients do not wait while the machine sleeps or is off.
"""

from broker.model.clock_guard import ClockState
from broker.model.guarded_clock import GuardedClock
from broker.model.limits import CHECKPOINT_SECONDS, CLOCK_STEP_MS, HOUSEKEEPING_SECONDS
from tests.simulation.logs import Disk
from tests.simulation.virtual_time import VirtualTime

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
START_WALL_MS = 1_700_000_000_000
# How wrong a clock becomes: within the tolerance, further, and further than any retention.
_FOLLOWED_MS = (10 * SECOND_MS, -10 * SECOND_MS, 4 * MINUTE_MS, -4 * MINUTE_MS)
_HELD_MS = (HOUR_MS, -HOUR_MS, DAY_MS, -DAY_MS, -20 * DAY_MS)
_FATAL_MS = (20 * DAY_MS, 400 * DAY_MS)
ERRORS_MS = _FOLLOWED_MS + _HELD_MS + 3 * _FATAL_MS
# A confirmed step ages existing state, and so does a machine that is off: in all by less than a
# retention.
CORRECTIONS_MS = (-20 * DAY_MS, -DAY_MS, DAY_MS)
OFF_MS = (0, 10 * MINUTE_MS, 5 * HOUR_MS, 14 * HOUR_MS)
_LOOK_MS = HOUSEKEEPING_SECONDS * SECOND_MS
_KEEP_MS = CHECKPOINT_SECONDS * SECOND_MS


class MachineClock:
    """What its clocks show: the virtual time, and how far each of them is ahead of it."""

    def __init__(self, time: VirtualTime) -> None:
        self.boot = 1
        # Any broker may be some minutes off the truth from now on, after a boot some hours.
        self.has_misled = False
        self._time = time
        self._error_ms = 0
        self._true_ahead_ms = START_WALL_MS
        self._shown_ahead_ms = START_WALL_MS
        self._boot_ahead_ms = 0

    def wall_ms(self) -> int:
        return self._time.now_ms + self._shown_ahead_ms

    def true_ms(self) -> int:
        """Return the true wall time, which changes only by a correction."""
        return self._time.now_ms + self._true_ahead_ms

    def monotonic_ms(self) -> int:
        return self._time.now_ms

    def boot_ms(self) -> int:
        return self._time.now_ms + self._boot_ahead_ms

    def aged_ms(self) -> int:
        """Return the wall time: the simulation does not guard it here."""
        return self.wall_ms()

    def latest_ms(self) -> int:
        """Return the wall time."""
        return self.wall_ms()

    # ---- events
    # -------------------------------------------------------------------------------------

    def step(self, error_ms: int) -> None:
        """Show another time: wrong by that much, or the true one."""
        if abs(error_ms - self._error_ms) <= CLOCK_STEP_MS:
            self.has_misled = True  # It is tolerated as no step.
        self._error_ms = error_ms
        self._shown_ahead_ms = self._true_ahead_ms + error_ms

    def correct(self) -> None:
        """Declare that the shown time is true, and the earlier one was not."""
        self._true_ahead_ms = self._shown_ahead_ms
        self._error_ms = 0
        self.has_misled = True

    def sleep(self, duration_ms: int) -> None:
        """Let time pass while nothing runs."""
        self._true_ahead_ms += duration_ms
        self._shown_ahead_ms += duration_ms
        self._boot_ahead_ms += duration_ms

    def reboot(self, off_ms: int) -> None:
        """Be off for a while, which cannot be distinguished from a step afterwards."""
        self.sleep(off_ms)
        self.boot += 1
        self._boot_ahead_ms = -self._time.now_ms
        self.has_misled = True


class ClockKeeper:
    """Does what server/clock_watch.py does: the clock of each run, and what the next one knows."""

    def __init__(self, time: VirtualTime, machine: MachineClock, disk: Disk) -> None:
        self.clock: GuardedClock
        self.confirmed_ms = 0  # the operator's setting, which survives the broker
        self.kept: ClockState | None = None
        self._time = time
        self._machine = machine
        self._disk = disk
        self._run = 0

    def start(self) -> None:
        """Continue from the stored state, and check once a second."""
        self._run += 1
        boot_id = f"boot {self._machine.boot}"
        self.clock = GuardedClock(self._machine, boot_id, self.kept, self.confirmed_ms)
        self._watch(self._run, due_ms=0, written=-1)

    def stop(self) -> None:
        """Die, together with unfinished writes."""
        self._run += 1

    def confirm(self, wall_ms: int) -> None:
        """Confirm that this time was right when the clock showed it."""
        self.confirmed_ms = wall_ms
        self.clock.confirm(wall_ms)

    def alter_another_setting(self) -> None:
        """Apply all settings again, this one too."""
        self.clock.confirm(self.confirmed_ms)

    def _watch(self, run: int, due_ms: int, written: int) -> None:
        if run != self._run:
            return
        self.clock.aged_ms()
        count, now_ms, wait_ms = self.clock.change_count, self._time.now_ms, _LOOK_MS
        if now_ms >= due_ms or count != written:
            seen, sync_ms = self.clock.seen(), self._disk.sync_ms()
            self._time.after(sync_ms, lambda: self._keep(run, seen))
            due_ms, wait_ms = now_ms + sync_ms + _KEEP_MS, sync_ms + _LOOK_MS
        self._time.after(wait_ms, lambda: self._watch(run, due_ms, count))

    def _keep(self, run: int, seen: ClockState) -> None:
        if run == self._run:
            self.kept = seen
