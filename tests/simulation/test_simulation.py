"""Groups and transactions under everything that can go wrong, thousands of times over."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.run import run
from tests.simulation.seeds import distribute_seeds
from tests.simulation.violation import Violation

ROOT = Path(__file__).parents[2]
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


def _told(hash_seed: str) -> str:
    """Return the events and the final logs of a process with this string hash seed."""
    return subprocess.run(
        [sys.executable, "-c", _TELL],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def test_a_seed_gives_the_same_history_in_any_process() -> None:
    first, second = _told("1"), _told("2")

    assert first == second
    assert "broker died" in first


@pytest.mark.control
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutated_coordinator_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, parts = MUTATIONS[name]
    apply(monkeypatch)

    with pytest.raises(Violation, match="seed"):
        _run_all(range(SEEDS_PER_MUTATION), parts)
