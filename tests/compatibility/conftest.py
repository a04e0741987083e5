"""Fixtures of the client tests; everything in this folder is marked `client`.

clients/         Kafka's clients for Python, Go and Node, by library
java/            Kafka's own clients and tools, Kafka Connect, Kafka Streams
kafka/           Kafka's protocol, byte by byte: every API, bad requests
cursus/ rustlog/ v1/   the other protocols, and programs that use them as their clients do
all_protocols/   records and groups that several protocols share
operation/       settings, retention, compaction
faults/          kill -9, disks that fail or are full, damaged files, clock steps
tools/           kcat, and what exporters and command line tools in Go ask for
limits/          memory, descriptors and log lines under clients that ask for too much

What several of these folders use is beside this file.
"""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compatibility.clients.group_member import GroupMember
from tests.compatibility.java.tools import NEWEST, OLDER, JavaTools, Release, find
from tests.compatibility.programs import UnavailableError
from tests.support import wire_requests
from tests.support.broker_process import Broker, wait_until
from tests.support.cursus_client import CursusClient
from tests.support.line_client import LineClient
from tests.support.wire_client import WireClient

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, so that `-m "not client"` deselects them."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.client)


@pytest.fixture(scope="session")
def java() -> Iterator[JavaTools]:
    """Kafka's programs and newest clients, or a skip that says what is missing."""
    java = found(NEWEST)
    yield java
    java.close()


@pytest.fixture(scope="session")
def older_java() -> JavaTools:
    """Return clients of Kafka releases before 4, or skip with the reason."""
    return found(OLDER)


def found(release: Release) -> JavaTools:
    """Return a release's jars or skip the test."""
    try:
        return find(release)
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def doomed_member(tmp_path: Path) -> Iterator[Callable[[str, str, str, str], GroupMember]]:
    """Start group members that are killed after the test at the latest."""
    members: list[GroupMember] = []

    def start(name: str, address: str, group: str, topic: str) -> GroupMember:
        members.append(GroupMember(tmp_path, name, address, group, topic))
        return members[-1]

    yield start
    for member in members:
        member.kill()


@pytest.fixture
def wire(broker: Broker) -> Iterator[WireClient]:
    """Connect a raw Kafka client."""
    with WireClient(broker.address) as client:
        yield client


@pytest.fixture
def lines(broker: Broker) -> Iterator[LineClient]:
    """Connect a V1 client."""
    with LineClient(broker.address) as client:
        yield client


@pytest.fixture
def cursus(broker: Broker) -> Iterator[CursusClient]:
    """Connect a Cursus client."""
    with CursusClient(broker.address) as client:
        yield client


@pytest.fixture
def cursus_topic(broker: Broker) -> Iterator[Callable[..., str]]:
    """Create topics by Cursus's command, with that many partitions; they are deleted afterwards."""
    names: list[str] = []

    def make(partitions: int, more: str = "") -> str:
        names.append(f"cursus-{uuid.uuid4().hex[:8]}")
        created = client.ask(f"CREATE topic={names[-1]} partitions={partitions}{more}")
        assert created.startswith("OK "), created
        return names[-1]

    with CursusClient(broker.address) as client:
        yield make
        for name in names:
            client.ask(f"DELETE topic={name}")


@pytest.fixture
def name() -> str:
    """Return a name that no other test has, for a transactional id or a group."""
    return f"name-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def logs_one_line(broker: Broker) -> Iterator[None]:
    """Check after the test that the broker has logged exactly one line.

    Lines about expired members of other tests' groups may appear at any time.
    """

    def lines() -> list[str]:
        return [
            line for line in broker.log_lines() if " broker.core.coordination.notes: " not in line
        ]

    before = len(lines())
    yield
    if broker.is_ours:
        wait_until(lambda: len(lines()) > before, "a line is logged")
        wire_requests.assert_serves(broker.address)
        assert len(lines()) == before + 1, lines()[before:]
