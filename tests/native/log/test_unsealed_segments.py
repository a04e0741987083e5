"""Logs that fill segments faster than the disk syncs them: the files each holds open meanwhile."""

import errno
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker.model.limits import OPEN_SEGMENTS_MIN, UNSEALED_SEGMENTS_MAX
from tests.support.native_log import NOW_MS, Logs, appended, placed, records

BATCH = records()
OPEN_MAX = 448  # with 1,024 descriptors


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """A data directory whose disk syncs when a test says so."""
    logs = Logs(tmp_path, CommitThread(0))
    logs.turn.files.count_max = OPEN_MAX
    return logs


def quick(logs: Logs, partition: int = 0) -> PartitionLog:
    """Make a log whose every record is a segment, acknowledged before it is synced."""
    return logs.create(partition, segment_bytes_max=1, is_group_commit=False)


def sync_all(logs: Logs, log: PartitionLog) -> None:
    """End turns and let the disk sync until no full segment waits for it."""
    while log.unsealed_count:
        logs.turn.end()
        logs.commit.run()
        logs.turn.poll_synced()


def test_one_log_holds_a_limited_share_of_files_and_no_append_is_refused(logs: Logs) -> None:
    log, other = quick(logs), quick(logs, 1)

    for offset in range(1_000):
        assert appended(log, BATCH) == offset
        logs.turn.end()

    assert log.unsealed_count == UNSEALED_SEGMENTS_MAX
    assert logs.turn.files.count == UNSEALED_SEGMENTS_MAX + 1
    assert appended(other, BATCH) == 0
    assert log.high_watermark == 1_000
    stored = b"".join(placed(BATCH, offset) for offset in range(1_000))
    assert b"".join(log.read(at, 1) for at in range(1_000)) == stored


def test_a_delayed_roll_is_done_when_the_disk_has_caught_up(logs: Logs) -> None:
    log = quick(logs)
    for _ in range(100):
        appended(log, BATCH)
    logs.turn.end()
    waiting = log.segment_count
    assert not log.roll()
    appended(log, BATCH)
    assert log.segment_count == waiting

    sync_all(logs, log)

    appended(log, BATCH)
    assert log.segment_count == waiting + 1
    assert log.roll()
    assert log.segment_count == waiting + 2


def test_segments_grown_by_delayed_rolls_are_recovered_after_a_crash(logs: Logs) -> None:
    log = quick(logs)
    for _ in range(100):
        appended(log, BATCH)
    logs.turn.end()

    log, behind = logs.recover(is_group_commit=False, segment_bytes_max=1)

    assert (log.log_end_offset, behind) == (100, [])
    assert log.unsealed_count <= UNSEALED_SEGMENTS_MAX


def test_segments_that_a_start_has_found_are_synced_although_nobody_writes(logs: Logs) -> None:
    """Only what is on the disk is compacted, and a log that is read is never idle."""
    log = quick(logs)
    for _ in range(10):
        appended(log, BATCH)
    logs.turn.end()
    log, _ = logs.recover(is_group_commit=False, segment_bytes_max=1)
    log.begin_loading()
    assert log.unsealed_count > 0

    log.end_loading()
    for _ in range(2 * log.unsealed_count):
        logs.turn.end()
        logs.commit.run()
        logs.turn.poll_synced()

    assert log.unsealed_count == 0


@pytest.mark.parametrize("count_max", [OPEN_SEGMENTS_MIN, OPEN_MAX])
def test_many_fast_rolling_logs_leave_files_for_the_others(logs: Logs, count_max: int) -> None:
    logs.turn.files.count_max = count_max
    many = [quick(logs, number) for number in range(count_max // 2)]
    quiet = [logs.create(1_000 + n, is_group_commit=False) for n in range(count_max // 4)]

    for _ in range(20):
        for log in many:
            appended(log, BATCH)
        logs.turn.end()
    for log in quiet:
        assert appended(log, BATCH) == 0

    assert logs.turn.files.count <= count_max
    assert not any(log.is_offline for log in (*many, *quiet))


def test_files_that_can_be_closed_do_not_delay_a_roll(logs: Logs) -> None:
    """Readers leave as many files open as allowed."""
    logs.turn.files.count_max = OPEN_SEGMENTS_MIN
    read = logs.create(1, segment_bytes_max=1)
    for _ in range(2 * OPEN_SEGMENTS_MIN):
        appended(read, BATCH)
        sync_all(logs, read)
        while read.durable_end < read.log_end_offset:
            logs.turn.end()
            logs.commit.run()
            logs.turn.poll_synced()
    for offset in range(2 * OPEN_SEGMENTS_MIN):
        read.read(offset, 1)
    assert logs.turn.files.count == OPEN_SEGMENTS_MIN
    log = quick(logs)
    appended(log, BATCH)

    appended(log, BATCH)

    assert log.segment_count == 2


@pytest.mark.parametrize("is_group_commit", [True, False])
def test_a_sync_without_a_descriptor_is_retried_and_the_log_stays_in_service(
    logs: Logs, recording: None, is_group_commit: bool
) -> None:
    log = logs.create(segment_bytes_max=1, is_group_commit=is_group_commit)
    appended(log, BATCH)
    logs.turn.end()
    logs.commit.run()
    logs.turn.poll_synced()
    appended(log, BATCH)
    file_ops.fail("open", "topic-0", errno.EMFILE, after=3, times=2)  # of the folder

    logs.turn.end()
    assert (log.unsealed_count, log.is_offline) == (1, False)
    logs.turn.sync_aged(NOW_MS + 1_000)
    logs.turn.end()
    sync_all(logs, log)

    assert (log.high_watermark, log.durable_end, log.is_offline) == (2, 2, False)
