"""A partition's log: append, roll, sync, read, and when waiters are notified."""

import errno
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.partition_log import PartitionLog
from broker.model import limits
from broker.model.errors import StorageError
from broker.model.log_results import AppendResult, AppendStatus, LogEvent
from tests.support.batches import EMPTY
from tests.support.native_log import NOW_MS, Logs, appended, bases_of, placed, records

BATCH = records(1)  # of one record: 76 bytes
BATCH_BASE = 10  # of the statuses of batches in AppendStatus
ROOM_FOR_TWO = 2 * len(BATCH)


# ---- group-commit: durable before visible -----------------------------------------------------


def test_a_batch_staged_while_a_sync_completes_is_not_durable_by_that_sync(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=ROOM_FOR_TWO)
    appended(log, BATCH)
    logs.turn.end()  # syncs 0
    appended(log, BATCH)
    appended(log, BATCH)  # rolls: the sealed file is to be synced next
    logs.turn.end()
    appended(log, BATCH)  # staged until this turn ends

    logs.take_synced()  # in the middle of the turn
    logs.commit.stop()  # with all jobs submitted to it
    logs.turn.poll_synced()

    assert log.high_watermark == 1


# ---- append -----------------------------------------------------------------------------------


def test_an_append_takes_the_next_offsets(logs: Logs) -> None:
    log = logs.create()

    assert log.append(records(3))[:2] == (0, 0)
    assert log.append(records(2))[:2] == (0, 3)
    assert log.log_end_offset == 5


def test_a_batch_is_stored_unchanged_except_for_its_offset_and_epoch(logs: Logs) -> None:
    log = logs.create(is_group_commit=False)
    first, second = records(3, base_offset=999, leader_epoch=7), records(2)

    log.append(first)
    log.append(second)
    logs.turn.end()

    assert log.read(0, 1000) == placed(first, 0) + placed(second, 3)


def test_the_callers_buffer_is_not_changed(logs: Logs) -> None:
    log = logs.create()
    log.append(BATCH)
    second = records(base_offset=55)
    copy = bytes(bytearray(second))

    log.append(second)

    assert second == copy


def test_a_batch_above_the_limit_is_refused_with_the_limit(logs: Logs) -> None:
    log = logs.create(batch_bytes_max=len(BATCH))

    assert log.append(BATCH)[0] == 0
    assert log.append(records(1, size=9)) == AppendResult(AppendStatus.BATCH_TOO_LARGE)


@pytest.mark.parametrize(
    ("data", "status"), [(b"", 1), (BATCH[:-1], 2), (BATCH + b"\0", 3), (BATCH[:40], 2)]
)
def test_bytes_that_are_not_a_batch_are_refused_and_change_nothing(
    logs: Logs, data: bytes, status: int
) -> None:
    log = logs.create()

    assert log.append(data) == AppendResult(AppendStatus(BATCH_BASE + status))
    assert log.log_end_offset == 0
    assert log.size == 0


def test_an_internal_append_takes_exactly_one_batch_with_records(logs: Logs) -> None:
    log = logs.create()

    assert log.append_internal(BATCH) == 0
    for data in (b"", BATCH[:-1], BATCH + BATCH, EMPTY):
        with pytest.raises(ValueError, match="exactly one batch"):
            log.append_internal(data)
    assert log.log_end_offset == 1


def test_only_the_broker_appends_control_batches(logs: Logs) -> None:
    log = logs.create()
    marker = records(1, is_control=True)

    assert log.append(marker) == AppendResult(AppendStatus.BATCH_ATTRIBUTES)
    assert log.append_internal(marker) == 0


def test_many_small_appends_in_one_turn_are_one_write(logs: Logs, recording: None) -> None:
    log = logs.create(is_group_commit=False)

    for _ in range(100):
        log.append(BATCH)
    logs.turn.end()

    writes = [operation for operation in file_ops.recorded() if operation[0] == "write"]
    assert [operation[3] for operation in writes] == [100 * len(BATCH)]


def test_logs_that_share_a_staging_buffer_keep_their_own_bytes(logs: Logs) -> None:
    one, other = (logs.create(partition, is_group_commit=False) for partition in range(2))
    # At the end of a turn a log passes its larger buffer on to the next log that needs one.
    turns = [[(one, 20_000), (other, 101)], [(other, 102), (other, 20_001), (one, 103)]] * 2
    for turn in turns:
        for log, size in turn:
            log.append(records(1, size=size))
        logs.turn.end()

    for log in (one, other):
        sent = [records(1, size=size) for turn in turns for each, size in turn if each is log]
        stored = b"".join(placed(batch, offset) for offset, batch in enumerate(sent))
        assert log.read(0, 1 << 20) == stored


def test_large_and_small_batches_keep_their_order(logs: Logs) -> None:
    log = logs.create(is_group_commit=False)
    sizes = [8, 10_000, 8, 8, 70_000, 100, 8_000, 8_000, 30_000, 8]

    for size in sizes:
        log.append(records(1, size=size))
    logs.turn.end()

    expected = [placed(records(1, size=size), offset) for offset, size in enumerate(sizes)]
    assert log.read(0, 1 << 20) == b"".join(expected)


# ---- segments ---------------------------------------------------------------------------------


def test_a_batch_that_does_not_fit_starts_the_next_segment(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=ROOM_FOR_TWO)

    for _ in range(5):
        log.append(BATCH)

    assert bases_of(log) == [0, 2, 4]
    assert logs.base_offsets() == [0, 2, 4]


def test_a_batch_larger_than_a_segment_gets_its_own_segment(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=ROOM_FOR_TWO, is_group_commit=False)

    for size in (8, 500, 8):
        log.append(records(1, size=size))
    logs.turn.end()

    assert bases_of(log) == [0, 1, 2]
    assert log.read(1, 1) == placed(records(1, size=500), 1)


def test_a_segment_is_rolled_when_its_records_span_more_than_segment_ms(logs: Logs) -> None:
    log = logs.create(segment_ms=1000)
    for timestamp in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001, NOW_MS):
        log.append(records(timestamp=timestamp))

    assert bases_of(log) == [0, 2]


def test_a_segment_of_records_without_timestamps_is_rolled_by_its_age(logs: Logs) -> None:
    log = logs.create(segment_ms=1000)
    for passed in (0, 1000, 1):
        logs.turn.steady_ms += passed
        log.append(records(timestamp=-1))

    assert bases_of(log) == [0, 2]


def test_the_age_of_a_segment_continues_across_a_restart(logs: Logs) -> None:
    log = logs.create()
    log.append(records(timestamp=NOW_MS))
    recovery.close(log)
    log = logs.attach(1, segment_ms=1000)

    log.append(records(timestamp=NOW_MS + 1001))

    assert bases_of(log) == [0, 1]


def test_jitter_rolls_a_segment_earlier_never_later(logs: Logs) -> None:
    ages = []
    for partition in range(8):
        log = logs.create(partition, segment_ms=1000, segment_jitter_ms=900)
        log.append(records(timestamp=NOW_MS))
        passed = 0
        while len(bases_of(log)) == 1:
            passed += 10
            log.append(records(timestamp=NOW_MS + passed))
        ages.append(passed)

    assert 90 < min(ages) < max(ages) <= 1010


def test_a_segment_is_rolled_when_its_index_is_full(logs: Logs) -> None:
    log = logs.create(index_interval_bytes=0, index_bytes_max=36)

    for _ in range(6):
        log.append(BATCH)

    assert bases_of(log) == [0, 4]


def test_a_roll_is_reported(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=ROOM_FOR_TWO)

    for _ in range(3):
        log.append(BATCH)

    assert logs.turn.events == [(LogEvent.ROLLED, log)]


def test_a_sealed_file_has_exactly_its_batches(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=ROOM_FOR_TWO)
    for _ in range(5):
        log.append(BATCH)
    logs.sync(log)

    files = sorted(logs.folder().glob("*.log"))

    assert [file.stat().st_size for file in files[:2]] == [ROOM_FOR_TWO, ROOM_FOR_TWO]


# ---- read -------------------------------------------------------------------------------------


def filled(logs: Logs, **settings: int) -> tuple[PartitionLog, list[bytes]]:
    """Return a log of three segments of two batches of two records, and its stored batches."""
    batch = records(2)
    log = logs.create(segment_bytes_max=2 * len(batch), **settings)
    for _ in range(6):
        log.append(batch)
    logs.sync(log)
    return log, [placed(batch, 2 * number) for number in range(6)]


def test_a_read_within_a_batch_returns_the_whole_batch(logs: Logs) -> None:
    log, stored = filled(logs)

    for offset in range(12):
        assert log.read(offset, 1) == stored[offset // 2]


def test_a_read_returns_whole_batches_up_to_the_limit(logs: Logs) -> None:
    log, stored = filled(logs)
    size = len(stored[0])

    assert log.read(0, 2 * size - 1) == stored[0]
    assert log.read(0, 2 * size) == stored[0] + stored[1]


def test_a_read_does_not_cross_its_segment(logs: Logs) -> None:
    log, stored = filled(logs)

    assert log.read(2, 10_000) == stored[1]
    assert log.read(4, 10_000) == stored[2] + stored[3]


def test_a_batch_above_the_read_limit_is_returned_only_when_asked_for(logs: Logs) -> None:
    log, stored = filled(logs)

    assert log.read(0, len(stored[0]) - 1, False) == b""
    assert log.read(0, 0) == stored[0]
    assert log.read(0, len(stored[0]), False) == stored[0]


def test_a_read_at_the_end_is_empty(logs: Logs) -> None:
    log, _ = filled(logs)

    assert log.read(12, 1000) == b""


@pytest.mark.parametrize("offset", [-1, 13, 2**62])
def test_an_offset_outside_the_log_is_out_of_range(logs: Logs, offset: int) -> None:
    log, _ = filled(logs)

    with pytest.raises(IndexError):
        log.read(offset, 1000)


def test_records_above_the_high_watermark_are_not_read(logs: Logs) -> None:
    log = logs.create()
    log.append(BATCH)
    logs.turn.end()

    assert log.high_watermark == 0
    assert log.read(0, 1000) == b""
    assert log.read(1, 1000) == b""
    logs.sync(log)
    assert log.read(0, 1000) == placed(BATCH, 0)


# ---- durable and visible ----------------------------------------------------------------------


def test_with_os_the_high_watermark_follows_the_write(logs: Logs, recording: None) -> None:
    log = logs.create(is_group_commit=False)
    log.append(BATCH)

    assert log.high_watermark == 0
    logs.turn.end()

    assert log.high_watermark == 1
    assert not [op for op in file_ops.recorded() if op[0] == "sync_data"]


def test_with_group_commit_the_high_watermark_follows_the_sync(logs: Logs) -> None:
    log = logs.create()
    log.append(BATCH)
    logs.turn.end()
    log.append(BATCH)

    logs.take_synced()

    assert (log.durable_end, log.high_watermark, log.log_end_offset) == (1, 1, 2)


def test_a_roll_syncs_the_old_file_the_new_file_and_their_folder(
    logs: Logs, recording: None
) -> None:
    log = logs.create(segment_bytes_max=ROOM_FOR_TWO)
    log.append(BATCH)
    logs.sync(log)
    log.append(BATCH)
    logs.sync(log)
    before = len(file_ops.recorded())
    log.append(BATCH)
    logs.sync(log)

    syncs = [
        (op, Path(path).name)
        for op, path, *_ in file_ops.recorded()[before:]
        if op.startswith(("sync", "truncate"))
    ]
    assert syncs == [
        ("truncate", f"{0:020}.log"),
        ("sync_data", f"{0:020}.log"),
        ("sync_data", f"{2:020}.log"),
        ("sync", "topic-0"),
    ]


@pytest.mark.parametrize("appends", [2, 3, 5, 9])
def test_several_rolls_within_one_sync_all_become_durable(logs: Logs, appends: int) -> None:
    log = logs.create(segment_bytes_max=len(BATCH))
    log.append(BATCH)
    logs.turn.end()
    for _ in range(appends):
        log.append(BATCH)
        logs.turn.end()

    logs.sync(log)

    assert log.high_watermark == appends + 1
    assert [log.read(offset, 1) for offset in range(appends + 1)] == [
        placed(BATCH, offset) for offset in range(appends + 1)
    ]


def test_a_callback_is_called_once_when_its_offset_is_visible(logs: Logs) -> None:
    log = logs.create()
    calls: list[tuple[int, bool]] = []
    log.when_durable(0, lambda good: calls.append((0, good)))
    assert calls == [(0, True)]

    log.append(records(2))
    log.when_durable(1, lambda good: calls.append((1, good)))
    log.when_durable(3, lambda good: calls.append((3, good)))
    logs.sync(log)
    assert calls == [(0, True), (1, True)]
    log.append(BATCH)
    logs.sync(log)

    assert calls == [(0, True), (1, True), (3, True)]


def test_a_callback_that_fails_does_not_keep_the_others_waiting(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.create()
    calls: list[bool] = []
    log.append(BATCH)
    log.when_durable(1, lambda _: 1 // 0)
    log.when_durable(1, calls.append)

    logs.sync(log)

    assert calls == [True]
    assert "ZeroDivisionError" in caplog.text


# ---- the disk fails ---------------------------------------------------------------------------


def test_a_failed_sync_takes_the_log_offline_and_acknowledges_nothing(
    logs: Logs, recording: None
) -> None:
    log = logs.create()
    calls: list[bool] = []
    file_ops.fail("sync_data", "topic-0", errno.EIO)
    log.append(BATCH)
    log.when_durable(1, calls.append)

    logs.sync(log)

    assert log.is_offline
    assert calls == [False]
    assert log.high_watermark == log.durable_end == 0
    assert (LogEvent.OFFLINE, log) in logs.turn.events


def test_a_failed_sync_is_never_retried(logs: Logs, recording: None) -> None:
    log = logs.create()
    log.append(BATCH)
    logs.sync(log)
    file_ops.fail("sync_data", "topic-0", errno.EIO)
    log.append(BATCH)
    logs.sync(log)
    before = len(file_ops.recorded())

    assert log.append(BATCH) == AppendResult(AppendStatus.LOG_OFFLINE)
    logs.turn.end()

    assert not [op for op in file_ops.recorded()[before:] if op[0].startswith(("sync", "write"))]
    assert recovery.close(log) == -1


def test_a_log_of_few_records_preallocates_nothing(logs: Logs, recording: None) -> None:
    log = logs.create()
    log.append(BATCH)
    logs.sync(log)

    assert not [op for op, *_ in file_ops.recorded() if op == "allocate"]
    assert (logs.folder() / f"{0:020}.log").stat().st_size == len(BATCH)


@pytest.mark.parametrize("operation", ["write", "allocate"])
@pytest.mark.parametrize("size", [8, 20_000])
def test_a_failed_write_takes_the_log_offline(
    logs: Logs, recording: None, operation: str, size: int
) -> None:
    log = logs.create()
    log.append(records(1, size=limits.TAIL_RESERVE_AFTER_BYTES))
    logs.sync(log)
    calls: list[bool] = []
    file_ops.fail(operation, ".log", errno.EIO)

    log.append(records(1, size=200_000 if operation == "allocate" else size))
    log.when_durable(2, calls.append)
    logs.turn.end()

    assert log.is_offline
    assert calls == [False]
    with pytest.raises(StorageError):
        log.read(0, 1000)


def test_a_failed_roll_takes_the_log_offline(logs: Logs, recording: None) -> None:
    log = logs.create(segment_bytes_max=len(BATCH))
    log.append(BATCH)
    logs.sync(log)
    file_ops.fail("open", f"{1:020}.log", errno.EIO)

    assert log.append(BATCH) == AppendResult(AppendStatus.LOG_OFFLINE)
    assert log.is_offline


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("offset", [0, 1])
def test_an_append_without_a_descriptor_is_refused_and_may_be_retried(
    logs: Logs, recording: None, error: int, offset: int
) -> None:
    log = logs.create(segment_bytes_max=len(BATCH))
    if offset:
        appended(log, BATCH)
        logs.sync(log)
    file_ops.fail("open", f"{offset:020}.log", error, times=1 + offset)  # closing others may help

    assert log.append(BATCH) == AppendResult(AppendStatus.LOG_OFFLINE)
    assert log.append(BATCH)[:2] == (0, offset)
    logs.sync(log)
    assert log.read(offset, 1000) == placed(BATCH, offset)


def test_a_waiter_added_after_the_failure_is_notified_at_once(logs: Logs, recording: None) -> None:
    log = logs.create()
    file_ops.fail("sync_data", "topic-0", errno.EIO)
    log.append(BATCH)
    logs.sync(log)
    calls: list[bool] = []

    log.when_durable(1, calls.append)

    assert calls == [False]


# ---- the partition is deleted, or led by another broker ----------------------------------------


def test_a_deleted_partition_fails_its_waiters_and_refuses_further_requests(logs: Logs) -> None:
    log = logs.create()
    calls: list[bool] = []
    log.append(BATCH)
    log.when_durable(1, calls.append)

    log.retire()
    log.when_durable(1, calls.append)

    assert calls == [False, False]
    assert log.append(BATCH) == AppendResult(AppendStatus.LOG_OFFLINE)
    with pytest.raises(StorageError):
        log.read(0, 1000)


def test_a_deleted_partition_is_no_longer_synced_and_does_not_go_offline(
    logs: Logs, recording: None
) -> None:
    log = logs.create()
    log.append(BATCH)
    log.retire()
    for file in logs.folder().iterdir():
        file.unlink()
    logs.folder().rmdir()

    logs.turn.end()

    assert not log.is_offline
    assert not [op for op in file_ops.recorded() if op[0].startswith("sync")]


def test_a_running_sync_of_a_deleted_partition_may_fail(logs: Logs, recording: None) -> None:
    log = logs.create()
    file_ops.fail("sync_data", "topic-0", errno.EIO)
    log.append(BATCH)
    logs.turn.end()
    log.retire()

    logs.take_synced()

    assert not log.is_offline
    assert logs.turn.events == []


def test_a_released_log_holds_no_descriptor(logs: Logs) -> None:
    """Its object may live on, in a fetch session whose client does not ask again."""
    log = logs.create(segment_bytes_max=2 * len(BATCH))
    for _ in range(5):
        appended(log, BATCH)
    logs.settle(log)
    assert log.read(0, 1)
    assert (log.segment_count, logs.turn.files.count > 1) == (3, True)

    log.begin_loading()
    log.release()
    log.end_loading()

    assert logs.turn.files.count == 0


# ---- the revision of a log's properties -------------------------------------------------------


def test_log_properties_that_clients_see_have_a_revision(logs: Logs, recording: None) -> None:
    """Responses for all topics are cached until the revision changes."""
    log, other = logs.create(), logs.create(partition=1)
    revisions = [logs.turn.log_changes]

    def is_new() -> bool:
        revisions.append(logs.turn.log_changes)
        return revisions[-1] > revisions[-2]

    log.append(BATCH)
    logs.sync(log)
    assert not is_new()
    log.start_epoch(2)
    assert is_new()
    log.begin_loading()
    assert is_new()
    log.end_loading()
    assert is_new()
    other.take_offline("its files cannot be used")
    assert is_new()
    file_ops.fail("sync_data", "topic-0", errno.EIO)
    log.append(BATCH)
    logs.sync(log)
    assert log.is_offline
    assert is_new()


# ---- lookups equal a linear scan ----------------------------------------------------------------

shapes = st.tuples(
    st.integers(1, 4),  # records
    st.sampled_from([0, 30, 200, 1200, 40_000]),  # bytes of each
    st.integers(1, 12),  # timestamp
)


@given(
    st.lists(shapes, min_size=1, max_size=40),
    st.sampled_from([0, 100, 1000]),
    st.sampled_from([300, 3000, 1 << 20]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_lookup_equals_a_linear_scan(
    tmp_path_factory: pytest.TempPathFactory,
    given_shapes: list[tuple[int, int, int]],
    interval: int,
    segment_bytes: int,
    is_reopened: bool,
) -> None:
    logs = Logs(tmp_path_factory.mktemp("log"))
    log = logs.create(index_interval_bytes=interval, segment_bytes_max=segment_bytes)
    stored: list[bytes] = []  # by offset, the batch that contains it
    times: list[int] = []
    for count, size, timestamp in given_shapes:
        batch = records(count, size=size, timestamp=timestamp)
        stored += [placed(batch, len(stored))] * count
        times += [timestamp] * count
        log.append(batch)
    logs.sync(log)
    if is_reopened:
        logs.commit.stop()
        recovery.close(log)
        log = logs.attach(len(stored))

    assert [log.read(offset, 1) for offset in range(len(stored))] == stored
    for size_max in (100, 500, 5000, 150_000):  # the last one is long enough for the index
        for offset in range(0, len(stored), 3):
            assert log.read(offset, size_max) == scan(log, stored, offset, size_max)
    for time in range(14):
        found = next((each for each in enumerate(times) if each[1] >= time), None)
        assert log.find_timestamp(time) == found
    assert log.find_max_timestamp() == log.find_timestamp(max(times))
    logs.commit.stop()
    logs.turn.poll_synced()
    logs.turn.events.clear()


def scan(log: PartitionLog, stored: list[bytes], offset: int, size_max: int) -> bytes:
    """Return the batches from an offset on: at least one, as many as fit, of one segment."""
    found = b""
    bases = bases_of(log)
    while offset < len(stored):
        batch = stored[offset]
        base = int.from_bytes(batch[:8])
        if found and (len(found) + len(batch) > size_max or base in bases):
            break
        found += batch
        offset = base + int.from_bytes(batch[23:27]) + 1
    return found


def test_index_files_have_kafkas_format(logs: Logs) -> None:
    """.index: relative offset, position; .timeindex: timestamp, relative offset."""
    log = logs.create(index_interval_bytes=100, segment_bytes_max=400)
    for number in range(6):
        log.append(records(timestamp=1000 + number))
    logs.sync(log)
    recovery.close(log)

    index = (logs.folder() / f"{0:020}.index").read_bytes()
    times = (logs.folder() / f"{0:020}.timeindex").read_bytes()
    entries = list(struct.iter_unpack(">ii", index))
    assert entries == [(2, 2 * len(BATCH)), (4, 4 * len(BATCH))]
    assert list(struct.iter_unpack(">qi", times)) == [(1002, 2), (1004, 4)]


def test_an_index_of_many_entries_is_stored_in_parts(logs: Logs) -> None:
    log = logs.create(index_interval_bytes=0, is_group_commit=False)
    count = 5000  # more than twice what is kept in memory

    for number in range(count):
        log.append(records(timestamp=number))
    logs.turn.end()

    for offset in (0, 1, 511, 512, 1023, 1024, 2047, 3000, count - 1025, count - 1):
        assert log.read(offset, 1) == placed(records(timestamp=offset), offset)
        assert log.find_timestamp(offset) == (offset, offset)
    assert log.read(1000, 10 * len(BATCH)) == b"".join(
        placed(records(timestamp=offset), offset) for offset in range(1000, 1010)
    )


def test_an_index_that_cannot_be_stored_leaves_the_log_in_service(
    logs: Logs, recording: None
) -> None:
    log = logs.create(index_interval_bytes=0, is_group_commit=False)
    for suffix in (".index", ".timeindex"):
        file_ops.fail("open", suffix, errno.ENOSPC, times=10_000)

    for number in range(2500):
        log.append(records(timestamp=number))
    logs.turn.end()

    assert not log.is_offline
    for offset in (0, 1023, 1024, 1025, 2499):
        assert log.read(offset, 1) == placed(records(timestamp=offset), offset)
        assert log.find_timestamp(offset) == (offset, offset)


# ---- a removed folder
# -----------------------------------------------------------------------------


def remove_folder(logs: Logs, *, is_made_again: bool) -> None:
    shutil.rmtree(logs.folder())
    if is_made_again:
        logs.folder().mkdir()


@pytest.mark.parametrize("is_made_again", [False, True])
def test_nothing_in_a_removed_folder_is_acknowledged_as_durable(
    logs: Logs, caplog: pytest.LogCaptureFixture, is_made_again: bool
) -> None:
    log = logs.create()
    appended(log, BATCH)
    logs.sync(log)
    remove_folder(logs, is_made_again=is_made_again)

    appended(log, BATCH)
    logs.sync(log)

    assert (log.is_offline, log.high_watermark) == (True, 1)
    assert logs.folder().name in caplog.text
    assert not list(logs.folder().glob("*.log"))


@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("way", ["append", "roll"])
def test_no_segment_is_begun_in_a_removed_folder(logs: Logs, way: str, is_made_again: bool) -> None:
    """It would look like a log that begins there."""
    log = logs.create(is_group_commit=False, segment_bytes_max=len(BATCH))
    appended(log, BATCH)
    logs.turn.end()
    remove_folder(logs, is_made_again=is_made_again)

    if way == "append":
        assert log.append(BATCH) == AppendResult(AppendStatus.LOG_OFFLINE)
    else:
        with pytest.raises(StorageError):
            log.roll()

    assert log.is_offline
    assert not list(logs.folder().glob("*.log"))


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_log_with_closed_files_goes_offline_when_its_folder_was_removed(
    logs: Logs, is_made_again: bool
) -> None:
    log = logs.create()
    appended(log, BATCH)
    logs.sync(log)
    for _ in range(3):
        logs.turn.files.begin_tick()
    logs.turn.files.close_idle(60_000_000)
    assert logs.turn.files.count == 0
    remove_folder(logs, is_made_again=is_made_again)

    assert log.append(BATCH) == AppendResult(AppendStatus.LOG_OFFLINE)

    assert log.is_offline
    assert not list(logs.folder().glob("*.log"))
