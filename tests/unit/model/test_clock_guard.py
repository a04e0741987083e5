"""When the wall clock is trusted, and by which time state ages when it is not."""

import pytest

from broker.model.clock_guard import NOTHING_IS_OLD_MS, Change, ClockGuard, ClockState, Reading
from broker.model.limits import CLOCK_DOWN_MS_MAX, CLOCK_STEP_MS

WALL_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
BOOT = "a-boot"


class Machine:
    """Clocks that are set by hand, and a broker's guard across restarts."""

    def __init__(self) -> None:
        self.wall_ms = WALL_MS
        self.boot_ms = 5_000_000
        self.boot_id = BOOT
        self.confirmed_ms = 0
        self.guard = ClockGuard(None, self.boot_id, self.now, 0)
        assert self.guard.observe(self.now) is None

    @property
    def now(self) -> Reading:
        return Reading(self.wall_ms, self.boot_ms)

    def pass_time(self, milliseconds: int) -> Change | None:
        self.wall_ms += milliseconds
        self.boot_ms += milliseconds
        return self.guard.observe(self.now)

    def step(self, milliseconds: int) -> Change | None:
        self.wall_ms += milliseconds
        return self.guard.observe(self.now)

    def restart(self) -> Change | None:
        seen = self.guard.seen(self.now)
        self.guard = ClockGuard(seen, self.boot_id, self.now, self.confirmed_ms)
        change = self.guard.observe(self.now)
        if self.guard.is_held:
            change = self.guard.confirm(self.confirmed_ms, self.now) or change
        return change

    def reboot(self, off_ms: int, wall_off_ms: int | None = None) -> Change | None:
        """Be off for a while; its clock shows how long, rightly or not."""
        seen = self.guard.seen(self.now)
        self.wall_ms += off_ms if wall_off_ms is None else wall_off_ms
        self.boot_ms, self.boot_id = 10_000, self.boot_id + "'"
        self.guard = ClockGuard(seen, self.boot_id, self.now, self.confirmed_ms)
        return self.guard.observe(self.now)

    def confirm(self, confirmed_ms: int) -> Change | None:
        self.confirmed_ms = confirmed_ms
        return self.guard.confirm(confirmed_ms, self.now)

    @property
    def aged_ms(self) -> int:
        return self.guard.aged_ms(self.now)

    @property
    def latest_ms(self) -> int:
        return self.guard.latest_ms(self.now)


def test_a_steady_clock_is_the_time_for_deletions() -> None:
    machine = Machine()

    assert machine.pass_time(30 * DAY_MS) is None

    assert machine.aged_ms == machine.latest_ms == machine.wall_ms


@pytest.mark.parametrize("days", [1, -1])
def test_nothing_counts_as_old_after_a_clock_step(days: int) -> None:
    machine = Machine()

    assert machine.step(days * DAY_MS) is Change.STEPPED
    assert machine.pass_time(HOUR_MS) is None

    assert machine.aged_ms == NOTHING_IS_OLD_MS


@pytest.mark.parametrize("days", [1, -1])
def test_a_timestamp_after_a_step_is_the_later_of_both_clocks(days: int) -> None:
    machine = Machine()
    machine.step(days * DAY_MS)

    machine.pass_time(HOUR_MS)

    assert machine.latest_ms == WALL_MS + HOUR_MS + max(0, days) * DAY_MS


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_that_returns_is_trusted_again(days: int) -> None:
    machine = Machine()
    machine.step(days * DAY_MS)
    machine.pass_time(HOUR_MS)

    assert machine.step(-days * DAY_MS + 1000) is Change.RETURNED

    assert machine.aged_ms == machine.latest_ms == WALL_MS + HOUR_MS + 1000


def test_a_step_of_less_than_the_limit_is_followed() -> None:
    machine = Machine()

    assert machine.step(CLOCK_STEP_MS) is None
    assert machine.step(-2 * CLOCK_STEP_MS) is None

    assert machine.aged_ms == machine.wall_ms


def test_small_steps_add_up_to_a_step() -> None:
    machine = Machine()

    changes = [machine.step(100_000) or machine.pass_time(1000) for _ in range(4)]

    assert changes[-1] is Change.STEPPED


def test_a_clock_slewed_over_days_is_followed() -> None:
    machine = Machine()

    for _ in range(20 * 24):  # 500 ppm, the kernel's most
        assert machine.pass_time(HOUR_MS) is None
        assert machine.step(HOUR_MS * 500 // 1_000_000) is None

    assert not machine.guard.is_held


def test_a_second_step_is_reported_too() -> None:
    machine = Machine()
    machine.step(-DAY_MS)

    assert machine.step(3 * DAY_MS) is Change.STEPPED

    assert machine.aged_ms == NOTHING_IS_OLD_MS


@pytest.mark.parametrize("days", [1, -1])
def test_an_operator_confirms_the_clock_after_its_step(days: int) -> None:
    machine = Machine()
    machine.step(days * DAY_MS)
    shown_ms = machine.wall_ms
    machine.pass_time(HOUR_MS)

    assert machine.confirm(shown_ms) is Change.CONFIRMED

    assert machine.pass_time(HOUR_MS) is None
    assert machine.aged_ms == machine.wall_ms


@pytest.mark.parametrize("away_ms", [-HOUR_MS, HOUR_MS, -DAY_MS])
def test_a_confirmation_of_another_time_is_ignored(away_ms: int) -> None:
    machine = Machine()
    machine.step(DAY_MS)

    assert machine.confirm(machine.wall_ms + away_ms) is None

    assert machine.guard.is_held


@pytest.mark.parametrize("days", [1, -1])
def test_a_confirmation_does_not_cover_later_steps(days: int) -> None:
    machine = Machine()
    machine.step(DAY_MS)
    machine.confirm(machine.wall_ms)
    machine.pass_time(HOUR_MS)

    assert machine.step(days * HOUR_MS) is Change.STEPPED
    assert machine.confirm(machine.confirmed_ms) is None
    assert machine.restart() is Change.STEPPED

    assert machine.guard.is_held


@pytest.mark.parametrize("restarts", [False, True])
def test_an_ignored_confirmation_does_not_cover_later_steps(*, restarts: bool) -> None:
    machine = Machine()
    machine.step(DAY_MS)
    assert machine.confirm(machine.wall_ms + 20 * DAY_MS) is None
    if restarts:
        machine.restart()

    assert machine.step(20 * DAY_MS) is Change.STEPPED
    assert machine.confirm(machine.confirmed_ms) is None  # as other settings are altered
    assert machine.restart() is Change.STEPPED

    assert machine.guard.is_held
    assert machine.confirm(machine.wall_ms + 1) is Change.CONFIRMED


@pytest.mark.parametrize("days", [1, -1])
def test_a_restart_confirms_nothing(days: int) -> None:
    machine = Machine()
    machine.step(days * DAY_MS)
    machine.pass_time(HOUR_MS)

    assert machine.restart() is Change.STEPPED

    assert machine.aged_ms == NOTHING_IS_OLD_MS


@pytest.mark.parametrize("days", [1, -1])
def test_a_step_while_the_broker_was_stopped_is_detected_at_the_start(days: int) -> None:
    machine = Machine()
    seen = machine.guard.seen(machine.now)
    machine.wall_ms += days * DAY_MS + HOUR_MS
    machine.boot_ms += HOUR_MS

    guard = ClockGuard(seen, BOOT, machine.now, 0)

    assert guard.observe(machine.now) is Change.STEPPED
    assert guard.aged_ms(machine.now) == NOTHING_IS_OLD_MS


def test_a_broker_that_was_stopped_for_long_trusts_a_clock_that_advanced_evenly() -> None:
    machine = Machine()
    seen = machine.guard.seen(machine.now)
    machine.wall_ms += 30 * DAY_MS
    machine.boot_ms += 30 * DAY_MS

    guard = ClockGuard(seen, BOOT, machine.now, 0)

    assert guard.observe(machine.now) is None


def test_a_start_with_a_new_confirmation_trusts_the_clock() -> None:
    machine = Machine()
    machine.step(DAY_MS)
    machine.confirmed_ms = machine.wall_ms

    assert machine.restart() is Change.CONFIRMED


def test_a_machine_that_was_off_overnight_has_not_stepped() -> None:
    machine = Machine()

    assert machine.reboot(CLOCK_DOWN_MS_MAX) is None

    assert machine.aged_ms == machine.wall_ms
    assert machine.step(CLOCK_STEP_MS + 1) is Change.STEPPED  # it is no longer allowed that much


@pytest.mark.parametrize("days", [1, -1])
def test_after_a_boot_a_clock_a_day_away_is_not_trusted(days: int) -> None:
    machine = Machine()

    assert machine.reboot(60_000, wall_off_ms=days * DAY_MS) is Change.STEPPED

    assert machine.aged_ms == NOTHING_IS_OLD_MS


def test_a_boot_does_not_excuse_an_earlier_step() -> None:
    machine = Machine()
    machine.step(HOUR_MS)

    assert machine.reboot(60_000) is Change.STEPPED

    assert machine.guard.is_held


@pytest.mark.parametrize("restarts", [False, True])
def test_after_a_boot_a_corrected_clock_is_trusted(*, restarts: bool) -> None:
    machine = Machine()
    machine.reboot(HOUR_MS, wall_off_ms=-DAY_MS)
    if restarts:
        machine.restart()

    assert machine.step(DAY_MS + HOUR_MS) is Change.RETURNED

    assert machine.aged_ms == WALL_MS + HOUR_MS


def test_an_unknown_boot_id_counts_as_a_new_boot() -> None:
    machine = Machine()
    seen = ClockState("", Reading(WALL_MS, machine.boot_ms), CLOCK_STEP_MS, False, 0)
    machine.wall_ms += HOUR_MS

    assert ClockGuard(seen, "", machine.now, 0).observe(machine.now) is None
