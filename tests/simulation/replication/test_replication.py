"""Replicated partitions under everything that can go wrong, thousands of times over.

What must hold is listed in `audit.py`; `tests/simulation/seeds.py` says how to run more.
"""

import pytest

from tests.simulation.replication.mutations import FAILING, MOVING, MUTATIONS, UNCLEAN
from tests.simulation.replication.run import run, run_all
from tests.simulation.seeds import distribute_seeds, output_with_hash_seed
from tests.simulation.violation import Violation

# From its first one on, which moves when the product changes: the rarest show in one of 30.
SEEDS_PER_MUTATION = 400

WORDS = [
    *("kill", "power cut", "lost its disk", "lost records", "stop:", "cut:", "lone:", "last:"),
    *("drain:", "slow:", "fill:", "is cut to", "begins anew at", "reassigns", "is removed"),
]

pytestmark = pytest.mark.usefixtures("silent_log")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Distribute the histories over tests: each takes 100 ms."""
    distribute_seeds(metafunc, "replication", per_test=50)


def test_the_guarantees_of_replicas_hold_under_any_failures(seeds: range) -> None:
    run_all(seeds)


def test_histories_contain_what_they_are_about() -> None:
    sims = [run(seed) for seed in range(12)]
    seen = "\n".join(event for sim in sims for event in sim.events)

    for word in WORDS:
        assert word in seen
    assert sum(sim.replicas.acknowledged_count > 0 for sim in sims) > len(sims) // 2


def test_disks_fail_and_come_back_with_and_without_their_records() -> None:
    sims = [run(seed, FAILING) for seed in range(8)]
    seen = "\n".join(event for sim in sims for event in sim.events)

    for word in ("the disk of", "fails", "is there", "is missing", "is another"):
        assert word in seen
    assert sum(sim.replicas.acknowledged_count > 0 for sim in sims) > len(sims) // 2


def test_logs_move_while_they_are_cut_and_brokers_end() -> None:
    sims = [run(seed, MOVING) for seed in range(12)]

    moves = [sim.moves for sim in sims if sim.moves is not None]
    for counts in (
        [each.moved_count for each in moves],
        [each.cut_count for each in moves],
        [each.ended_count for each in moves],
    ):
        assert any(counts)
    assert sum(sim.replicas.acknowledged_count > 0 for sim in sims) > len(sims) // 2


def test_unclean_elections_lose_what_was_committed() -> None:
    sims = [run(seed, UNCLEAN) for seed in range(6)]

    assert any(sim.replicas.lost_count for sim in sims)


_SHOW = """
import logging
from tests.simulation.replication.run import run

logging.disable(logging.CRITICAL)
for seed in (7, 8, 9):
    sim = run(seed)
    print(*sim.events, sim.replicas.committed, *sim.store.data.history, sep="\\n")
"""


def test_a_seed_gives_the_same_history_of_replicas_in_any_process() -> None:
    first, second = output_with_hash_seed(_SHOW, 1), output_with_hash_seed(_SHOW, 2)

    assert first == second
    assert "part/" in first


@pytest.mark.control
@pytest.mark.parametrize("name", MUTATIONS)
def test_mutated_replication_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS[name]
    mutation.apply(monkeypatch)
    # Failures of disks and moves only where they are looked for: histories with them find less.
    scenario = mutation.scenario._replace(
        log_failures=mutation.scenario is FAILING, moves=mutation.scenario is MOVING
    )

    with pytest.raises(Violation, match="seed"):
        run_all(range(mutation.first_seed, mutation.first_seed + SEEDS_PER_MUTATION), scenario)
