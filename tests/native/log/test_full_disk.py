"""A log on a full disk: appends are refused, nothing is lost, nothing goes offline."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.partition_log import PartitionLog
from broker.model import limits
from broker.model.errors import DiskFull
from broker.model.log_results import AppendResult, AppendStatus
from tests.native.log.test_transactions import ABORT, end, send
from tests.support.native_log import Logs, appended, bases_of, batches, placed, records

FULL = AppendResult(AppendStatus.LOG_FULL)
BATCH = records(1)
LEADER = 1
LARGE = records(1, size=limits.STAGED_BATCH_BYTES_MAX)  # written at once
no_room = pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    """One data directory, whose file operations a test may make fail."""
    logs = Logs(tmp_path)
    file_ops.start_recording()
    yield logs
    logs.commit.stop()
    logs.turn.poll_synced()
    file_ops.stop_recording()


def written_a_lot(logs: Logs, **settings: int) -> PartitionLog:
    """A log with a preallocated tail: one record so far, on the disk."""
    log = logs.create(**settings)
    appended(log, records(1, size=limits.TAIL_RESERVE_AFTER_BYTES))
    logs.sync(log)
    return log


def held(logs: Logs) -> PartitionLog:
    """A log whose second batch was staged and found no space at the end of the turn."""
    log = logs.create()
    appended(log, BATCH)
    logs.sync(log)
    appended(log, BATCH)
    file_ops.fail("write", ".log", errno.ENOSPC)
    logs.turn.end()
    return log


@no_room
@pytest.mark.parametrize("is_group_commit", [True, False])
def test_an_append_without_disk_space_is_refused_and_leaves_the_log_unchanged(
    logs: Logs, error: int, is_group_commit: bool
) -> None:
    log = logs.create(is_group_commit=is_group_commit)
    appended(log, BATCH)
    logs.sync(log) if is_group_commit else logs.turn.end()
    file_ops.fail("write", ".log", error)

    assert log.append(LARGE) == FULL
    assert (log.is_offline, log.log_end_offset) == (False, 1)
    assert appended(log, BATCH) == 1
    logs.turn.end()
    if is_group_commit:
        logs.sync(log)
    assert batches(log.read(0, 1 << 20)) == [placed(BATCH, 0), placed(BATCH, 1)]


def test_a_partial_write_without_disk_space_is_truncated(logs: Logs) -> None:
    log = logs.create()
    appended(log, BATCH)
    logs.sync(log)
    file_ops.fail("write", ".log", errno.ENOSPC)

    log.append(LARGE)

    failed = [(op, size) for op, _, _, size, _, result in file_ops.recorded() if result < 0]
    cuts = [size for op, _, _, size, _, _ in file_ops.recorded() if op == "truncate"]
    assert failed == [("write", len(LARGE))]
    assert cuts == [len(BATCH)]
    assert log.needs_sync  # a clean stop makes the truncation durable


def test_a_failed_truncation_after_a_failed_write_takes_the_log_offline(logs: Logs) -> None:
    log = logs.create()
    file_ops.fail("write", ".log", errno.ENOSPC)
    file_ops.fail("truncate", ".log", errno.EIO)

    assert log.append(LARGE) == AppendResult(AppendStatus.LOG_OFFLINE)
    assert log.is_offline


def test_without_space_for_a_whole_reserved_tail_the_needed_bytes_are_reserved(logs: Logs) -> None:
    log = written_a_lot(logs)
    file_ops.fail("allocate", ".log", errno.ENOSPC)

    assert appended(log, LARGE) == 1
    assert not log.is_full


def test_an_append_without_space_for_its_bytes_is_refused(logs: Logs) -> None:
    log = written_a_lot(logs)
    file_ops.fail("allocate", ".log", errno.ENOSPC, times=2)

    assert log.append(LARGE) == FULL
    assert appended(log, LARGE) == 1


def test_under_os_a_reserved_tail_without_disk_space_refuses_only_its_batch(
    logs: Logs,
) -> None:
    log = logs.create(is_group_commit=False)
    while log.size < limits.TAIL_FILL_AFTER_BYTES + len(LARGE):
        appended(log, LARGE)
    logs.turn.end()
    end_offset = log.log_end_offset
    file_ops.fail("write", ".log", errno.ENOSPC)

    appended(log, BATCH)
    logs.turn.end()
    logs.turn.retry_full()
    logs.turn.end()

    assert log.high_watermark == end_offset + 1


# ---- batches that have their offsets already -----------------------------------------------------


def test_staged_batches_that_find_no_space_are_not_visible(logs: Logs) -> None:
    log = held(logs)

    assert (log.is_full, log.is_offline) == (True, False)
    assert (log.high_watermark, log.log_end_offset) == (1, 2)
    assert log.append(BATCH) == FULL


def test_staged_batches_are_written_once_there_is_space(logs: Logs) -> None:
    log = held(logs)
    calls: list[bool] = []
    log.when_durable(2, calls.append)

    logs.turn.retry_full()
    logs.sync(log)

    assert (calls, log.is_full, logs.turn.full_count) == ([True], False, 0)
    assert batches(log.read(0, 1 << 20)) == [placed(BATCH, 0), placed(BATCH, 1)]
    assert appended(log, BATCH) == 2


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_log_whose_staged_batches_found_no_space_shows_replicas_what_is_in_its_files(
    logs: Logs, *, is_restored: bool
) -> None:
    log = held(logs)

    log.lead(0, LEADER, [LEADER] if is_restored else [LEADER, 2], [LEADER])
    log.lead(0, LEADER, [LEADER, 2], [LEADER])

    assert (log.local_end, log.high_watermark) == (1, 1)
    assert batches(log.read_for_replica(0, 1 << 20)) == [placed(BATCH, 0)]
    logs.turn.retry_full()
    logs.sync(log)
    assert (log.local_end, log.high_watermark) == (2, 2)
    assert batches(log.read_for_replica(1, 1 << 20)) == [placed(BATCH, 1)]
    assert batches(log.read(1, 1 << 20)) == [placed(BATCH, 1)]


def test_waiters_of_staged_batches_are_notified_when_there_is_still_no_space(logs: Logs) -> None:
    log = held(logs)
    calls: list[bool] = []
    log.when_durable(2, calls.append)
    log.when_synced(2, calls.append)
    file_ops.fail("write", ".log", errno.ENOSPC)

    logs.turn.retry_full()
    logs.turn.end()

    assert calls == [False, False]
    assert not log.is_offline
    logs.turn.retry_full()
    logs.sync(log)
    assert log.high_watermark == 2


def test_the_broker_is_asked_once_to_check_the_disk_until_writes_are_retried(logs: Logs) -> None:
    looks: list[None] = []
    logs.turn.when_full = lambda: looks.append(None)
    log = held(logs)
    log.append(BATCH)
    assert len(looks) == 1

    file_ops.fail("write", ".log", errno.ENOSPC)
    logs.turn.retry_full()
    logs.turn.end()

    assert len(looks) == 2


def test_a_clean_stop_without_disk_space_leaves_staged_batches_to_the_next_start(
    logs: Logs,
) -> None:
    log = held(logs)
    file_ops.fail("write", ".log", errno.ENOSPC)

    assert recovery.close(log) == -1

    again, behind = logs.recover()
    assert behind == []
    assert (again.high_watermark, again.log_end_offset) == (1, 1)


# ---- a nearly full disk -------------------------------------------------------------------------


def test_while_the_disk_is_nearly_full_space_is_reserved_before_a_batch_is_accepted(
    logs: Logs,
) -> None:
    log = logs.create()
    logs.turn.disk.is_tight = True
    file_ops.fail("allocate", ".log", errno.ENOSPC, times=2)

    assert log.append(BATCH) == FULL

    assert appended(log, BATCH) == 0
    logs.sync(log)
    assert log.high_watermark == 1


def test_while_client_writes_are_refused_internal_appends_succeed(logs: Logs) -> None:
    log = logs.create()
    original = records(producer_id=1, producer_epoch=0, base_sequence=0)
    appended(log, original)
    logs.turn.disk.refuses_clients = True

    assert log.append(BATCH) == FULL
    assert log.append(original) == AppendResult(AppendStatus.DUPLICATE, 0, 1)
    assert log.append_internal(BATCH) == 1


def test_on_a_read_only_disk_only_transaction_markers_are_written(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    logs.turn.disk.is_read_only = True

    with pytest.raises(DiskFull):
        log.append_internal(BATCH)
    assert end(log, 1, ABORT) == 1


# ---- rolls, indexes, transactions ----------------------------------------------------------------


@no_room
def test_a_roll_without_disk_space_refuses_the_batch_and_is_retried_by_a_later_one(
    logs: Logs, error: int
) -> None:
    log = logs.create(segment_bytes_max=len(BATCH))
    appended(log, BATCH)
    logs.sync(log)
    file_ops.fail("open", f"{1:020}.log", error)

    assert log.append(BATCH) == FULL
    assert bases_of(log) == [0]
    assert appended(log, BATCH) == 1
    logs.settle(log)
    assert bases_of(log) == [0, 1]
    assert batches(log.read(0, 1)) == [placed(BATCH, 0)]


def test_a_roll_for_retention_that_fails_without_disk_space_does_no_harm(logs: Logs) -> None:
    log = logs.create()
    appended(log, BATCH)
    logs.sync(log)
    file_ops.fail("open", f"{1:020}.log", errno.ENOSPC)

    with pytest.raises(DiskFull, match="cannot begin a segment"):
        log.roll()

    assert log.is_in_service
    assert log.roll()


def test_a_segment_that_cannot_be_preallocated_whole_is_begun_nevertheless(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=len(BATCH), is_preallocated=True)
    appended(log, BATCH)
    logs.sync(log)
    file_ops.fail("allocate", f"{1:020}.log", errno.ENOSPC, times=2)

    assert appended(log, BATCH) == 1


@pytest.mark.parametrize("operation", ["open", "write"])
def test_a_marker_whose_index_entry_cannot_be_written_does_not_end_the_transaction(
    logs: Logs, operation: str
) -> None:
    log = logs.create()
    send(log, 1, 0)
    logs.sync(log)
    file_ops.fail(operation, ".txnindex", errno.ENOSPC)

    with pytest.raises(DiskFull):
        end(log, 1, ABORT)

    assert log.open_transactions == {1: 0}
    assert log.log_end_offset == 1
    assert end(log, 1, ABORT) == 1
    logs.sync(log)
    assert log.open_transactions == {}
    assert log.aborted_transactions(0, 2) == [(1, 0, 1)]


@no_room
def test_a_failed_sync_takes_the_log_offline_whatever_the_reason(logs: Logs, error: int) -> None:
    log = logs.create()
    appended(log, BATCH)
    file_ops.fail("sync_data", ".log", error)

    logs.sync(log)

    assert log.is_offline


@pytest.mark.parametrize("is_tight", [True, False])
@pytest.mark.parametrize("operation", ["write", "allocate", "open"])
def test_wherever_the_disk_becomes_full_visible_records_survive_a_crash(
    logs: Logs, tmp_path: Path, operation: str, is_tight: bool
) -> None:
    for place in range(20):
        here = Logs(tmp_path / str(place), logs.commit)
        here.path.mkdir()
        here.turn.disk.is_tight = is_tight
        file_ops.start_recording()
        file_ops.fail(operation, f"/{place}/topic-0/", errno.ENOSPC, after=place + 1, times=3)
        log = here.create(segment_bytes_max=3 * len(LARGE))
        taken: list[bytes] = []
        for number in range(10):
            batch = records(1, size=limits.STAGED_BATCH_BYTES_MAX if number % 3 else 100 + number)
            status, base_offset, *_ = log.append(batch)
            if status == 0:
                taken.append(placed(batch, base_offset))
            else:
                assert (status, base_offset) == FULL[:2]
            here.turn.end()
            here.turn.retry_full()
        while log.is_full:
            here.turn.retry_full()
            here.turn.end()
        here.settle(log)
        assert not log.is_offline
        assert log.high_watermark == len(taken)
        file_ops.stop_recording()
        again, _ = here.recover(segment_bytes_max=3 * len(LARGE))  # as after a kill
        found = [each for at in range(len(taken)) for each in batches(again.read(at, 1))]
        assert found == taken
