"""Groups and transactions under everything that can go wrong, thousands of times over."""

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.run import run
from tests.simulation.seeds import distribute_seeds, output_with_hash_seed
from tests.simulation.violation import Violation

SEEDS_PER_MUTATION = 40


pytestmark = pytest.mark.usefixtures("silent_log")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Distribute the histories over tests."""
    distribute_seeds(metafunc, "simulation")


def _run_all(seeds: range, parts: str = "") -> None:
    for seed in seeds:
        run(seed, parts)


def test_the_guarantees_hold_under_any_failures(seeds: range) -> None:
    _run_all(seeds)


def test_a_heartbeat_during_a_load_is_no_sign_that_the_group_knows_the_member() -> None:
    """A removed member's heartbeat succeeds in it, and its partition belongs to another one."""
    run(2504792090)


_TELL = """
from tests.simulation.run import run

for parts in ("groups", "consumers", "producers", "rolls", "all"):
    sim = run(7, parts)
    print(*sim.events, *(repr(log.entries) for log in sim.broker.logs.values()), sep="\\n")
"""


def test_a_seed_gives_the_same_history_in_any_process() -> None:
    first, second = output_with_hash_seed(_TELL, 1), output_with_hash_seed(_TELL, 2)

    assert first == second
    assert "broker died" in first


@pytest.mark.control
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutated_coordinator_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, parts = MUTATIONS[name]
    apply(monkeypatch)

    with pytest.raises(Violation, match="seed"):
        _run_all(range(SEEDS_PER_MUTATION), parts)
