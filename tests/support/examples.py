"""A share of the examples that hypothesis tries in each test: `--examples 0.2`.

Hypothesis chooses others in each run, so small shares add up.
"""

from typing import Any

import pytest
from hypothesis import settings

# Where hypothesis keeps the settings of a test: nothing public changes them from outside.
KEPT = "_hypothesis_internal_use_settings"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--examples", type=float, default=1.0, help="share of hypothesis's examples")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Apply it to each function once, however many tests it is."""
    if config.option.examples != 1:
        functions = {getattr(item, "function", None) for item in items}
        for function in functions:
            apply(function, config.option.examples)


def apply(function: Any, share: float) -> None:
    """Let a function of hypothesis's try so much less; others have no settings."""
    kept = getattr(function, KEPT, None)
    if kept is not None:
        setattr(function, KEPT, settings(kept, max_examples=max(1, int(kept.max_examples * share))))
