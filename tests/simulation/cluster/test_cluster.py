"""Brokers, a metadata store and everything that can go wrong between them, thousands of times.

What must hold is listed in `audit.py`; `tests/simulation/seeds.py` says how to run more.
"""

import pytest

from tests.simulation.cluster.mutations import MUTATIONS, RARE
from tests.simulation.cluster.run import ANY, run, run_all
from tests.simulation.seeds import distribute_seeds, output_with_hash_seed
from tests.simulation.violation import Violation

SEEDS_PER_MUTATION = 2_000  # the rarest show in one of a hundred

pytestmark = pytest.mark.usefixtures("silent_log")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Distribute the histories over tests: each takes 40 ms."""
    distribute_seeds(metafunc, "cluster")


def test_the_guarantees_of_a_cluster_hold_under_any_failures(seeds: range) -> None:
    run_all(seeds)


def test_histories_contain_what_they_are_about() -> None:
    seen = "\n".join(event for seed in range(20) for event in run(seed).events)

    for word in ("kill:", "stop:", "drain:", "second process:", "unavailable", "compacted"):
        assert f"--- {word}" in seen or word in seen
    for word in ("creates", "enlarges", "deletes", "runs again"):
        assert word in seen


_SHOW = """
from tests.simulation.cluster.run import run

for seed in (7, 8, 9):
    sim = run(seed)
    print(*sim.events, *sim.store.data.history, sep="\\n")
"""


def test_a_seed_gives_the_same_history_of_a_cluster_in_any_process() -> None:
    first, second = output_with_hash_seed(_SHOW, 1), output_with_hash_seed(_SHOW, 2)

    assert first == second
    assert "part/" in first


@pytest.mark.control
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutated_cluster_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS[name](monkeypatch)
    first, scenario = RARE.get(name, (0, ANY))

    with pytest.raises(Violation, match="seed"):
        run_all(range(first, first + SEEDS_PER_MUTATION), scenario)
