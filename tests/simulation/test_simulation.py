"""Groups and transactions under everything that can go wrong, thousands of times over.

pytest tests/simulation --simulation-seeds 100000     more histories than usual
pytest tests/simulation --simulation-seed 4711        one of them again
"""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.audit import Violation
from tests.simulation.mutations import MUTATIONS
from tests.simulation.run import run

SEEDS_PER_MUTATION = 40
SEEDS_PER_TEST = 100


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Let coordinators say nothing: it would be kept for each of the tests."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test of many histories some of them."""
    if "seeds" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--simulation-seed")
        wanted = range(metafunc.config.getoption("--simulation-seeds"))
        if seed is not None:
            wanted = range(seed, seed + 1)
        parts = [wanted[at : at + SEEDS_PER_TEST] for at in range(0, len(wanted), SEEDS_PER_TEST)]
        metafunc.parametrize("seeds", parts, ids=lambda part: f"{part.start}-{part.stop - 1}")


def _run_all(seeds: range, parts: str = "") -> None:
    for seed in seeds:
        run(seed, parts)


def test_what_was_promised_holds_whatever_fails(seeds: range) -> None:
    _run_all(seeds)


def test_a_seed_is_one_history() -> None:
    first, second = run(7, "all"), run(7, "all")

    assert first.events == second.events
    assert any("broker died" in event for event in first.events)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_coordinator_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, parts = MUTATIONS[name]
    apply(monkeypatch)

    with pytest.raises(Violation, match="seed"):
        _run_all(range(SEEDS_PER_MUTATION), parts)
