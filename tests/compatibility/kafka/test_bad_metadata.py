"""A metadata store that is lost, damaged, locked or on a failing disk affects nothing else.

No start may accept an empty store: all partition folders would be strays.
"""

import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

TOPIC = "kept"
EXIT_DATA_DIR = 73
STORAGE_ERROR = 56
PAGE = 4_096
Damage = Callable[[Path], object]


def flip(file: Path, position: int) -> None:
    """Change a byte."""
    content = bytearray(file.read_bytes())
    content[position] ^= 0xFF
    file.write_bytes(content)


def lock(file: Path) -> sqlite3.Connection:
    """Lock the file as another program does that is about to change it."""
    connection = sqlite3.connect(file)
    connection.execute("BEGIN IMMEDIATE")
    return connection


DAMAGES: dict[str, tuple[Damage, str]] = {
    "not there": (Path.unlink, "restore it"),
    "empty": (lambda file: os.truncate(file, 0), "restore it"),
    "half of it": (lambda file: os.truncate(file, file.stat().st_size // 2), "restore it"),
    "a header of garbage": (lambda file: flip(file, 3), "restore it"),
    "a page of garbage": (lambda file: flip(file, PAGE), "restore it"),
    "locked": (lock, "another program has it open"),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a broker that has stopped, with a topic of one record."""
    broker = BrokerProcess(tmp_path_factory.mktemp("kept"))
    broker.start()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, TOPIC)
        assert wire_requests.produce(client, TOPIC, Batch().encode())[0] == 0
    assert broker.stop() == 0
    return broker.data_dir


@pytest.fixture
def broker(kept: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker on a copy of it."""
    broker = BrokerProcess(tmp_path)
    shutil.copytree(kept, broker.data_dir)
    yield broker
    if broker.is_running:
        broker.kill()


def files_of(broker: BrokerProcess) -> dict[Path, bytes]:
    """Return the contents of the partition folders."""
    return {file: file.read_bytes() for file in broker.data_dir.glob("*/*")}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_start_refuses_a_bad_metadata_store_and_leaves_every_partition_in_place(
    broker: BrokerProcess, name: str
) -> None:
    damage, advice = DAMAGES[name]
    store = broker.data_dir / "metadata.db"
    before = files_of(broker)
    held = damage(store)

    broker.launch()

    assert broker.wait() == EXIT_DATA_DIR, broker.stderr()
    last = broker.stderr().splitlines()[-1]
    assert str(store) in last
    assert advice in last
    assert files_of(broker) == before
    if isinstance(held, sqlite3.Connection):
        held.close()


def test_a_metadata_store_that_cannot_be_written_refuses_new_topics_and_serves_everything_else(
    broker: BrokerProcess,
) -> None:
    broker.start()
    with WireClient(broker.address) as client:
        number = 0
        wal = broker.data_dir / "metadata.db-wal"
        while (
            not wal.exists() or wal.stat().st_size < 16 * PAGE
        ):  # above the descriptors that logs need here
            wire_requests.create_topic(client, f"more-{number}")
            number += 1
        process = broker.process.pid
        _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (wal.stat().st_size, hard))

        assert created(client, "refused") == STORAGE_ERROR
        assert wire_requests.produce(client, TOPIC, Batch().encode())[0] == 0
        assert wire_requests.fetch(client, TOPIC, 0, 1)

        resource.prlimit(process, resource.RLIMIT_FSIZE, (hard, hard))
        assert created(client, "taken") == 0
    assert "metadata store failed: doing=write" in broker.stderr()
    broker.kill()

    broker.start()

    assert not list(broker.data_dir.glob("*-stray"))
    assert not list(broker.data_dir.glob("refused-*"))
    with WireClient(broker.address) as client:
        for topic in (TOPIC, "taken", "more-0"):
            wait_until(lambda: wire_requests.is_led(client, topic, 1), "it is served")  # noqa: B023
        assert wire_requests.end_offset(client, TOPIC) == 2
    assert broker.stop() == 0


def created(client: WireClient, name: str) -> int:
    """Create a topic; return the error code."""
    new = {"name": name, "num_partitions": 1, "replication_factor": 1}
    answer = client.request("CreateTopics", 5, {"topics": [new], "timeout_ms": 10_000})
    code: int = answer["topics"][0]["error_code"]
    return code
