"""What is old is forgotten, by the clock that is right, and nothing else is."""

import pytest

from broker.core.groups.commands import CommitRequest, OffsetToCommit
from broker.core.transactions.commands import InitRequest
from tests.simulation.audit import Intent
from tests.simulation.clock import DAY_MS, HOUR_MS
from tests.simulation.members import ClassicMember
from tests.simulation.simulation import Simulation
from tests.simulation.violation import Violation
from tests.simulation.virtual_time import Task

OFFSET = ("simple", "synced", 0)
ID = "an-id"
LOOKS_MS = 10_000  # so that either coordinator looks for what is too old

pytestmark = pytest.mark.usefixtures("silent_log")


@pytest.fixture
def sim() -> Simulation:
    """A broker that knows an offset and a transactional id that nobody uses, and a live group."""
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


def test_what_was_not_used_while_the_machine_slept_is_forgotten(sim: Simulation) -> None:
    sim.machine.sleep(6 * DAY_MS)
    _wait(sim)
    assert _knows_both(sim)

    sim.machine.sleep(DAY_MS)
    _wait(sim)
    assert not _knows_both(sim)


def test_what_was_not_used_while_the_broker_was_stopped_is_forgotten(sim: Simulation) -> None:
    sim.audit.crashed(sim.broker.crash(is_power_cut=False))
    sim.machine.sleep(8 * DAY_MS)

    sim.broker.start()
    _wait(sim)

    assert not _knows_both(sim)


def test_a_machine_that_was_off_for_days_has_to_be_confirmed(sim: Simulation) -> None:
    sim.audit.crashed(sim.broker.crash(is_power_cut=True))
    sim.machine.reboot(8 * DAY_MS)

    sim.broker.start()
    _wait(sim)
    assert _knows_both(sim)

    sim.broker.clock_keeper.confirm(sim.machine.wall_ms())
    _wait(sim)
    assert not _knows_both(sim)


def test_a_step_that_was_right_ages_what_was_there_once_it_is_confirmed(sim: Simulation) -> None:
    sim.machine.step(8 * DAY_MS)
    _wait(sim)
    assert _knows_both(sim)

    sim.machine.correct()
    sim.broker.clock_keeper.confirm(sim.machine.wall_ms())
    _wait(sim)
    assert not _knows_both(sim)


def test_who_forgets_by_a_clock_that_is_wrong_is_found(sim: Simulation) -> None:
    sim.machine.step(8 * DAY_MS)
    _wait(sim)

    sim.broker.clock_keeper.confirm(sim.machine.wall_ms())  # It is not.

    with pytest.raises(Violation, match="was forgotten"):
        _wait(sim)


def test_what_was_kept_of_the_clock_outlives_the_broker_and_what_was_not_does_not(
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
