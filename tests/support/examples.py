"""A share of the examples of each test: `--examples 0.2`.

Examples are what hypothesis tries, and the cases of a test that has very many: each version of each
message, each codec with each library. Each run chooses others, so small shares add up; a run
without the option has all cases.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, Protocol

import pytest
from hypothesis import settings

# Where hypothesis keeps the settings of a test: nothing public changes them from outside.
KEPT = "_hypothesis_internal_use_settings"
# A test with at most this many cases has all of them in each run: each of them may be a rule.
CASES_MAX = 50
# What a share leaves at least of a test with more.
CASES_MIN = 20


class Case(Protocol):
    """A test item: one case of a test."""

    @property
    def nodeid(self) -> str:
        """Its name, with the case in brackets."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--examples",
        type=float,
        default=1.0,
        help=f"share of hypothesis's examples; below 1, also of the cases of a test with more than "
        f"{CASES_MAX}",
    )


@pytest.hookimpl(trylast=True)  # after the selection by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Apply it to each function once, however many tests it is, and to the cases of a function."""
    share: float = config.option.examples
    if share != 1:
        for function in {getattr(item, "function", None) for item in items}:
            apply(function, share)
    if share < 1:
        kept = cases(items, share, config.option.seed)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
        items[:] = [item for item in items if item.nodeid in kept]


def apply(function: Any, share: float) -> None:
    """Let a function of hypothesis's try so much less; others have no settings."""
    kept = getattr(function, KEPT, None)
    if kept is not None:
        setattr(function, KEPT, settings(kept, max_examples=max(1, int(kept.max_examples * share))))


def cases(items: Sequence[Case], share: float, seed: int) -> set[str]:
    """Return the names of the cases that a share leaves; a seed chooses the same ones again."""
    tests: dict[str, list[str]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    kept: set[str] = set()
    for test, names in tests.items():
        count = len(names) if len(names) <= CASES_MAX else max(CASES_MIN, round(len(names) * share))
        kept.update(Random(f"{seed} {test}").sample(names, count))
    return kept
