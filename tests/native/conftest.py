"""A data directory of native logs, a poller over socket pairs, recorded file operations."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from tests.support.native_log import Logs
from tests.support.native_replicas import Replicas
from tests.support.native_wire import Client, Wire


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    """One data directory."""
    logs = Logs(tmp_path)
    yield logs
    logs.commit.stop()
    logs.turn.poll_synced()


@pytest.fixture
def recording() -> Iterator[None]:
    """Record the file operations of one test, which may make them fail."""
    file_ops.start_recording()
    yield
    file_ops.stop_recording()


@pytest.fixture
def log(logs: Logs) -> PartitionLog:
    """Partition 0; written records are visible without a sync."""
    return logs.create(is_group_commit=False)


@pytest.fixture
def wire(logs: Logs, log: PartitionLog) -> Iterator[Wire]:
    """A poller that serves that partition and two like it."""
    wire = Wire(logs)
    wire.serve(log, *(logs.create(number, is_group_commit=False) for number in (1, 2)))
    yield wire
    wire.close()


@pytest.fixture
def client(wire: Wire) -> Client:
    """One connection."""
    return wire.connect()


@pytest.fixture
def durable(logs: Logs) -> Iterator[Wire]:
    """A poller whose partition acknowledges only synced records."""
    wire = Wire(logs)
    wire.serve(logs.create(3))
    yield wire
    wire.close()


@pytest.fixture
def make_replicas(tmp_path: Path) -> Iterator[Callable[..., Replicas]]:
    """Return a function that makes the replicas of one partition."""
    made: list[Replicas] = []

    def create(count: int = 3, **settings: int) -> Replicas:
        made.append(Replicas(tmp_path, count, **settings))
        return made[-1]

    yield create
    for each in made:
        each.stop()


@pytest.fixture
def replicas(make_replicas: Callable[..., Replicas]) -> Replicas:
    """Three replicas; 1 leads, all are in sync."""
    return make_replicas()
