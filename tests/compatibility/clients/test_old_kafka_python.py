"""kafka-python of 2019 and 2020, told that the broker is of release 0.8.2, 0.9 or 0.10."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.clients import old_kafka_python
from tests.compatibility.clients.client import EARLIEST, Client, Record
from tests.compatibility.clients.kafka_python_client import connect
from tests.compatibility.clients.old_kafka_python import CODECS, EACH
from tests.compatibility.programs import (
    BUILD,
    OLD_KAFKA_PYTHON,
    UnavailableError,
    fetch_with,
    one_at_a_time,
)
from tests.support.broker_process import Broker

# The first run may fetch the releases.
pytestmark = [
    OLD_KAFKA_PYTHON,
    pytest.mark.slow("fetches old releases, whose groups wait for sessions"),
    pytest.mark.timeout(300),
]

RELEASES = ["1.4.7", "2.0.2"]
VERSIONS = ["0.8.2", "0.9", "0.10"]
RUN_TIMEOUT_S = 120


@one_at_a_time()
def fetched(release: str) -> Path:
    """Return the folder of a release, fetched first if need be."""
    folder = BUILD / f"kafka-python-{release}"
    if not (folder / "kafka").exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        BUILD.mkdir(exist_ok=True)
        try:
            fetch_with([*install, str(folder), f"kafka-python=={release}"], BUILD)
        except UnavailableError as error:
            pytest.skip(str(error))
    return folder


def facts(release: str, *arguments: str) -> dict[str, Any]:
    """Run the program with a release and return its results."""
    done = subprocess.run(
        [sys.executable, old_kafka_python.__file__, *arguments],
        env={**os.environ, "PYTHONPATH": str(fetched(release))},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    """A current client."""
    client = connect(broker.address)
    yield client
    client.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("release", RELEASES)
def test_an_old_kafka_python_writes_reads_and_commits_beside_the_current_one(
    broker: Broker, client: Client, topic: str, release: str, version: str
) -> None:
    client.create_topic(topic)
    new = [f"new-{codec}" for codec in CODECS]
    for codec, value in zip(CODECS, new, strict=True):
        client.produce(topic, [Record(value.encode())], compression=codec)

    seen = facts(release, broker.address, topic, str(len(new)), version)

    old = [f"old-{codec}-{place}" for codec in CODECS for place in range(EACH)]
    more = [f"old-none-{place}" for place in range(EACH)]
    count = len(new) + len(old)
    assert seen == {
        "found": new,
        "wrote": {
            codec: list(range(len(new) + EACH * place, len(new) + EACH * (place + 1)))
            for place, codec in enumerate(CODECS)
        },
        "ends": [0, count],
        "read": new + old,
        "in small pieces": count,
        "group": count,
        "wrote more": list(range(count, count + EACH)),
        "resumed": more,
    }
    read = client.consume(topic, EARLIEST, count + EACH)
    assert [(each.value or b"").decode() for each in read] == new + old + more
