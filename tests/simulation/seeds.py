"""The seeds of a run, distributed over tests.

The suite takes the same histories in each run, so that it fails only by a change.

pytest tests/simulation --simulation-seeds 100000     so many others in each run (run_seed.py)
pytest tests/simulation --simulation-seed 4711        one of them again
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.run_seed import seeds_of_run

ROOT = Path(__file__).parents[2]
SEEDS_PER_TEST = 100
SEEDS_OF_SUITE = range(1_000)
_DrawnT = TypeVar("_DrawnT")


def or_drawn(given: _DrawnT | None, drawn: _DrawnT) -> _DrawnT:
    """Return what a scenario gives, or else what a seed has drawn: its other choices stay."""
    return drawn if given is None else given


def distribute_seeds(metafunc: pytest.Metafunc, what: str, per_test: int = SEEDS_PER_TEST) -> None:
    """Give the tests with an argument `seeds` their histories.

    Args:
        metafunc: the function that is collected.
        what: the simulation: each has other seeds.
        per_test: how many one test runs: so few that it takes no more than ten seconds.
    """
    if "seeds" not in metafunc.fixturenames:
        return
    seed = metafunc.config.getoption("--simulation-seed")
    count = metafunc.config.getoption("--simulation-seeds")
    first = seeds_of_run(metafunc.config, what)
    wanted = SEEDS_OF_SUITE if count is None else range(first, first + count)
    if seed is not None:
        wanted = range(seed, seed + 1)
    parts = [wanted[at : at + per_test] for at in range(0, len(wanted), per_test)]
    metafunc.parametrize("seeds", parts, ids=range(len(parts)))


def output_with_hash_seed(program: str, hash_seed: int) -> str:
    """Return what a Python program prints in a process with this seed of string hashes.

    A history that depends on the order of a set differs between two of them.

    Raises:
        subprocess.CalledProcessError: the program failed.
        subprocess.TimeoutExpired: it took more than a minute.
    """
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
