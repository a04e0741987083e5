"""Clients in Go (franz-go, sarama) and JavaScript (KafkaJS): each gets the same results."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compatibility.clients.go_clients import compiled
from tests.compatibility.programs import (
    BUILD,
    UnavailableError,
    facts_of,
    fetch_with,
    needs,
    one_at_a_time,
    run,
)
from tests.support.broker_process import Broker

# The first run may fetch the libraries and compile them.
pytestmark = [
    pytest.mark.slow("compiles clients in Go, whose groups wait for sessions"),
    pytest.mark.timeout(900),
]

HERE = Path(__file__).parent
LIBRARIES = ["franz-go", "sarama", "kafkajs"]
NUMBERS = [f"{number:02}" for number in range(36)]

Start = Callable[..., dict[str, str]]


@pytest.fixture(scope="session")
def go_clients() -> Path:
    """The compiled program of go/."""
    try:
        return compiled()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
@one_at_a_time()
def node_client() -> Path:
    """The program of node/, copied to where its library is."""
    source, folder = HERE / "node", BUILD / "node"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = (source / "package.json").read_text()
    package, complete = folder / "package.json", folder / ".complete"
    try:
        needs("node", "run KafkaJS")
        if not complete.exists() or complete.read_text() != wanted:
            needs("npm", "fetch KafkaJS")
            package.write_text(wanted)
            command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
            fetch_with(command, folder)
            complete.write_text(wanted)
    except UnavailableError as error:
        pytest.skip(str(error))
    return Path(shutil.copy(source / "client.mjs", folder))


@pytest.fixture(params=LIBRARIES)
def seen_by(request: pytest.FixtureRequest) -> Start:
    """Return a function that runs a library's program and returns its results."""
    library: str = request.param
    if library == "kafkajs":
        command = ["node", str(request.getfixturevalue("node_client"))]
    else:
        command = [str(request.getfixturevalue("go_clients")), library]

    def start(*arguments: str) -> dict[str, str]:
        return facts_of(run([*command, *arguments]))

    return start


def test_a_topic_is_created_listed_described_and_deleted(
    seen_by: Start, broker: Broker, topic: str
) -> None:
    seen = seen_by("admin", broker.address, topic)

    assert seen == {"listed": "true", "partitions": "3", "deleted": "true"}


def test_a_member_reads_produced_records_and_the_next_one_resumes_after_its_commit(
    seen_by: Start, broker: Broker, topic: str
) -> None:
    seen = seen_by("group", broker.address, topic)

    assert seen == {
        "read": f"[{' '.join(NUMBERS[:30])}]",
        "resumed": f"[{' '.join(NUMBERS[30:])}]",
    }
