"""Slow tests: each says why it takes its time, and a run names those that do not.

pytest tests --list-slow     what is marked slow, with its reason
"""

from typing import Any

import pytest

SLOW_SECONDS = 10  # of a test's call on an idle machine


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--list-slow", action="store_true", help="list the slow tests and their why")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a mark without a reason."""
    for item in items:
        if item.get_closest_marker("slow") is not None:
            reason_of(item)


def reason_of(item: pytest.Item) -> str:
    """Return why a test may be slow; UsageError when its mark does not say."""
    mark = item.get_closest_marker("slow")
    assert mark is not None
    if len(mark.args) != 1 or not isinstance(mark.args[0], str):
        raise pytest.UsageError(f'{item.nodeid}: expected pytest.mark.slow("why it takes so long")')
    return mark.args[0]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Print the list, one line per module and reason, and end."""
    if not session.config.option.list_slow:
        return
    counts: dict[tuple[str, str], int] = {}
    for item in session.items:
        if item.get_closest_marker("slow") is not None:
            key = item.nodeid.partition("::")[0], reason_of(item)
            counts[key] = counts.get(key, 0) + 1
    print()
    for (module, reason), count in counts.items():
        print(f"{module} ({count}): {reason}")
    session.items.clear()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the tests that are slow and do not say why."""
    for report in terminalreporter.getreports("passed"):
        if report.duration > SLOW_SECONDS and "slow" not in report.keywords:
            terminalreporter.write_line(
                f"{report.duration:.0f} s, not marked slow: {report.nodeid}"
            )
