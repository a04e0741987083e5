"""Old state expires by the true clock, and nothing else does."""

import pytest

from broker.core.groups.commands.offsets import CommitRequest, OffsetToCommit
from broker.core.transactions.commands import InitRequest
from tests.simulation.audit import Intent
from tests.simulation.clock import DAY_MS, HOUR_MS
from tests.simulation.members import ClassicMember
from tests.simulation.simulation import Simulation
from tests.simulation.violation import Violation
from tests.simulation.virtual_time import Task

OFFSET = ("simple", "synced", 0)
ID = "an-id"
LOOKS_MS = 10_000  # so that both coordinators check for expiry

pytestmark = pytest.mark.usefixtures("silent_log")


@pytest.fixture
def sim() -> Simulation:
    """A broker with an unused offset and transactional id, and a live group."""
    sim = Simulation(0)
    sim.is_faulty = False
    sim.broker.start()
    sim.time.run_until(1_000)
    sim.audit.intents["c"] = Intent("simple", "", None)
    offset = OffsetToCommit("synced", 0, 5, -1, "c")
    sim.broker.groups.commit_offsets(CommitRequest("simple", "", None, -1, (offset,)))
    sim.broker.transactions.init(InitRequest(ID, 9_000, 1))
    member = ClassicMember(sim, "live", "m", is_static=False)
    Task(member.live(), sim.time.answer())
    _wait(sim, 30_000)
    assert {group for group, _, _ in sim.audit.committed} == {"simple", "live"}
    assert _knows_both(sim)
    return sim


def _wait(sim: Simulation, duration_ms: int = LOOKS_MS) -> None:
    sim.time.run_until(sim.time.now_ms + duration_ms)


def _knows_both(sim: Simulation) -> bool:
    known = (OFFSET in sim.audit.committed, ID in sim.audit.transactions)
    assert known in ((True, True), (False, False))
    assert any(group == "live" for group, _, _ in sim.audit.committed)
    return all(known)


def test_unused_state_expires_while_the_machine_sleeps(sim: Simulation) -> None:
    sim.machine.sleep(6 * DAY_MS)
    _wait(sim)
    assert _knows_both(sim)

    sim.machine.sleep(DAY_MS)
    _wait(sim)
    assert not _knows_both(sim)


def test_unused_state_expires_while_the_broker_is_stopped(sim: Simulation) -> None:
    sim.audit.crashed(sim.broker.crash(is_power_cut=False))
    sim.machine.sleep(8 * DAY_MS)

    sim.broker.start()
    _wait(sim)

    assert not _knows_both(sim)


def test_after_days_without_power_expiry_waits_for_a_confirmation(sim: Simulation) -> None:
    sim.audit.crashed(sim.broker.crash(is_power_cut=True))
    sim.machine.reboot(8 * DAY_MS)

    sim.broker.start()
    _wait(sim)
    assert _knows_both(sim)

    sim.broker.clock_keeper.confirm(sim.machine.wall_ms())
    _wait(sim)
    assert not _knows_both(sim)


def test_after_a_correct_clock_step_is_confirmed_state_ages_by_it(sim: Simulation) -> None:
    sim.machine.step(8 * DAY_MS)
    _wait(sim)
    assert _knows_both(sim)

    sim.machine.correct()
    sim.broker.clock_keeper.confirm(sim.machine.wall_ms())
    _wait(sim)
    assert not _knows_both(sim)


def test_expiry_by_a_wrong_clock_is_detected(sim: Simulation) -> None:
    sim.machine.step(8 * DAY_MS)
    _wait(sim)

    sim.broker.clock_keeper.confirm(sim.machine.wall_ms())  # It is not.

    with pytest.raises(Violation, match="was forgotten"):
        _wait(sim)


def test_only_persisted_clock_state_survives_the_broker(
    sim: Simulation,
) -> None:
    keeper = sim.broker.clock_keeper
    sim.machine.step(HOUR_MS)
    _wait(sim)
    assert keeper.kept is not None
    assert keeper.kept.is_held

    sim.machine.step(0)
    keeper.clock.aged_ms()
    sim.broker.crash(is_power_cut=False)
    _wait(sim)
    assert keeper.kept.is_held

    sim.broker.start()
    _wait(sim)
    assert not keeper.kept.is_held
