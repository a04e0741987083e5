"""The native part of a cut: where it is, and the state of the log in memory afterwards."""

from pathlib import Path
from typing import Any

import pytest

from broker._native.log import truncation
from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker.model.log_results import LogState
from tests.support.cut_log import PRODUCER_EPOCH, marker
from tests.support.native_log import Logs, appended, bases_of, batches, placed, records

COMMIT = CommitThread(1)  # one for all tests: they wait for what they make durable
BATCH = records(2)
PER_SEGMENT = 3
SETTINGS: dict[str, Any] = {
    "segment_bytes_max": PER_SEGMENT * len(BATCH),
    "index_interval_bytes": 100,
}


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """One data directory."""
    return Logs(tmp_path, COMMIT)


def written(logs: Logs, count: int = 8) -> PartitionLog:
    """Return a log of batches of two records, three to a segment, all durable."""
    log = logs.create(**SETTINGS)
    for _ in range(count):
        appended(log, BATCH)
    logs.settle(log)
    return log


def cut(
    logs: Logs, log: PartitionLog, offset: int, snapshot: bytes = b"", snapshot_offset: int = 0
) -> truncation.Cut | None:
    """Cut a log; the files beside the segments stay."""
    log.begin_loading()
    assert log.hold()
    found = truncation.plan(log, offset)
    if found is not None:
        for base in found.removed:
            (logs.folder() / f"{base:020d}.log").unlink()
        truncation.cut(log, found.base_offset, found.size)
        truncation.rebuild(
            log,
            found.base_offset,
            found.end_offset,
            epochs=[(0, 0)],
            snapshot=snapshot,
            snapshot_offset=snapshot_offset,
        )
    log.end_hold()
    log.end_loading()
    return found


def content(log: PartitionLog) -> list[bytes]:
    found: list[bytes] = []
    while data := log.read(2 * len(found), 1 << 20):
        found += batches(data)
    return found


@pytest.mark.parametrize("offset", [0, 2, 5, 6, 8, 12, 15])
def test_batches_before_the_offset_stay(logs: Logs, offset: int) -> None:
    log = written(logs)

    cut(logs, log, offset)

    count = offset // 2
    assert content(log) == [placed(BATCH, 2 * number) for number in range(count)]
    assert log.high_watermark == log.durable_end == log.log_end_offset == 2 * count
    assert bases_of(log) == [0, 6, 12][: offset // 6 + 1]


@pytest.mark.parametrize("offset", [2, 8, 14])
@pytest.mark.parametrize("recovery_point", [0, 6, 12, 16])
def test_the_file_ends_at_the_cut_whichever_segments_wait_for_a_sync(
    logs: Logs, recovery_point: int, offset: int
) -> None:
    written(logs)
    again = Logs(logs.folder().parent, COMMIT)
    log, _ = again.recover(recovery_point=recovery_point, is_group_commit=False, **SETTINGS)

    found = cut(again, log, offset)

    assert found is not None
    file = again.folder() / f"{found.base_offset:020d}.log"
    assert file.stat().st_size == found.size == offset % 6 // 2 * len(BATCH)


def test_a_cut_at_the_end_is_none(logs: Logs) -> None:
    assert cut(logs, written(logs), 16) is None


def test_a_cut_log_goes_on_where_it_ends(logs: Logs) -> None:
    log = written(logs)
    cut(logs, log, 8)

    for _ in range(4):
        appended(log, BATCH)
    logs.settle(log)

    assert content(log) == [placed(BATCH, 2 * number) for number in range(8)]
    assert bases_of(log) == [0, 6, 12]


def test_staged_batches_are_cut(logs: Logs) -> None:
    log = written(logs, 2)
    log.follow(1)
    log.lead(2, 1, [1], [1])
    appended(log, BATCH)
    appended(log, BATCH)
    logs.turn.end()
    logs.sync(log)

    cut(logs, log, 6)

    assert log.log_end_offset == 6


def test_a_log_that_is_written_to_cannot_be_held(logs: Logs) -> None:
    log = written(logs, 2)
    appended(log, BATCH)

    assert not log.hold()
    logs.sync(log)
    assert log.hold()


def test_a_high_watermark_below_the_cut_stays(logs: Logs) -> None:
    log = written(logs)
    log.follow(1)
    log.begin_loading()
    log.restore_watermark(4)
    log.end_loading()

    cut(logs, log, 10)

    assert (log.high_watermark, log.log_end_offset) == (4, 10)
    assert content(log) == [placed(BATCH, 0), placed(BATCH, 2)]
    log.lead(2, 1, [1], [1])
    assert log.high_watermark == 10
    assert len(content(log)) == 5


def with_transaction(logs: Logs) -> PartitionLog:
    """Return a copy of a transaction at 0, with its marker at 3 above the high watermark at 2."""
    fields = {"producer_id": 5, "producer_epoch": PRODUCER_EPOCH, "base_sequence": 0}
    stored = [records() for _ in range(10)]
    stored[0] = records(is_transactional=True, **fields)
    stored[3] = marker(5, 1)
    log = logs.create()
    log.follow(1)
    data = b"".join(placed(batch, offset, 1) for offset, batch in enumerate(stored))
    assert log.copy(data, high_watermark=2) is LogState.OK
    logs.settle(log)
    assert (log.high_watermark, log.last_stable_offset) == (2, 0)
    return log


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_a_transaction_that_ended_above_the_high_watermark_stays_undecided(
    logs: Logs, *, has_snapshot: bool
) -> None:
    log = with_transaction(logs)
    _, snapshot = log.producer_snapshot()  # it was the same at 6

    cut(logs, log, 8, *((snapshot, 6) if has_snapshot else ()))

    assert (log.high_watermark, log.last_stable_offset) == (2, 0)
    assert log.copy(b"", high_watermark=3) is LogState.OK
    assert (log.high_watermark, log.last_stable_offset) == (3, 0)
    assert log.copy(b"", high_watermark=8) is LogState.OK
    assert (log.high_watermark, log.last_stable_offset) == (8, 8)


def test_a_transaction_whose_marker_is_cut_is_open(logs: Logs) -> None:
    log = with_transaction(logs)

    cut(logs, log, 3)

    assert log.copy(b"", high_watermark=9) is LogState.OK
    assert (log.high_watermark, log.last_stable_offset) == (3, 0)
    assert log.open_transactions == {5: 0}


def test_where_compaction_has_left_a_gap_the_log_ends_in_it(logs: Logs) -> None:
    written(logs)
    for base, offsets in ((0, (0, 4)), (6, (10,)), (12, (12, 14))):
        stored = b"".join(placed(BATCH, offset) for offset in offsets)
        (logs.folder() / f"{base:020d}.log").write_bytes(stored)
        for suffix in ("index", "timeindex"):
            (logs.folder() / f"{base:020d}.{suffix}").unlink(missing_ok=True)
    log = logs.attach(16)

    cut(logs, log, 9)

    assert (bases_of(log), log.log_end_offset) == ([0, 6], 9)
    assert log.read(0, 1 << 20) == placed(BATCH, 0) + placed(BATCH, 4)
    assert log.read(6, 1 << 20) == b""


def test_everything_from_a_broken_batch_on_is_removed(logs: Logs) -> None:
    log = written(logs)
    file = logs.folder() / f"{6:020d}.log"
    data = bytearray(file.read_bytes())
    data[len(BATCH) + 8 : len(BATCH) + 12] = b"\xff\xff\xff\xff"
    file.write_bytes(data)

    cut(logs, log, 11)

    assert log.log_end_offset in {8, 10}
    appended(log, BATCH)
    logs.settle(log)
    assert log.log_end_offset in {10, 12}


def test_who_waits_for_a_sync_of_what_is_cut_is_told(logs: Logs) -> None:
    log = written(logs)
    told: list[bool] = []
    log.begin_loading()
    assert log.hold()
    log.when_synced(17, told.append)
    found = truncation.plan(log, 8)
    assert found is not None
    (logs.folder() / f"{12:020d}.log").unlink()
    truncation.cut(log, found.base_offset, found.size)
    truncation.rebuild(log, 6, 8, epochs=[(0, 0)], snapshot=b"", snapshot_offset=0)

    log.end_hold()

    assert told == [False]


def test_a_log_begun_anew_uses_a_new_file(logs: Logs) -> None:
    log = written(logs)
    log.begin_loading()
    assert log.hold()
    found = truncation.plan(log, 0)
    assert found is not None
    for base in found.removed:
        (logs.folder() / f"{base:020d}.log").unlink()
    truncation.cut(log, 0, 0)
    truncation.rebuild(log, 0, 0, epochs=[(0, 0)], snapshot=b"", snapshot_offset=0)

    assert truncation.recreate(log, 50) == 0

    log.end_hold()
    log.end_loading()
    assert bases_of(log) == [50]
    assert appended(log, BATCH) == 50


def test_a_log_begun_anew_says_of_earlier_epochs_that_they_end_where_it_begins(logs: Logs) -> None:
    log = written(logs)
    log.begin_loading()
    assert log.hold()
    found = truncation.plan(log, 0)
    assert found is not None
    for base in found.removed:
        (logs.folder() / f"{base:020d}.log").unlink()
    truncation.cut(log, 0, 0)
    truncation.rebuild(log, 0, 0, epochs=[(0, 0)], snapshot=b"", snapshot_offset=0)
    truncation.recreate(log, 50)
    log.end_hold()
    log.end_loading()

    log.lead(5, 1, [1, 2], [1])
    appended(log, BATCH)

    assert log.epoch_entries == [(5, 50)]
    assert log.divergence(3, 70, 0) == (3, 50)  # not up to the end of the follower's epoch 0
