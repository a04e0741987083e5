"""A busy log's file is filled ahead with zeros: cheaper writes, invisible to readers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.model import limits
from tests.support.native_log import Logs, appended, placed, records

BATCH = records(1, size=7_000)  # staged, and a short write at the turn's end
ENOUGH = limits.TAIL_FILL_AFTER_BYTES // len(BATCH) + 3
LONG = records(3, size=limits.TAIL_FILL_WRITE_BYTES_MAX // 2)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    """One data directory, whose file operations are recorded."""
    logs = Logs(tmp_path)
    file_ops.start_recording()
    yield logs
    file_ops.stop_recording()
    logs.commit.stop()
    logs.turn.poll_synced()


def written(logs: Logs, count: int, batch: bytes = BATCH, **settings: bool) -> PartitionLog:
    """Return a log to which that many turns appended a batch each."""
    log = logs.create(**settings)
    for _ in range(count):
        appended(log, batch)
        logs.turn.end()
    return log


def fills() -> list[tuple[int, int]]:
    """Return the ranges of a log that were filled with zeros."""
    return [
        (position, size)
        for op, path, position, size, data, _ in file_ops.recorded()
        if op == "write" and path.endswith(".log") and not any(data)
    ]


def test_a_busy_log_is_filled_with_zeros_ahead(logs: Logs) -> None:
    written(logs, ENOUGH, is_group_commit=False)

    ((position, size),) = fills()
    assert position >= limits.TAIL_FILL_AFTER_BYTES
    assert 0 < size <= limits.TAIL_FILL_BYTES


def test_a_log_that_is_not_busy_is_not_filled_ahead(logs: Logs) -> None:
    written(logs, ENOUGH - 5, is_group_commit=False)

    assert fills() == []


def test_nothing_is_filled_ahead_where_a_sync_would_write_the_zeros(logs: Logs) -> None:
    written(logs, ENOUGH, is_group_commit=True)

    assert fills() == []


def test_nothing_is_filled_ahead_for_long_writes(logs: Logs) -> None:
    written(logs, limits.TAIL_FILL_AFTER_BYTES // len(LONG) + 5, LONG, is_group_commit=False)

    assert fills() == []


def test_zeros_never_overwrite_a_batch_and_are_never_read(logs: Logs) -> None:
    count = ENOUGH + 2 * limits.TAIL_FILL_BYTES // len(BATCH)
    log = written(logs, count, is_group_commit=False)
    assert len(fills()) > 1

    found = log.read(0, 2 * count * len(BATCH))

    assert found == b"".join(placed(BATCH, offset) for offset in range(count))
    assert log.read(count, 1 << 20) == b""


def test_a_killed_log_ends_before_the_zeros(logs: Logs) -> None:
    log = written(logs, ENOUGH, is_group_commit=False)
    assert fills() != []

    recovered, _ = Logs(logs.path, logs.commit).recover()

    assert recovered.log_end_offset == log.log_end_offset == ENOUGH


def test_a_failed_fill_takes_the_log_offline(logs: Logs) -> None:
    log = written(logs, ENOUGH - 2, is_group_commit=False)
    assert fills() == []
    file_ops.fail("write", ".log", 5)

    appended(log, BATCH)
    logs.turn.end()

    assert fills() != []
    assert log.is_offline
    assert log.high_watermark == ENOUGH - 2
