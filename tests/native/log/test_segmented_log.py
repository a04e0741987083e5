"""Retention and compaction of a log, and which of its files are open."""

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.partition_log import PartitionLog
from broker.model import limits
from broker.model.errors import StorageError
from broker.model.log_results import LogEvent
from tests.support.native_log import NOW_MS, Logs, appended, bases_of, batches, placed, records

BATCH = records()
PATIENCE_US = 60_000_000


def filled(logs: Logs, segments: int, **settings: int) -> PartitionLog:
    """Return a log of segments of one record each, the last of them active, all synced."""
    log = logs.create(segment_bytes_max=len(BATCH), **settings)
    for _ in range(segments):
        appended(log, BATCH)
    logs.settle(log)
    return log


def test_a_failed_read_of_the_next_batch_takes_the_log_offline(logs: Logs, recording: None) -> None:
    log = logs.create()
    for _ in range(3):
        appended(log, BATCH)
    logs.settle(log)
    file_ops.fail("read", ".log", errno.EIO, after=2)  # where the next batch begins

    # Continuing after it would be a guess, and could skip records.
    with pytest.raises(StorageError):
        log.read(0, len(BATCH))
    assert log.is_offline


# ---- damaged closed segments -------------------------------------------------------------------


def broken_log(logs: Logs, place: int, **settings: int) -> PartitionLog:
    """Return a log of segments of five batches, with a changed byte in the second one's fourth."""
    log = logs.create(segment_bytes_max=5 * len(BATCH), **settings)
    for _ in range(12):
        appended(log, BATCH)
    logs.settle(log)
    damage(logs, 5, 3 * len(BATCH) + place)
    return log


def damage(logs: Logs, base: int, position: int) -> None:
    """Change a bit, on the disk and for whoever has the file open."""
    with (logs.folder() / f"{base:020}.log").open("r+b") as file:
        file.seek(position)
        [byte] = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x40]))


@pytest.mark.parametrize("interval", [1, 1 << 20])
@pytest.mark.parametrize("place", [8, 10])  # of the length: too long for any batch, for this file
def test_an_impossible_length_damages_the_rest_of_its_closed_segment(
    logs: Logs, place: int, interval: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = broken_log(logs, place, index_interval_bytes=interval)

    with pytest.raises(StorageError, match="offset 8 are damaged"):
        log.read(8, 1)

    assert log.is_in_service
    assert log.damaged_ranges == [(8, 10)]
    message = "bytes=%d..%d offsets=8..10: these records are refused, all others are served"
    assert message % (3 * len(BATCH), 5 * len(BATCH)) in caplog.text
    assert logs.turn.events[-1] == (LogEvent.BROKEN, log)
    for offset in (*range(8), 10, 11):
        assert log.read(offset, 1) == placed(BATCH, offset)
    for offset in (8, 9):
        with pytest.raises(StorageError, match="are damaged"):
            log.read(offset, 1)
    assert appended(log, BATCH) == 12
    logs.sync(log)
    assert log.read(12, 1) == placed(BATCH, 12)
    assert len([event for event in logs.turn.events if event[0] == LogEvent.BROKEN]) == 1


def test_a_read_that_meets_a_broken_length_returns_the_batches_before_it(logs: Logs) -> None:
    log = broken_log(logs, 8)

    found = log.read(5, 4 * len(BATCH))

    assert batches(found) == [placed(BATCH, offset) for offset in (5, 6, 7)]
    assert log.damaged_ranges == [(8, 10)]


def test_a_truncated_closed_segment_loses_only_the_missing_offsets(logs: Logs) -> None:
    log = broken_log(logs, 70)
    os.truncate(logs.folder() / f"{5:020}.log", len(BATCH) + 5)

    with pytest.raises(StorageError, match="offset 9 are damaged"):
        log.read(9, 1)

    assert log.damaged_ranges == [(6, 10)]
    assert log.read(5, 1) == placed(BATCH, 5)
    assert log.read(10, 1) == placed(BATCH, 10)


def test_a_broken_length_in_the_active_segment_takes_the_log_offline(logs: Logs) -> None:
    log = broken_log(logs, 70)
    damage(logs, 10, 8)

    with pytest.raises(StorageError, match="is offline"):
        log.read(11, 1)

    assert log.is_offline


def test_a_closed_segment_that_cannot_be_read_takes_the_log_offline(
    logs: Logs, recording: None
) -> None:
    log = broken_log(logs, 8)
    file_ops.fail("read", f"{5:020}.log", errno.EIO)

    with pytest.raises(StorageError, match="is offline"):
        log.read(9, 1)


def test_marking_damage_replaces_the_earlier_marks_of_the_segment(logs: Logs) -> None:
    log = broken_log(logs, 70)

    assert log.mark_damaged(5, [(8, 9, 0, 1), (5, 6, 0, 1)])
    assert log.damages_of(5) == [(5, 6, 0, 1), (8, 9, 0, 1)]
    assert log.mark_damaged(5, [])

    assert log.damaged_ranges == []
    assert not log.mark_damaged(6, [(8, 9, 0, 1)])
    assert not log.mark_damaged(10, [(10, 11, 0, 1)])  # the active one


def test_the_first_damage_is_the_first_that_is_not_deleted(logs: Logs) -> None:
    log = broken_log(logs, 70)
    assert log.first_damage is None

    log.mark_damaged(5, [(8, 9, 0, 1), (5, 6, 0, 1)])

    assert log.first_damage == 5
    log.move_log_start(6)
    assert log.first_damage == 8


# ---- the log start -------------------------------------------------------------------------------


def test_offsets_below_the_log_start_are_not_read(logs: Logs) -> None:
    log = filled(logs, 3)

    log.move_log_start(2)

    assert log.log_start_offset == 2
    assert log.read(2, 1000) == placed(BATCH, 2)
    with pytest.raises(IndexError):
        log.read(1, 1000)


def test_the_log_start_never_decreases(logs: Logs) -> None:
    log = filled(logs, 3)

    log.move_log_start(2)
    log.move_log_start(1)

    assert log.log_start_offset == 2


def test_the_log_start_stays_below_the_high_watermark(logs: Logs) -> None:
    log = filled(logs, 3)
    appended(log, BATCH)

    with pytest.raises(IndexError):
        log.move_log_start(4)


def test_the_log_start_may_be_within_a_segment(logs: Logs) -> None:
    log = logs.create()
    for _ in range(3):
        appended(log, BATCH)
    logs.sync(log)

    log.move_log_start(1)

    assert log.drop_segments(100) == []
    assert batches(log.read(1, 1000)) == [placed(BATCH, 1), placed(BATCH, 2)]


def test_epochs_below_the_log_start_are_forgotten(logs: Logs) -> None:
    log = logs.create()
    for epoch in (3, 5, 8):
        log.start_epoch(epoch)
        appended(log, BATCH)
        appended(log, BATCH)
    logs.sync(log)

    log.move_log_start(3)

    assert log.epoch_entries == [(5, 3), (8, 4)]


def test_a_reader_below_the_log_start_gets_the_log_start_offset(logs: Logs) -> None:
    log = filled(logs, 3)

    log.move_log_start(3)

    assert log.read(3, 1000) == b""
    assert log.find_timestamp(NOW_MS) is None


# ---- removing segments ---------------------------------------------------------------------------


def test_segments_that_end_below_the_log_start_are_removed(logs: Logs) -> None:
    log = filled(logs, 4)

    log.move_log_start(2)

    assert log.drop_segments(100) == [0, 1]
    assert bases_of(log) == [2, 3]
    assert log.read(2, 1000) == placed(BATCH, 2)


def test_a_limited_number_of_segments_is_removed_at_a_time(logs: Logs) -> None:
    log = filled(logs, 4)
    log.move_log_start(3)

    assert (log.drop_segments(2), log.drop_segments(2)) == ([0, 1], [2])


def test_the_active_segment_is_never_removed(logs: Logs) -> None:
    log = filled(logs, 2)

    log.move_log_start(2)

    assert log.drop_segments(100) == [0]
    assert bases_of(log) == [1]


def test_all_records_of_a_log_can_be_deleted_after_a_roll(logs: Logs) -> None:
    log = filled(logs, 2)
    assert log.roll()
    logs.settle(log)

    log.move_log_start(2)

    assert log.drop_segments(100) == [0, 1]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 2, 2)
    assert log.read(2, 1000) == b""
    appended(log, BATCH)
    logs.sync(log)
    assert log.read(2, 1000) == placed(BATCH, 2)


def test_a_segment_that_is_not_synced_yet_is_not_removed(logs: Logs) -> None:
    log = filled(logs, 2)
    log.roll()

    log.move_log_start(2)

    assert log.drop_segments(100) == [0]
    logs.settle(log)
    assert log.drop_segments(100) == [1]


def test_a_log_without_records_is_not_rolled(logs: Logs) -> None:
    log = logs.create()

    assert not log.roll()
    assert bases_of(log) == [0]


def test_a_failed_roll_raises(logs: Logs, recording: None) -> None:
    log = filled(logs, 1)
    file_ops.fail("open", f"{1:020}.log", errno.EACCES)

    with pytest.raises(Exception, match="cannot begin a segment"):
        log.roll()


def test_a_roll_that_loses_staged_batches_takes_the_log_offline(
    logs: Logs, recording: None
) -> None:
    log = filled(logs, 1)
    appended(log, BATCH)
    appended(log, records(size=4))
    calls: list[bool] = []
    log.when_durable(log.log_end_offset, calls.append)
    file_ops.fail("write", ".log", errno.EIO)

    with pytest.raises(Exception, match="cannot begin a segment"):
        log.roll()
    logs.turn.end()

    assert log.is_offline
    assert calls == [False]


# ---- replacing -----------------------------------------------------------------------------------


def compacted(logs: Logs, base: int, kept: list[int]) -> None:
    """Put a file in place that has only some of the batches, as compaction does."""
    folder = logs.folder()
    (folder / f"{base:020}.log").write_bytes(b"".join(placed(BATCH, offset) for offset in kept))
    for suffix in ("index", "timeindex"):
        (folder / f"{base:020}.{suffix}").unlink(missing_ok=True)


def test_segments_are_replaced_by_a_compacted_one_with_gaps(logs: Logs) -> None:
    log = filled(logs, 5)
    compacted(logs, 0, [1, 3])

    log.replace([0, 1, 2, 3], 0)

    assert bases_of(log) == [0, 4]
    assert batches(log.read(0, 1000)) == [placed(BATCH, 1), placed(BATCH, 3)]
    assert batches(log.read(2, 1000)) == [placed(BATCH, 3)]
    assert batches(log.read(4, 1000)) == [placed(BATCH, 4)]


def test_an_offset_after_the_last_remaining_record_is_found_in_the_next_segment(logs: Logs) -> None:
    log = filled(logs, 5)
    compacted(logs, 1, [1])

    log.replace([1, 2, 3], 1)

    assert log.read(2, 1000) == placed(BATCH, 4)


def test_compaction_may_leave_no_records_of_some_segments(logs: Logs) -> None:
    log = filled(logs, 4)

    log.replace([0, 1], None)

    assert bases_of(log) == [2, 3]
    assert log.read(0, 1000) == placed(BATCH, 2)


@pytest.mark.parametrize("old", [[0, 2], [1, 2, 3], [7]])
def test_only_adjacent_sealed_segments_are_replaced(logs: Logs, old: list[int]) -> None:
    log = filled(logs, 4)

    with pytest.raises(ValueError, match="side by side"):
        log.replace(old, old[0])
    assert bases_of(log) == [0, 1, 2, 3]


def test_a_missing_compacted_file_replaces_nothing(logs: Logs) -> None:
    log = filled(logs, 4)
    (logs.folder() / f"{1:020}.log").unlink()

    close_all(logs)
    with pytest.raises(Exception, match="cannot open a compacted segment"):
        log.replace([1, 2], 1)
    assert bases_of(log) == [0, 1, 2, 3]


# ---- open files ----------------------------------------------------------------------------------


def close_all(logs: Logs) -> None:
    """Let a whole tick pass without use of any file."""
    for _ in range(2):
        logs.turn.files.begin_tick()
    logs.turn.files.close_idle(PATIENCE_US)


def test_an_idle_log_holds_no_descriptor_and_no_preallocated_space(logs: Logs) -> None:
    filled(logs, 3)
    assert logs.turn.files.count > 0

    close_all(logs)

    assert logs.turn.files.count == 0
    assert sum(file.stat().st_size for file in logs.folder().glob("*.log")) == 3 * len(BATCH)


@pytest.mark.parametrize(("batches_sent", "is_written"), [(10, False), (40, True)])
def test_a_closed_log_keeps_few_index_entries_in_memory_and_writes_many_to_a_file(
    logs: Logs, batches_sent: int, is_written: bool
) -> None:
    log = logs.create(index_interval_bytes=0)
    for _ in range(batches_sent):
        appended(log, BATCH)
    logs.sync(log)

    close_all(logs)

    assert (logs.folder() / f"{0:020}.index").exists() is is_written
    assert all(log.read(offset, 1) == placed(BATCH, offset) for offset in range(batches_sent))


def test_idle_files_are_closed_within_the_given_time(logs: Logs) -> None:
    filled(logs, 5)
    for _ in range(2):
        logs.turn.files.begin_tick()

    assert logs.turn.files.close_idle(0) == 1
    assert logs.turn.files.close_idle(PATIENCE_US) == 4
    assert logs.turn.files.count == 0


def test_a_file_used_since_the_last_tick_stays_open(logs: Logs) -> None:
    log = filled(logs, 1)
    logs.turn.files.begin_tick()
    log.read(0, 1000)
    logs.turn.files.begin_tick()
    logs.turn.files.close_idle(PATIENCE_US)

    assert logs.turn.files.count == 1


def test_a_log_with_closed_files_can_be_appended_to_and_read(logs: Logs) -> None:
    log = filled(logs, 1)
    close_all(logs)

    appended(log, BATCH)
    logs.sync(log)

    assert batches(log.read(0, 1000)) == [placed(BATCH, 0)]
    assert batches(log.read(1, 1000)) == [placed(BATCH, 1)]


def test_a_log_with_unsynced_records_is_synced_before_it_is_closed(
    logs: Logs, recording: None
) -> None:
    log = logs.create(is_group_commit=False)
    appended(log, BATCH)
    logs.turn.end()

    close_all(logs)
    assert logs.turn.files.count == 1
    logs.take_synced()

    assert logs.turn.files.count == 0
    assert log.durable_end == 1
    operations = [op for op, path, *_ in file_ops.recorded() if path.endswith("0.log")]
    assert operations[-2:] == ["sync_data", "close"]


def test_a_log_written_to_while_its_files_are_being_closed_stays_open(logs: Logs) -> None:
    log = logs.create(is_group_commit=False)
    appended(log, BATCH)
    logs.turn.end()
    close_all(logs)

    appended(log, BATCH)
    logs.turn.end()
    logs.take_synced()

    assert logs.turn.files.count == 1
    assert len(batches(log.read(0, 1000))) == 2


def test_reads_of_more_files_than_may_be_open_close_others(logs: Logs) -> None:
    log = filled(logs, 12)
    close_all(logs)
    logs.turn.files.count_max = 4

    for _ in range(2):
        for offset in range(12):
            assert log.read(offset, 1) == placed(BATCH, offset)

    assert logs.turn.files.count <= 4


def test_an_append_without_a_free_descriptor_closes_another_file(
    logs: Logs, recording: None
) -> None:
    log = filled(logs, 4)
    for offset in range(3):
        log.read(offset, 1)
    file_ops.fail("open", f"{4:020}.log", errno.EMFILE)

    assert appended(log, BATCH) == 4


# ---- indexes in memory ---------------------------------------------------------------------------


def indexed(logs: Logs, count: int) -> PartitionLog:
    """Return a sealed segment with an index entry per batch, and an active one after it."""
    log = logs.create(index_interval_bytes=0)
    for _ in range(count):
        appended(log, BATCH)
    log.roll()
    logs.settle(log)
    return log


def test_an_often_searched_index_is_kept_in_memory_while_its_segment_is_open(
    logs: Logs,
) -> None:
    count = limits.INDEX_ENTRIES_HELD_MAX * 4
    log = indexed(logs, count)
    for offset in range(20, limits.INDEX_MISSES_BEFORE_LOAD * 20 + 20, 20):
        log.read(offset, 1)
    assert logs.turn.files.memory_bytes == 0

    log.read(7, 1)

    assert logs.turn.files.memory_bytes > 0
    close_all(logs)
    assert logs.turn.files.memory_bytes == 0


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> PartitionLog:
    logs = Logs(tmp_path_factory.mktemp("searched"))
    log = logs.create(index_interval_bytes=0)
    for place in range(limits.INDEX_ENTRIES_HELD_MAX * 6):  # three levels of it
        appended(log, records(1 + place % 7, size=place % 50))
    log.roll()
    logs.settle(log)
    for offset in range(0, 200, 20):
        log.read(offset, 1)
    assert logs.turn.files.memory_bytes > 0
    return log


@given(share=st.floats(0, 1))
def test_every_offset_is_found_in_an_index_in_memory(searched: PartitionLog, share: float) -> None:
    offset = min(int(share * searched.high_watermark), searched.high_watermark - 1)

    batch = searched.read(offset, 1)

    base = int.from_bytes(batch[:8])
    assert base <= offset <= base + int.from_bytes(batch[23:27])


# ---- settings ------------------------------------------------------------------------------------


def test_a_changed_setting_applies_to_the_next_append(logs: Logs) -> None:
    log = logs.create()
    appended(log, BATCH)

    log.configure(segment_bytes_max=len(BATCH))
    appended(log, BATCH)

    assert bases_of(log) == [0, 1]


def test_a_change_to_durability_os_makes_unsynced_records_visible_at_once(logs: Logs) -> None:
    log = logs.create()
    appended(log, BATCH)

    log.configure(is_group_commit=False)
    logs.turn.end()

    assert log.high_watermark == 1


def test_a_change_to_group_commit_syncs_what_is_in_the_page_cache(logs: Logs) -> None:
    log = logs.create(is_group_commit=False)
    appended(log, BATCH)
    logs.turn.end()

    log.configure(is_group_commit=True)
    logs.sync(log)

    assert log.durable_end == 1


def test_configuring_a_loading_log_starts_no_sync(logs: Logs) -> None:
    log = logs.create()
    requested: list[str] = []
    logs.turn.schedule = lambda: requested.append("end of turn")

    log.begin_loading()
    log.configure(is_group_commit=False)

    assert requested == []


def test_flush_messages_starts_a_sync_after_that_many_records(logs: Logs) -> None:
    log = logs.create(is_group_commit=False, flush_messages=3)
    for _ in range(3):
        assert log.durable_end == 0
        appended(log, BATCH)
        logs.turn.end()

    logs.take_synced()

    assert log.durable_end == 3


def test_flush_ms_starts_a_sync_of_records_of_that_age(logs: Logs) -> None:
    log = logs.create(is_group_commit=False, flush_ms=100)
    appended(log, BATCH)
    logs.turn.end()

    logs.turn.sync_aged(NOW_MS + 99)
    logs.turn.end()
    assert log.durable_end == 0
    logs.turn.sync_aged(NOW_MS + 100)
    logs.turn.end()
    logs.take_synced()

    assert log.durable_end == 1


def test_flush_ms_applies_to_records_written_before_it_was_set(logs: Logs) -> None:
    log = logs.create(is_group_commit=False)
    appended(log, BATCH)
    logs.turn.end()

    log.configure(is_group_commit=False, flush_ms=100)
    logs.turn.sync_aged(NOW_MS + 100)
    logs.turn.end()
    logs.take_synced()

    assert log.durable_end == 1


def test_a_log_that_is_synced_often_has_one_flush_ms_timer(logs: Logs) -> None:
    log = logs.create(flush_ms=100)
    for _ in range(20):
        appended(log, BATCH)
        logs.sync(log)

    assert logs.turn.aging_count == 1
    logs.turn.sync_aged(NOW_MS)
    assert logs.turn.aging_count == 0


def test_flush_ms_starts_again_after_a_sync(logs: Logs) -> None:
    log = logs.create(is_group_commit=False, flush_ms=100)
    appended(log, BATCH)
    logs.turn.sync_aged(NOW_MS + 100)
    logs.turn.end()
    appended(log, BATCH)  # during the sync
    logs.take_synced()
    logs.turn.end()

    logs.turn.sync_aged(NOW_MS + 199)
    logs.turn.end()
    assert log.durable_end == 1
    logs.turn.sync_aged(NOW_MS + 200)
    logs.turn.end()
    logs.take_synced()

    assert log.durable_end == 2


def test_a_preallocated_segment_has_its_whole_size_from_the_start(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=1 << 20, is_preallocated=True)
    appended(log, BATCH)

    log.roll()

    assert (logs.folder() / f"{1:020}.log").stat().st_size == 1 << 20


def test_the_last_sequence_of_each_producer_is_returned(logs: Logs) -> None:
    log = logs.create()
    appended(log, records(2, producer_id=7, producer_epoch=1, base_sequence=0))
    appended(log, records(3, producer_id=7, producer_epoch=1, base_sequence=2))

    assert log.producer_ends == [(7, 1, 4)]


def test_a_closed_log_reopens_where_it_ended(logs: Logs) -> None:
    log = filled(logs, 3)
    close_all(logs)

    assert recovery.close(log) == 3
    assert bases_of(logs.attach(3)) == [0, 1, 2]
