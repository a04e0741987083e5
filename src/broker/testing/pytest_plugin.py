"""The fixtures broker, broker_session and topic, in every pytest with this package installed.

pytest imports this in each run: it imports nothing but pytest, and the fixture with its first use.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from broker.testing.limits import LOG_LINES_REPORTED

if TYPE_CHECKING:
    from broker.testing.broker import Broker

_NAME_CHARS_MAX = 200  # of a topic: Kafka allows 249


@pytest.fixture(scope="session")
def broker_settings() -> Mapping[str, object]:
    """Return the settings of the brokers; override it in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def broker_session(broker_settings: Mapping[str, object]) -> "Iterator[Broker]":
    """Return a broker that all tests share; nothing is reset."""
    yield from _broker(broker_settings)


@pytest.fixture(scope="session")
def _fresh_broker(broker_settings: Mapping[str, object]) -> "Iterator[Callable[[], Broker]]":
    is_used = False
    with contextmanager(_broker)(broker_settings) as started:

        def fresh() -> "Broker":
            nonlocal is_used
            if is_used:
                started.reset()
            is_used = True
            return started

        yield fresh


@pytest.fixture
def broker(_fresh_broker: "Callable[[], Broker]") -> "Broker":
    """Return a broker with nothing in it; it has the same address in all tests."""
    return _fresh_broker()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return a new topic with one partition, named after the test, in the broker that it uses."""
    name = "broker" if "broker" in request.fixturenames else "broker_session"
    used: Broker = request.getfixturevalue(name)
    text = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:_NAME_CHARS_MAX]
    taken = used.topics()
    unique = next(each for each in _numbered(text) if each not in taken)
    return used.create_topic(unique)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the broker's log below a failed test."""
    report = yield
    if report.failed:
        fixtures = getattr(item, "funcargs", {})
        for name in ("broker", "broker_session"):
            if type(fixtures.get(name)).__module__ == "broker.testing.broker":
                lines = fixtures[name].logs().splitlines()[-LOG_LINES_REPORTED:]
                report.sections.append((f"log of {name}", "\n".join(lines)))
    return report


def _broker(settings: Mapping[str, object]) -> "Iterator[Broker]":
    from broker.testing.broker import Broker  # noqa: PLC0415 - only tests with a broker pay for it

    with Broker(settings) as started:
        yield started


def _numbered(text: str) -> Iterator[str]:
    yield text
    for number in range(2, 1_000_000):
        yield f"{text}-{number}"
