"""The broker's clock logs once how far it trusts the wall clock."""

from pathlib import Path

import pytest

from broker.model.guarded_clock import GuardedClock
from broker.storage.checkpoints import clock_checkpoint
from tests.support.manual_clock import ManualClock

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
STEPPED = "the wall clock has stepped"


def test_every_age_is_read_after_the_clocks_are_checked(caplog: pytest.LogCaptureFixture) -> None:
    machine = ManualClock()
    clock = GuardedClock(machine, "boot", None, 0)
    machine.set_wall_ms(machine.wall_ms() + DAY_MS)

    assert clock.aged_ms() == 0
    assert clock.latest_ms() == clock.wall_ms() == machine.wall_ms()

    machine.advance(HOUR_MS)
    assert clock.aged_ms() == 0
    assert caplog.text.count(STEPPED) == 1
    assert f"polylog.clock.confirmed.ms={machine.wall_ms() - HOUR_MS}" in caplog.text
    assert f"stepped_ms=+{DAY_MS}" in caplog.text


def test_a_confirmation_that_does_not_match_the_step_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = ManualClock()
    clock = GuardedClock(machine, "boot", None, 0)
    machine.set_wall_ms(machine.wall_ms() - DAY_MS)

    for _ in range(2):  # as other settings are altered
        clock.confirm(machine.wall_ms() + DAY_MS)

    assert caplog.text.count("does not confirm the clock's step") == 1
    clock.confirm(machine.wall_ms())
    assert clock.aged_ms() == machine.wall_ms()


def test_a_start_with_the_requested_confirmation_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = ManualClock()
    seen = GuardedClock(machine, "boot", None, 0).seen()
    machine.set_wall_ms(machine.wall_ms() + DAY_MS)

    clock = GuardedClock(machine, "boot", seen, machine.wall_ms())

    assert clock.aged_ms() == machine.wall_ms()
    assert "confirmed" in caplog.text


def test_a_confirmation_given_before_the_step_is_stored_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = ManualClock()
    clock = GuardedClock(machine, "boot", None, 0)
    in_advance_ms = machine.wall_ms() + DAY_MS
    count = clock.change_count

    clock.confirm(in_advance_ms)
    clock.confirm(in_advance_ms)  # as other settings are altered

    assert clock.change_count == count + 1  # by which it is written at once
    machine.set_wall_ms(in_advance_ms)
    successor = GuardedClock(machine, "boot", clock.seen(), in_advance_ms)
    assert successor.aged_ms() == 0
    assert "is believed" not in caplog.text


def test_a_checkpoint_is_read_as_it_was_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = ManualClock()
    clock = GuardedClock(machine, "boot", None, 7)
    machine.set_wall_ms(machine.wall_ms() + DAY_MS)

    assert clock_checkpoint.read(tmp_path) is None
    clock_checkpoint.write(tmp_path, clock.seen())
    assert clock_checkpoint.read(tmp_path) == clock.seen()

    (tmp_path / clock_checkpoint.FILE_NAME).write_text("boot.id=boot\nwall.ms=soon\n")
    assert clock_checkpoint.read(tmp_path) is None
    assert "damaged checkpoint" in caplog.text
