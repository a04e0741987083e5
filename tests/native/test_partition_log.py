"""A partition's log: append, roll, sync, read, and who is told when."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.partition_log import OFFLINE, ROLLED, PartitionLog
from broker.model.errors import StorageError
from tests.native_log import Logs, appended, batches, placed, records


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


BATCH = records(1)  # of one record: 76 bytes
ROOM_FOR_TWO = 2 * len(BATCH)


# ---- group-commit: durable first, visible then ------------------------------------------------


def test_what_is_staged_while_a_sync_ends_is_not_durable_by_it(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=ROOM_FOR_TWO)
    appended(log, BATCH)
    logs.turn.end()  # syncs 0
    appended(log, BATCH)
    appended(log, BATCH)  # rolls: the sealed file is to be synced next
    logs.turn.end()
    appended(log, BATCH)  # staged until this turn ends

    logs.take_synced()  # in the middle of the turn
    logs.commit.stop()  # with all that was asked of it
    logs.turn.poll_synced()

    assert log.high_watermark == 1
