"""What the disk keeps through a kill or a power cut at any moment of a broker's runs.

Each run looks at other states (tests/support/run_seed.py).

pytest tests/crash_states --crash-states 1000000     more states than usual
pytest tests/crash_states --crash-seed 4711          one of them again
"""

from typing import Any

import pytest

from tests.crash_states.exploration import STATES_PER_SEED
from tests.crash_states.planted_bugs import PLANTED
from tests.crash_states.run import crash_states
from tests.support.run_seed import seeds_of_run

STATES_PER_TEST = 1_000
SEEDS_PER_TEST = 100  # more than a test needs
SEEDS_PER_BUG = 150  # a seed finds the rarest of them once in 15


pytestmark = pytest.mark.usefixtures("silent_log")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Distribute the states over tests."""
    if "part" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("--crash-states")
        is_one = metafunc.config.getoption("--crash-seed") is not None
        metafunc.parametrize("part", range(1 if is_one else -(-wanted // STATES_PER_TEST)))


def test_every_start_finds_everything_acknowledged(part: int, pytestconfig: pytest.Config) -> None:
    only = pytestconfig.getoption("--crash-seed")
    if only is not None:
        for state in crash_states(only // STATES_PER_SEED, only=only):
            assert not state.findings, state.findings
        return
    count = 0
    first = seeds_of_run(pytestconfig, "crash_states") + part * SEEDS_PER_TEST
    wanted = min(pytestconfig.getoption("--crash-states"), STATES_PER_TEST)
    for seed in range(first, first + SEEDS_PER_TEST):
        for state in crash_states(seed):
            assert not state.findings, f"--crash-seed {state.number}: {state.findings}"
            count += 1
        if count >= wanted:
            return
    raise AssertionError(f"only {count} states")


@pytest.mark.control
def test_durability_os_loses_records_at_a_power_cut() -> None:
    """The control: what `os` states to lose, the simulated disk loses and the check sees."""
    seeds = range(SEEDS_PER_BUG)
    assert any(state.lost_as_stated for seed in seeds for state in crash_states(seed))


def _marked(name: str) -> Any:
    if name != "takes for synced what came while a sync went on":
        return name
    return pytest.param(name, marks=pytest.mark.slow("it shows in few of the states of many runs"))


@pytest.mark.control
@pytest.mark.parametrize("name", [_marked(each) for each in PLANTED])
def test_a_planted_bug_is_found(name: str) -> None:
    bug, findings, first_seed, scenario = PLANTED[name]

    for seed in range(first_seed, first_seed + SEEDS_PER_BUG):
        for state in crash_states(seed, bug, scenario=scenario):
            if {finding.what for finding in state.findings} & findings:
                return
    raise AssertionError(f"nothing was found of {findings}")
