"""The seed of a run: explorations choose from it, and `--randomize` orders the tests by it.

Each run has a seed of its own, which its header and the summary of its failures show:

    pytest tests --randomize               modules in any order, and the tests of each
    pytest tests --randomize --seed 4711   the same order and the same choices again
"""

from random import Random, SystemRandom
from typing import Any

import pytest

SEED_BITS = 32


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    parser.addoption("--seed", type=int, help="the seed of an earlier run, to repeat its choices")
    parser.addoption("--randomize", action="store_true", help="run the tests in any order")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of the run; a worker of pytest-xdist has that of its controller."""
    given: dict[str, int] = getattr(config, "workerinput", {})
    if "seed" in given:
        config.option.seed = given["seed"]
    elif config.option.seed is None:
        config.option.seed = SystemRandom().getrandbits(SEED_BITS)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker the seed."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> str:
    """Show the seed."""
    return f"seed: {config.option.seed}"


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Show the seed again where somebody looks for what failed."""
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.write_line(f"--seed {config.option.seed} repeats the choices of this run")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests into any order if that was asked for."""
    if config.option.randomize:
        items[:] = in_any_order(items, Random(config.option.seed))


def in_any_order(items: list[pytest.Item], random: Random) -> list[pytest.Item]:
    """Shuffle the modules, and the tests of each: the fixtures of a module are made once."""
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(str(item.path), []).append(item)
    shuffled = list(modules.values())
    random.shuffle(shuffled)
    for module in shuffled:
        random.shuffle(module)
    return [item for module in shuffled for item in module]


def seeds_of_run(config: pytest.Config, what: str) -> int:
    """Return where the seeds of an exploration begin in this run."""
    return Random(f"{config.option.seed} {what}").getrandbits(SEED_BITS)


@pytest.fixture
def choices(request: pytest.FixtureRequest) -> Random:
    """The choices of one test: others in each run."""
    return Random(f"{request.config.option.seed} {request.node.nodeid}")
