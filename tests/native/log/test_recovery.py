"""Opening a log: after a clean stop nothing is read; after a crash the valid prefix is kept."""

import errno
import select
import struct
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.model import limits
from broker.model.config import load
from broker.model.log_results import AppendResult, AppendStatus
from broker.model.topic_config import TopicConfig
from broker.segments import text_files
from broker.storage.recovery import syncing
from broker.storage.recovery.epochs import UncleanStarts
from broker.storage.recovery.partitions import Partitions
from tests.support.fakes import FakeStore
from tests.support.native_log import (
    NOW_MS,
    TOPIC_ID,
    WAIT_MS,
    Logs,
    appended,
    bases_of,
    batches,
    placed,
    records,
)

COMMIT = CommitThread(1)  # one for all tests: they wait for what they make durable
RECORDS_PER_BATCH = 2
BATCH = records(RECORDS_PER_BATCH)
INDEX_INTERVAL = 2 * len(BATCH)
CLOSING_US = 60_000_000  # enough for everything


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """One data directory."""
    return Logs(tmp_path, COMMIT)


def written(logs: Logs, count: int = 6, **settings: int) -> PartitionLog:
    """Return a log of batches of two records, three batches to a segment, all durable."""
    settings = {"segment_bytes_max": 3 * len(BATCH), "index_interval_bytes": 100, **settings}
    log = logs.create(**settings)
    for _ in range(count):
        appended(log, BATCH)
    logs.sync(log)
    return log


def closed(logs: Logs, count: int = 6) -> list[bytes]:
    """Leave a log that was closed cleanly; return its batches."""
    assert recovery.close(written(logs, count)) == 2 * count
    return [placed(BATCH, 2 * number) for number in range(count)]


def crashed(logs: Logs, count: int = 6) -> list[bytes]:
    """Leave a log as a kill does, with its reserved tail; return its batches."""
    written(logs, count)
    return [placed(BATCH, 2 * number) for number in range(count)]


def last_file(logs: Logs) -> Path:
    """Return the active segment's file."""
    return max(logs.folder().glob("*.log"))


def content(log: PartitionLog) -> list[bytes]:
    """Return all visible batches."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while data := log.read(offset, 1 << 20):
        found += batches(data)
        offset = int.from_bytes(found[-1][:8]) + int.from_bytes(found[-1][23:27]) + 1
    assert offset == log.high_watermark
    return found


def cut_to(logs: Logs, size: int) -> bytes:
    """Truncate the active segment's file to its first bytes, without the tail; return the bytes."""
    file = last_file(logs)
    whole = file.read_bytes()[:size]
    file.write_bytes(whole)
    return whole


def recovered(logs: Logs, stored: list[bytes]) -> PartitionLog:
    """Recover: exactly these batches are found, and the files end with them."""
    log, behind = logs.recover()
    assert behind == []
    assert content(log) == stored
    assert log.log_end_offset == log.durable_end == 2 * len(stored)
    sizes = [file.stat().st_size for file in logs.folder().glob("*.log")]
    assert sum(sizes) == sum(map(len, stored))
    return log


def assert_recovered(logs: Logs, stored: list[bytes]) -> None:
    """Recover twice: the second time finds the same."""
    recovered(logs, stored)
    recovered(logs, stored)


# ---- a clean stop -----------------------------------------------------------------------------


def test_a_clean_start_reads_only_the_last_header_of_each_segment(
    logs: Logs, recording: None
) -> None:
    stored = closed(logs)
    before = len(file_ops.recorded())

    log = logs.attach(12)

    sizes = [
        size
        for op, path, _, size, *_ in file_ops.recorded()[before:]
        if op == "read" and path.endswith(".log")
    ]
    assert len(sizes) == log.segment_count
    assert max(sizes) < 61  # of a batch's header
    assert content(log) == stored
    assert log.high_watermark == log.log_end_offset == 12


def test_a_log_continues_where_a_clean_stop_left_it(logs: Logs) -> None:
    stored = closed(logs, 4)

    log = logs.attach(8, segment_bytes_max=3 * len(BATCH))
    for _ in range(3):
        appended(log, BATCH)
    logs.sync(log)

    assert content(log) == stored + [placed(BATCH, offset) for offset in (8, 10, 12)]
    assert bases_of(log) == [0, 6, 12]


def test_a_clean_stop_leaves_files_of_complete_batches(logs: Logs) -> None:
    stored = closed(logs)

    files = sorted(logs.folder().glob("*.log"))

    assert b"".join(file.read_bytes() for file in files) == b"".join(stored)


def test_a_close_writes_and_syncs_staged_batches(logs: Logs, recording: None) -> None:
    log = logs.create(is_group_commit=False)
    appended(log, BATCH)

    assert recovery.close(log) == 2

    assert log.durable_end == log.high_watermark == 2
    assert (logs.folder() / f"{0:020}.log").read_bytes() == placed(BATCH, 0)
    syncs = [(op, Path(path)) for op, path, *_ in file_ops.recorded() if op.startswith("sync")]
    assert syncs == [("sync_data", logs.folder() / f"{0:020}.log")]
    assert log.has_unsynced_indexes


def test_a_close_whose_write_fails_is_not_clean(logs: Logs, recording: None) -> None:
    log = logs.create(is_group_commit=False)
    appended(log, BATCH)
    file_ops.fail("write", ".log", 28)

    assert recovery.close(log) == -1
    assert log.is_offline


def test_a_close_does_not_use_the_sync_threads(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.create()
    appended(log, BATCH)
    logs.commit.stop()

    assert recovery.close(log) == 2
    logs.turn.poll_synced()

    assert not log.is_offline


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "zeros", "truncated"])
def test_reads_do_not_need_index_files(logs: Logs, suffix: str, damage: str) -> None:
    stored = closed(logs)
    for file in logs.folder().glob("*" + suffix):
        if damage == "missing":
            file.unlink()
        else:
            data = file.read_bytes()
            kept = {"empty": 0, "zeros": 0, "truncated": max(len(data) - 5, 0)}[damage]
            file.write_bytes(data[:kept] + bytes(len(data) if damage == "zeros" else 0))

    log = logs.attach(12)

    assert [log.read(offset, 1) for offset in range(12)] == [stored[at // 2] for at in range(12)]


def test_an_index_with_a_wrong_entry_is_replaced_by_the_one_that_the_appends_wrote(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.create(segment_bytes_max=20 * 1_051)
    stored = [records(10, size=90, timestamp=NOW_MS + number) for number in range(30)]
    for batch in stored:
        appended(log, batch)
    logs.sync(log)
    recovery.close(log)
    index, times = (logs.folder() / f"{0:020}{suffix}" for suffix in (".index", ".timeindex"))
    as_written = index.read_bytes(), times.read_bytes()
    entries = list(struct.iter_unpack(">ii", as_written[0]))
    assert len(entries) > 3
    middle = len(entries) // 2
    last_offset, position = entries[middle]
    with index.open("r+b") as file:
        file.seek(8 * middle)
        file.write(struct.pack(">ii", last_offset - 1, position))
    log = logs.attach(300)

    assert log.read(last_offset, 1) == placed(stored[last_offset // 10], last_offset - 9)
    assert "index rebuilt" in caplog.text
    assert (index.read_bytes(), times.read_bytes()) == as_written


def test_a_log_opens_even_if_its_rebuilt_index_finds_no_disk_space(logs: Logs) -> None:
    stored = closed(logs)
    for file in logs.folder().glob("*.index"):
        file.unlink()
    file_ops.start_recording()
    file_ops.fail("write", ".index", errno.ENOSPC, times=100)
    try:
        log = logs.attach(12)
        found = [log.read(offset, 1) for offset in range(12)]
    finally:
        file_ops.stop_recording()

    assert found == [stored[at // 2] for at in range(12)]
    assert log.is_in_service


@pytest.mark.parametrize("damage", ["missing", "empty", "zeros"])
@pytest.mark.parametrize("way", ["clean", "crash"])
def test_a_lost_time_index_is_rebuilt(logs: Logs, damage: str, way: str) -> None:
    log = logs.create(segment_bytes_max=2 * len(records()))
    for number in range(6):
        appended(log, records(timestamp=NOW_MS + number))
    logs.sync(log)
    recovery.close(log)
    for file in logs.folder().glob("*.timeindex"):
        size = file.stat().st_size
        file.unlink()
        if damage != "missing":
            file.write_bytes(bytes(size if damage == "zeros" else 0))

    if way == "clean":
        log = logs.attach(6)
    else:
        log, _ = logs.recover(recovery_point=6)

    assert [log.find_timestamp(NOW_MS + number) for number in range(6)] == [
        (number, NOW_MS + number) for number in range(6)
    ]
    assert log.find_max_timestamp() == (5, NOW_MS + 5)


def test_a_damaged_snapshot_after_a_clean_stop_is_not_used(logs: Logs) -> None:
    closed(logs)
    log = logs.unopened()

    taken = recovery.attach(
        log, [0, 6], log_start_offset=0, log_end_offset=12, epochs=[(0, 0)], snapshot=b"damaged"
    )

    assert not taken


# ---- a crash: where the log ends --------------------------------------------------------------


def test_after_a_kill_everything_written_is_present(logs: Logs) -> None:
    stored = crashed(logs)

    assert_recovered(logs, stored)


def test_a_reserved_tail_is_not_part_of_the_log(logs: Logs) -> None:
    log = logs.create()
    for size in (limits.TAIL_RESERVE_AFTER_BYTES, 8):
        appended(log, records(size=size))
        logs.sync(log)
    size = log.size
    assert last_file(logs).stat().st_size > size

    log, _ = logs.recover()

    assert (log.log_end_offset, log.size) == (2, size)
    assert last_file(logs).stat().st_size == size


@pytest.mark.parametrize("tail", [b"\0", b"\xff" * 300, bytes(4096), BATCH[:-1], b"garbage" * 50])
def test_bytes_after_the_last_batch_are_truncated(logs: Logs, tail: bytes) -> None:
    stored = crashed(logs)
    whole = cut_to(logs, 3 * len(BATCH))
    last_file(logs).write_bytes(whole + tail)

    assert_recovered(logs, stored)


def test_a_batch_cut_at_any_byte_is_truncated(logs: Logs) -> None:
    stored = crashed(logs)
    whole = cut_to(logs, 3 * len(BATCH))

    for size in range(2 * len(BATCH), 3 * len(BATCH)):
        last_file(logs).write_bytes(whole[:size])
        log, behind = logs.recover()
        assert behind == []
        assert log.log_end_offset == 10
        assert last_file(logs).stat().st_size == 2 * len(BATCH)
    assert_recovered(logs, stored[:-1])


def test_a_bit_flipped_anywhere_in_the_last_batch_truncates_it(logs: Logs) -> None:
    crashed(logs)
    whole = cut_to(logs, 3 * len(BATCH))
    start = 2 * len(BATCH)
    unprotected = range(start + 12, start + 16)  # the leader epoch, which the CRC does not cover

    for place in range(start, 3 * len(BATCH)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        last_file(logs).write_bytes(damaged)
        log, _ = logs.recover(epochs=[(0, 0)])
        if place not in unprotected:
            assert log.log_end_offset == 10, place


def test_batches_after_a_damaged_batch_are_truncated_with_it(logs: Logs) -> None:
    stored = crashed(logs)
    whole = bytearray(cut_to(logs, 3 * len(BATCH)))
    whole[len(BATCH) + 70] ^= 1

    last_file(logs).write_bytes(whole)

    assert_recovered(logs, stored[:4])


def test_a_stale_batch_of_an_older_epoch_after_a_truncation_is_truncated(logs: Logs) -> None:
    closed(logs, 2)
    stale = placed(BATCH, 6, leader_epoch=0)
    log, _ = logs.recover()
    log.start_epoch(1)
    appended(log, BATCH)  # at offset 4, epoch 1
    logs.sync(log)
    recovery.close(log)
    file = last_file(logs)
    file.write_bytes(file.read_bytes() + stale)

    log, _ = logs.recover(epochs=[(0, 0), (1, 4)])

    assert content(log) == [placed(BATCH, 0), placed(BATCH, 2), placed(BATCH, 4, 1)]


def test_a_batch_whose_offset_does_not_follow_the_previous_one_is_truncated(logs: Logs) -> None:
    stored = closed(logs, 2)
    for offset in (3, 5, 0):
        last_file(logs).write_bytes(b"".join(stored) + placed(BATCH, offset))
        assert_recovered(logs, stored)


def test_a_full_segment_at_a_kill_is_not_the_end_of_the_log(logs: Logs) -> None:
    stored = crashed(logs, 6)
    first = min(logs.folder().glob("*.log"))
    first.write_bytes(first.read_bytes() + bytes(4096))

    assert_recovered(logs, stored)


def test_segments_beyond_the_end_are_reported_and_not_part_of_the_log(logs: Logs) -> None:
    stored = crashed(logs, 9)
    damaged = logs.folder() / f"{6:020}.log"
    data = bytearray(damaged.read_bytes())
    data[len(BATCH) + 70] ^= 1
    damaged.write_bytes(data)

    log, behind = logs.recover()

    assert behind == [12]
    assert bases_of(log) == [0, 6]
    assert content(log) == stored[:4]


def test_a_missing_segment_ends_the_log(logs: Logs) -> None:
    stored = crashed(logs, 9)
    (logs.folder() / f"{6:020}.log").unlink()

    log, behind = logs.recover()

    assert behind == [12]
    assert content(log) == stored[:3]


def test_an_append_after_a_truncation_is_found_by_the_next_recovery(logs: Logs) -> None:
    stored = crashed(logs, 4)
    cut_to(logs, len(BATCH) - 1)
    log, _ = logs.recover()
    appended(log, BATCH)
    logs.sync(log)

    assert_recovered(logs, [*stored[:3], placed(BATCH, 6)])


def test_a_truncation_is_synced_before_anything_else_happens(logs: Logs, recording: None) -> None:
    crashed(logs, 4)
    cut_to(logs, len(BATCH) - 5)
    before = len(file_ops.recorded())

    logs.recover()

    operations = [
        (op, Path(path).name)
        for op, path, *_ in file_ops.recorded()[before:]
        if op in {"truncate", "sync_data"}
    ]
    name = f"{6:020}.log"
    assert operations.index(("truncate", name)) < operations.index(("sync_data", name))


# ---- a crash: what else is recovered ------------------------------------------------------------


def test_segments_below_the_recovery_point_are_not_read(logs: Logs, recording: None) -> None:
    log = written(logs, 9)
    offset, snapshot = log.producer_snapshot()
    recovery.close(log)
    before = len(file_ops.recorded())

    log, _ = logs.recover(recovery_point=12, snapshot=snapshot, snapshot_offset=offset)

    read = {  # more than a header, to see whether the index fits
        Path(path).name
        for op, path, _, size, *_ in file_ops.recorded()[before:]
        if op == "read" and path.endswith(".log") and size > 61
    }
    assert read == {f"{12:020}.log"}
    assert log.log_end_offset == 18


@pytest.mark.parametrize("damage", ["missing", "empty", "zeros", "garbage"])
def test_index_files_are_rebuilt(logs: Logs, damage: str) -> None:
    stored = crashed(logs)
    for file in [*logs.folder().glob("*.index"), *logs.folder().glob("*.timeindex")]:
        file.unlink()
        if damage != "missing":
            file.write_bytes({"empty": b"", "zeros": bytes(48), "garbage": b"\x11" * 480}[damage])

    log = recovered(logs, stored)

    assert [log.read(offset, 1) for offset in range(12)] == [stored[at // 2] for at in range(12)]
    assert log.find_timestamp(NOW_MS) == (0, NOW_MS)


def idempotent(sequence: int, producer: int = 7) -> bytes:
    """Return a batch of one record of a producer."""
    return records(producer_id=producer, producer_epoch=0, base_sequence=sequence)


def test_producers_survive_a_crash_without_a_snapshot(logs: Logs) -> None:
    log = logs.create()
    for sequence in range(3):
        appended(log, idempotent(sequence))
    logs.sync(log)

    log, _ = logs.recover()

    assert log.append(idempotent(1)) == AppendResult(AppendStatus.DUPLICATE, 1, 2)
    assert log.append(idempotent(4)) == AppendResult(AppendStatus.SEQUENCE_OUT_OF_ORDER)
    assert log.append(idempotent(3))[:2] == (0, 3)


def test_producers_survive_with_a_snapshot_and_the_batches_after_it(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=2 * len(idempotent(0)))
    for sequence in range(4):
        appended(log, idempotent(sequence, producer=1))
    offset, snapshot = log.producer_snapshot()
    for sequence in range(2):
        appended(log, idempotent(sequence, producer=2))
    logs.sync(log)

    log, _ = logs.recover(recovery_point=4, snapshot=snapshot, snapshot_offset=offset)

    assert log.append(idempotent(3, producer=1)) == AppendResult(AppendStatus.DUPLICATE, 3, 4)
    assert log.append(idempotent(0, producer=2)) == AppendResult(AppendStatus.DUPLICATE, 4, 5)
    assert log.append(idempotent(2, producer=2))[0] == 0


def test_with_a_damaged_snapshot_producers_are_read_from_the_log(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=len(idempotent(0)))
    for sequence in range(3):
        appended(log, idempotent(sequence))
    logs.sync(log)

    log, _ = logs.recover(recovery_point=3, snapshot=b"damaged", snapshot_offset=3)

    assert log.append(idempotent(0)) == AppendResult(AppendStatus.DUPLICATE, 0, 1)


def test_producers_of_truncated_records_are_forgotten(logs: Logs) -> None:
    log = logs.create()
    for sequence in range(3):
        appended(log, idempotent(sequence))
    offset, snapshot = log.producer_snapshot()
    logs.sync(log)
    cut_to(logs, len(idempotent(0)))

    log, _ = logs.recover(recovery_point=3, snapshot=snapshot, snapshot_offset=offset)

    assert log.log_end_offset == 1
    assert log.append(idempotent(2))[:2] == (0, 1)


def test_epochs_are_rebuilt_from_the_log(logs: Logs) -> None:
    log = logs.create()
    appended(log, BATCH)
    log.start_epoch(2)
    appended(log, BATCH)
    log.start_epoch(5)
    appended(log, BATCH)
    logs.sync(log)

    log, _ = logs.recover()

    assert log.epoch_entries == [(0, 0), (2, 2), (5, 4)]
    assert log.leader_epoch == 5


def test_an_epoch_that_began_beyond_the_end_is_forgotten(logs: Logs) -> None:
    crashed(logs, 2)

    log, _ = logs.recover(epochs=[(0, 0), (1, 4), (2, 5)])

    assert log.epoch_entries == [(0, 0), (1, 4)]
    assert log.leader_epoch == 1


# ---- the data directory -------------------------------------------------------------------------


def partitions(path: Path, store: FakeStore) -> tuple[Partitions, Turn]:
    """Start on a data directory."""
    turn = Turn(COMMIT)
    turn.now_ms = turn.steady_ms = NOW_MS
    return Partitions(path, UncleanStarts(store, 1), turn, 1_000_000), turn


def loaded(home: Partitions, config: TopicConfig) -> list[PartitionLog]:
    """Open a topic as a start does."""
    logs = home.announce_topic("t", TOPIC_ID, [0], config)
    for log in logs:
        assert home.load(log) is None
        assert home.settle([log]) == {}
        log.end_loading()
    return logs


def end_synced(turn: Turn, log: PartitionLog) -> None:
    """End a turn, and wait until everything appended is durable."""
    turn.end()
    poll = select.poll()
    poll.register(COMMIT.event_fd, select.POLLIN)
    while log.durable_end < log.log_end_offset:
        assert poll.poll(WAIT_MS)
        turn.poll_synced()


def test_a_log_that_lost_its_epochs_is_read_before_it_is_written(tmp_path: Path) -> None:
    """An epoch below that of the last batch would make the next recovery cut there."""
    store = FakeStore()
    store.values[b"topic/t"] = b"{}"
    config = TopicConfig({}, load())
    folder = tmp_path / "t-0"
    for _ in range(2):  # the second start is an unclean one: epoch 1
        home, turn = partitions(tmp_path, store)
        (log,) = loaded(home, config)
        appended(log, BATCH)
        turn.end()
    home, turn = partitions(tmp_path, store)
    (log,) = loaded(home, config)
    epoch = log.leader_epoch
    assert epoch > 0
    appended(log, BATCH)
    turn.end()
    home.close()
    (folder / text_files.LEADER_EPOCHS).unlink()

    home, _ = partitions(tmp_path, store)
    (log,) = loaded(home, config)

    assert home.is_clean
    assert log.leader_epoch == epoch
    assert len(content(log)) == 3


def test_segments_beyond_the_end_are_set_aside(tmp_path: Path) -> None:
    store = FakeStore()
    store.values[b"topic/t"] = b"{}"
    config = TopicConfig({}, load())
    home, turn = partitions(tmp_path, store)
    (log,) = loaded(home, config)
    appended(log, BATCH)
    turn.end()
    (tmp_path / "t-0" / f"{50:020}.log").write_bytes(placed(BATCH, 50))

    home, _ = partitions(tmp_path, store)
    (log,) = loaded(home, config)

    assert bases_of(log) == [0]
    assert (tmp_path / "t-0" / f"{50:020}.log-stray").exists()


# ---- work that recovery defers -----------------------------------------------------------------


def test_under_os_recovery_reports_no_more_durable_than_before(logs: Logs, recording: None) -> None:
    crashed(logs, 9)
    before = len(file_ops.recorded())

    log, _ = logs.recover(recovery_point=4, is_group_commit=False)

    assert (log.durable_end, log.high_watermark) == (4, log.log_end_offset)
    assert not [op for op, *_ in file_ops.recorded()[before:] if op == "sync_data"]


def test_under_os_the_first_append_syncs_the_recovered_files(logs: Logs, recording: None) -> None:
    crashed(logs, 9)
    log, _ = logs.recover(is_group_commit=False, segment_bytes_max=100 * len(BATCH))
    appended(log, BATCH)
    before = len(file_ops.recorded())

    logs.sync(log)

    synced = {Path(path).name for op, path, *_ in file_ops.recorded()[before:] if op == "sync_data"}
    assert synced == {f"{base:020}.log" for base in bases_of(log)}


def test_under_os_an_idle_recovered_log_is_synced_and_closed(logs: Logs) -> None:
    """Otherwise it would hold its files open, and each start would read it again."""
    crashed(logs, 9)
    logs = Logs(logs.path, COMMIT)
    log, _ = logs.recover(is_group_commit=False)
    assert (log.durable_end, logs.turn.files.count) == (0, 3)

    for _ in range(2):
        for _ in range(2):
            logs.turn.files.begin_tick()
        logs.turn.files.close_idle(CLOSING_US)
        logs.settle(log)

    assert (log.durable_end, log.needs_sync, logs.turn.files.count) == (18, False, 0)


def test_under_os_idle_recovered_logs_are_synced_at_once(logs: Logs) -> None:
    for partition in (0, 1):
        log = logs.create(partition, segment_bytes_max=3 * len(BATCH))
        for _ in range(4):
            appended(log, BATCH)
        logs.settle(log)
    logs = Logs(logs.path, COMMIT)
    found = [logs.recover(partition=number, is_group_commit=False)[0] for number in (0, 1)]

    for _ in range(2):
        logs.turn.files.begin_tick()
    logs.turn.files.close_idle(CLOSING_US)
    for log in found:
        logs.settle(log)

    assert [log.durable_end for log in found] == [8, 8]


def test_a_checkpoint_makes_the_indexes_of_full_segments_durable_first(
    tmp_path: Path, recording: None
) -> None:
    """After a crash, segments below the recovery point are used with the index they have."""
    home, turn = partitions(tmp_path, FakeStore())
    config = TopicConfig({"segment.bytes": "1024"}, load())
    (log,) = loaded(home, config)
    for _ in range(3):
        appended(log, records(size=900))
        end_synced(turn, log)
    before = len(file_ops.recorded())

    for _ in range(2):
        assert home.prepare_checkpoint() == {}
        home.write_checkpoint(home.plan_checkpoint())

    operations = [(op, Path(path).name) for op, path, *_ in file_ops.recorded()[before:]]
    synced = [name for op, name in operations if op == "sync_data" and name.endswith("index")]
    assert synced == [
        f"{base:020}{suffix}" for base in (0, 1) for suffix in (".index", ".timeindex")
    ]
    renames = [at for at, (op, _) in enumerate(operations) if op == "rename"]
    last_sync = operations.index(("sync_data", synced[-1]))
    points = [at for at in renames if text_files.RECOVERY_POINTS in operations[at][1]]
    assert min(points) > last_sync


@pytest.mark.parametrize("one_by_one_max", [0, 1])
def test_a_stop_makes_the_indexes_durable_too(
    tmp_path: Path, recording: None, monkeypatch: pytest.MonkeyPatch, one_by_one_max: int
) -> None:
    monkeypatch.setattr(syncing, "LOGS_SYNCED_ONE_BY_ONE_MAX", one_by_one_max)
    home, turn = partitions(tmp_path, FakeStore())
    (log,) = loaded(home, TopicConfig({"segment.bytes": "1024"}, load()))
    for _ in range(2):
        appended(log, records(size=900))
        end_synced(turn, log)
    before = len(file_ops.recorded())

    home.close()

    operations = [(op, Path(path).name) for op, path, *_ in file_ops.recorded()[before:]]
    marked = operations.index(("rename", text_files.CLEAN_SHUTDOWN + ".tmp"))
    if one_by_one_max == 0:
        syncs = [at for at, (op, _) in enumerate(operations) if op == "sync_filesystem"]
        last_write = max(
            at
            for at, (op, name) in enumerate(operations[:marked])
            if op == "write" and name.endswith(("index", "snapshot.tmp", "epoch-checkpoint.tmp"))
        )
        renames = [
            at
            for at, (op, name) in enumerate(operations)
            if op == "rename" and name.startswith(("leader", "0"))
        ]
        assert last_write < syncs[0] < min(renames) < max(renames) < syncs[1] < marked
    else:
        synced = {name for op, name in operations[:marked] if op.startswith("sync")}
        assert {f"{base:020}{suffix}" for base in (0, 1) for suffix in (".index", ".timeindex")} | {
            f"{2:020}.snapshot.tmp",
            "leader-epoch-checkpoint.tmp",
            "t-0",
        } <= synced


# ---- a compacted log
# ------------------------------------------------------------------------------


def compacted(logs: Logs, kept: list[int]) -> list[bytes]:
    """Leave a compacted log: three sealed files of nine batches, of which these are kept.

    An empty active file follows.
    """
    log = written(logs, 9)
    log.append(BATCH)
    logs.sync(log)
    recovery.close(log)
    for base in (0, 6, 12):
        file = logs.folder() / f"{base:020}.log"
        file.write_bytes(b"".join(placed(BATCH, at) for at in kept if base <= at < base + 6))
        for suffix in (".index", ".timeindex"):
            file.with_suffix(suffix).unlink()
    return [placed(BATCH, at) for at in (*kept, 18)]


KEPT = [[0, 2, 4, 6, 8, 10, 12, 14, 16], [2, 8, 14], [0, 4, 6, 10, 12], [4, 16], [2, 12], []]


@pytest.mark.parametrize("kept", KEPT)
def test_compaction_gaps_below_the_recovery_point_are_part_of_the_log(
    logs: Logs, kept: list[int]
) -> None:
    stored = compacted(logs, kept)

    log, behind = logs.recover(recovery_point=18)

    assert behind == []
    assert (content(log), log.log_end_offset) == (stored, 20)


@pytest.mark.parametrize("lost", ["epochs", "snapshot", "nothing"])
def test_compaction_gaps_are_part_of_the_log_whatever_caused_the_recovery(
    logs: Logs, lost: str
) -> None:
    stored = compacted(logs, [2, 8, 10])

    log, behind = logs.recover(
        recovery_point=20,
        epochs=[] if lost == "epochs" else [(0, 0)],
        snapshot=b"" if lost == "snapshot" else logs.unopened().producer_snapshot()[1],
        snapshot_offset=0 if lost == "snapshot" else 20,
    )

    assert behind == []
    assert (content(log), log.log_end_offset) == (stored, 20)
    # Without the file, an epoch begins with the first batch of it that is left.
    assert log.epoch_entries == [(0, 2 if lost == "epochs" else 0)]


def test_a_clean_start_rebuilds_the_index_of_a_compacted_segment(logs: Logs) -> None:
    stored = compacted(logs, [2, 8, 10])

    log = logs.attach(20)

    assert content(log) == stored
    assert log.find_timestamp(NOW_MS) == (2, NOW_MS)


@pytest.mark.parametrize("recovery_point", [0, 3, 5])
def test_a_gap_that_reaches_past_the_recovery_point_ends_the_log(
    logs: Logs, recovery_point: int
) -> None:
    compacted(logs, [0, 6, 8, 10])

    log, behind = logs.recover(recovery_point=recovery_point)

    assert (log.log_end_offset, behind) == (2, [6, 12, 18])


def test_damage_below_the_recovery_point_is_not_taken_for_a_compaction_gap(
    logs: Logs,
) -> None:
    stored = compacted(logs, [0, 6, 8, 10])
    file = logs.folder() / f"{0:020}.log"
    file.write_bytes(file.read_bytes() + b"\xff" * 30)

    log, behind = logs.recover(recovery_point=18)

    assert (log.log_end_offset, behind) == (20, [])
    assert log.damaged_ranges == [(2, 6)]
    assert log.read(6, 1) == stored[1]


def test_an_empty_active_segment_after_a_gap_continues_at_the_recovery_point(logs: Logs) -> None:
    compacted(logs, [0, 6, 12])
    last_file(logs).write_bytes(b"")

    log, behind = logs.recover(recovery_point=18)

    assert (log.log_end_offset, behind) == (18, [])
    assert appended(log, BATCH) == 18
