"""Opening a log after a crash: what is damage, and what is the end of the log."""

from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.model.errors import StorageError
from tests.support.native_log import NOW_MS, Logs, appended, bases_of, placed, records

BATCH = records(2)


def written(logs: Logs, count: int) -> PartitionLog:
    """Return a log of batches of two records, three batches to a segment, all durable."""
    log = logs.create(segment_bytes_max=3 * len(BATCH), index_interval_bytes=100)
    for _ in range(count):
        appended(log, BATCH)
    logs.sync(log)
    return log


def crashed(logs: Logs, count: int) -> list[bytes]:
    """Leave a log as a kill does; return its batches."""
    written(logs, count)
    return [placed(BATCH, 2 * number) for number in range(count)]


BATCHES = 12  # three to a segment


def sealed(logs: Logs, count: int = BATCHES) -> list[bytes]:
    """Leave a log as a kill does, with all segments but the last sealed; return its batches."""
    logs.settle(written(logs, count))
    return [placed(BATCH, 2 * number) for number in range(count)]


def change(logs: Logs, base: int, position: int, data: bytes | None = None) -> None:
    """Overwrite a segment's bytes, or flip one bit."""
    file = logs.folder() / f"{base:020}.log"
    content = bytearray(file.read_bytes())
    if data is None:
        content[position] ^= 1
    else:
        content[position : position + len(data)] = data
    file.write_bytes(content)


def readable(log: PartitionLog, end: int) -> list[bytes | None]:
    """Return what a reader gets at each offset; None: an error."""
    found: list[bytes | None] = []
    for offset in range(0, end, 2):
        try:
            found.append(log.read(offset, 1))
        except StorageError:
            found.append(None)
    return found


def without(stored: list[bytes], *lost: int) -> list[bytes | None]:
    return [None if at in lost else batch for at, batch in enumerate(stored)]


@pytest.mark.parametrize("place", [0, 4, 10, 16, 17, 20, 23, 57, 65])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 7, 8])
def test_a_bit_flipped_in_a_sealed_segment_damages_only_its_batch(
    logs: Logs, number: int, place: int
) -> None:
    stored = sealed(logs)
    base, within = number // 3 * 6, number % 3
    change(logs, base, within * len(BATCH) + place)

    recovered = [logs.recover(synced_end=logs.sealed_offset()) for _ in range(2)]

    for log, behind in recovered:
        assert behind == []
        assert log.log_end_offset == 2 * BATCHES
        assert readable(log, 2 * BATCHES) == without(stored, number)
        assert log.damaged_ranges == [(2 * number, 2 * number + 2)]
        assert log.find_timestamp(NOW_MS + 1) is None
    log, _ = logs.recover(synced_end=logs.sealed_offset())
    appended(log, BATCH)
    logs.sync(log)
    assert log.log_end_offset == 2 * BATCHES + 2


@pytest.mark.parametrize("number", [0, 1, 2, 4])
def test_a_leader_epoch_flipped_in_a_sealed_segment_damages_only_its_batch(
    logs: Logs, number: int
) -> None:
    """The flipped epoch is above the following ones: it would end the log at the next batch."""
    stored = sealed(logs)
    change(logs, number // 3 * 6, number % 3 * len(BATCH) + 14, b"\1")

    log, behind = logs.recover(synced_end=logs.sealed_offset())

    assert behind == []
    assert log.log_end_offset == 2 * BATCHES
    found = readable(log, 2 * BATCHES)
    assert [at for at in range(BATCHES) if found[at] != stored[at]] == [number]
    assert (log.epoch_entries, log.leader_epoch) == ([(0, 0)], 0)


@pytest.mark.parametrize("base", [0, 6, 12])
def test_a_truncated_or_empty_sealed_segment_loses_only_the_missing_records(
    logs: Logs, base: int
) -> None:
    stored = sealed(logs)
    file = logs.folder() / f"{base:020}.log"
    whole = file.read_bytes()
    first = base // 2
    for size in (2 * len(BATCH), len(BATCH) + 30, 0):
        file.write_bytes(whole[:size])

        log, behind = logs.recover(synced_end=logs.sealed_offset())

        lost = range(first + size // len(BATCH), first + 3)
        assert (behind, log.log_end_offset) == ([], 2 * BATCHES)
        assert readable(log, 2 * BATCHES) == without(stored, *lost)


def cut_off(logs: Logs, left: int, *, has_index: bool) -> tuple[list[bytes], PartitionLog]:
    """Cut the second segment off below the recovery point; return all batches and the log."""
    log = written(logs, BATCHES)
    logs.settle(log)
    log.sync_indexes()
    end_offset, snapshot = log.producer_snapshot()
    file = logs.folder() / f"{6:020}.log"
    file.write_bytes(file.read_bytes()[:left])
    if not has_index:
        file.with_suffix(".index").unlink()
    found, behind = logs.recover(
        recovery_point=end_offset, snapshot=snapshot, snapshot_offset=end_offset
    )
    assert (behind, found.log_end_offset) == ([], end_offset)
    return [placed(BATCH, 2 * number) for number in range(BATCHES)], found


@pytest.mark.parametrize("left", [0, 40, len(BATCH), 2 * len(BATCH), 3 * len(BATCH) - 1])
def test_what_a_segment_that_is_not_read_has_lost_at_its_end_is_damage(
    logs: Logs, left: int
) -> None:
    stored, log = cut_off(logs, left, has_index=True)

    first = 3 + left // len(BATCH)
    assert log.damaged_ranges == [(2 * first, 12)]
    assert readable(log, 2 * BATCHES) == without(stored, *range(first, 6))


def test_a_segment_without_an_index_that_ends_too_early_counts_as_compacted(logs: Logs) -> None:
    _, log = cut_off(logs, 2 * len(BATCH), has_index=False)

    assert log.damaged_ranges == []
    assert log.read(10, 1) == placed(BATCH, 12)


def test_a_missing_sealed_segment_loses_only_its_own_records(logs: Logs) -> None:
    stored = sealed(logs)
    (logs.folder() / f"{6:020}.log").unlink()

    log, behind = logs.recover(synced_end=logs.sealed_offset())

    assert (behind, log.log_end_offset) == ([], 2 * BATCHES)
    assert readable(log, 2 * BATCHES) == without(stored, 3, 4, 5)


def test_damage_in_the_active_segment_below_the_recovery_point_is_kept_as_damage(
    logs: Logs,
) -> None:
    """That segment is no longer appended to: damage stays in place, appends go to a new one."""
    stored = crashed(logs, 6)
    change(logs, 6, len(BATCH) + 70)

    log, behind = logs.recover(recovery_point=10)

    assert (behind, log.log_end_offset) == ([], 12)
    assert readable(log, 12) == without(stored, 4)
    assert bases_of(log) == [0, 6, 12]
    assert appended(log, BATCH) == 12
    logs.sync(log)
    log, behind = logs.recover(recovery_point=12)
    assert readable(log, 14) == [*without(stored, 4), placed(BATCH, 12)]


@pytest.mark.parametrize("recovery_point", [0, 6, 8])
def test_records_never_known_to_be_synced_end_the_log_where_they_are_torn(
    logs: Logs, recovery_point: int
) -> None:
    """A power cut may leave any part of it, and nothing of it was acknowledged as durable."""
    stored = crashed(logs, BATCHES)
    change(logs, 6, len(BATCH) + 70)

    log, behind = logs.recover(recovery_point=recovery_point)

    assert behind == [12, 18]
    assert readable(log, log.log_end_offset) == stored[:4]


def test_the_sealed_offset_is_stored_only_when_the_segment_is_on_the_disk(
    logs: Logs, recording: None
) -> None:
    log = logs.create(segment_bytes_max=3 * len(BATCH), is_group_commit=False)
    for _ in range(10):
        appended(log, BATCH)
    logs.turn.end()
    assert log.unsealed_count == 3
    assert logs.sealed_offset() == 0

    logs.settle(log)

    assert logs.sealed_offset() == 18
    done = [(op, Path(path).name) for op, path, *_ in file_ops.recorded()]
    for base in (0, 6, 12):
        synced = done.index(("sync_data", f"{base:020}.log"))
        assert ("write", "sealed-offset") not in done[:synced] or base > 0
        assert ("write", "sealed-offset") in done[synced:]


@pytest.mark.parametrize("damage", [None, b"", b"0" * 30, b"99"])
def test_a_lost_or_damaged_sealed_offset_file_counts_as_0(logs: Logs, damage: bytes | None) -> None:
    sealed(logs)
    file = logs.folder() / "sealed-offset"
    assert logs.sealed_offset() == 18
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage + file.read_bytes()[len(damage) :] if damage else b"")

    assert logs.sealed_offset() == 0


def test_a_first_segment_without_any_valid_batch_does_not_stop_the_start(logs: Logs) -> None:
    stored = sealed(logs)
    change(logs, 0, 0, bytes(3 * len(BATCH)))

    log, behind = logs.recover(synced_end=logs.sealed_offset())

    assert (behind, log.log_start_offset) == ([], 0)
    assert readable(log, 2 * BATCHES) == without(stored, 0, 1, 2)
