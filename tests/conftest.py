"""Fixtures around a real broker process.

`POLYLOG_TEST_BOOTSTRAP=host:port pytest tests/compatibility` runs the client tests against another
running broker (an Apache Kafka, for example), which proves the tests themselves. Tests that must
kill, restart or inspect the process are skipped then.
"""

import gc
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess, ExternalBroker, wait_until

pytest_plugins = [
    "tests.support.examples",
    "tests.support.free_disk",
    "tests.support.run_seed",
    "tests.support.slow_tests",
]
pytest.register_assert_rewrite("tests.compatibility.clients.client_checks")
# No test depends on how busy the machine is.
settings.register_profile("polylog", deadline=None)
settings.load_profile("polylog")

# Settings that make groups fast enough for tests; everything else has its default.
TEST_SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
GROWTH_BYTES_MAX = 24 << 20  # private memory that bad input may leave allocated
JVM_FIXTURES = {"java", "older_java", "spark"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for long runs of kill -9, full disks, fuzzed inputs and simulations."""
    parser.addoption(
        "--kill-cycles", type=int, default=6, help="kill -9 cycles per durability word"
    )
    parser.addoption(
        "--cluster-faults", type=int, default=1, help="faults under the load of each client"
    )
    parser.addoption("--disk-cycles", type=int, default=1, help="times that a disk is filled")
    parser.addoption(
        "--fuzz-inputs", type=int, default=200, help="changed inputs per target of tests/fuzz"
    )
    parser.addoption(
        "--simulation-seeds", type=int, help="other histories of tests/simulation than the suite's"
    )
    parser.addoption("--crash-states", type=int, default=4_000, help="states of tests/crash_states")
    parser.addoption(
        "--authorizer-decisions", type=int, default=20_000, help="compared with the reference"
    )
    parser.addoption(
        "--security-matrix", type=int, default=3, help="combinations of TLS, login, ACLs per client"
    )
    parser.addoption(
        "--removed-rights", type=int, default=1, help="ACLs that each application is run without"
    )
    parser.addoption("--crash-seed", type=int, help="one of them, again")
    parser.addoption(
        "--attack-rounds", type=int, default=1, help="how often each attack is tried on a small one"
    )
    parser.addoption("--simulation-seed", type=int, help="one of them, again")
    parser.addoption("--job-kills", type=int, help="kill -9 per drill of tests/pipeline")
    parser.addoption(
        "--pyspark",
        action="append",
        default=[],
        help="a Python whose environment has another PySpark, for tests/pipeline; may be repeated",
    )
    parser.addoption(
        "--rebuild-without-protocols",
        action="store_true",
        help="build the sources without each protocol that can be removed, and test the rest",
    )
    parser.addoption(
        "--every-client",
        action="store_true",
        help="tests/cluster/test_replicas.py with each client",
    )
    parser.addoption(
        "--every-python",
        action="store_true",
        help="a wheel for each supported Python that is there",
    )
    parser.addoption("--every-call-site", action="store_true", help="one EIO at each, not some")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts a JVM by a fixture."""
    for item in items:
        if not JVM_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.jvm)


def pytest_collection_finish() -> None:
    """Keep the collected tests out of garbage collection, which tests start many times."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def silent_log() -> Iterator[None]:
    """Disable logging where it would be captured for each of thousands of histories."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests that leave it as they found it."""
    address = os.environ.get("POLYLOG_TEST_BOOTSTRAP")
    if address:
        yield ExternalBroker(address)
        return
    # The records of most tests are years old: no retention check runs during a test.
    settings = (*TEST_SETTINGS, "log.retention.check.interval.ms=86400000")
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), settings=settings)
    broker.start()
    yield broker
    assert broker.stop() == 0
    broker.check()


@pytest.fixture
def broker(shared_broker: Broker) -> Iterator[Broker]:
    """Lend the shared broker and check it after the test."""
    if isinstance(shared_broker, BrokerProcess) and not shared_broker.is_running:
        shared_broker.restart()
    yield shared_broker
    if isinstance(shared_broker, BrokerProcess):
        assert shared_broker.is_running, f"broker died: {shared_broker.stderr()}"
    shared_broker.check()


@pytest.fixture
def still_well(broker: Broker) -> Iterator[None]:
    """Check after the test that the broker serves others and its memory is unchanged."""
    before = broker.private_memory() if isinstance(broker, BrokerProcess) else 0
    yield
    wire_requests.assert_serves(broker.address)
    if isinstance(broker, BrokerProcess):
        limit = before + GROWTH_BYTES_MAX
        wait_until(lambda: broker.private_memory() < limit, "memory is released")


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Start brokers for this test only; each is stopped and checked at the end."""
    if os.environ.get("POLYLOG_TEST_BOOTSTRAP"):
        pytest.skip("needs a broker process of its own")
    brokers: list[BrokerProcess] = []

    def start(*settings: str) -> BrokerProcess:
        folder = tmp_path / f"broker-{len(brokers)}"
        folder.mkdir()
        broker = BrokerProcess(folder, settings=(*TEST_SETTINGS, *settings))
        broker.start()
        brokers.append(broker)
        return broker

    yield start
    for broker in brokers:
        broker.stop()
        broker.check()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return a topic name that no other test has."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")
    return f"{name[:80]}-{uuid.uuid4().hex[:8]}"
