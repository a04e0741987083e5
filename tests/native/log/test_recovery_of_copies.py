"""Recovery of a copied log: what its leader's compaction has removed is missing in it anywhere."""

from pathlib import Path

import pytest

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker.model.log_results import LogState
from tests.support.native_log import Logs, bases_of, batches, placed, records

COMMIT = CommitThread(1)  # one for all tests: they wait for what they make durable
BATCH = records()
GAPS = [3, 4, 9, 20, 21, 40]  # the offsets that are left; three batches to a segment
FAR = 1 << 33


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """One data directory."""
    return Logs(tmp_path, COMMIT)


def copied(logs: Logs, offsets: list[int]) -> list[bytes]:
    """Leave a copy of these batches as a kill does; return them."""
    log = logs.create(segment_bytes_max=3 * len(BATCH))
    log.follow(1)
    stored = [placed(BATCH, offset, 1) for offset in offsets]
    for batch in stored:
        assert log.copy(batch, high_watermark=offsets[-1]) is LogState.OK
    logs.settle(log)
    return stored


def content(log: PartitionLog) -> list[bytes]:
    """Return all batches."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while data := log.read(offset, 1 << 20):
        found += batches(data)
        offset = int.from_bytes(found[-1][:8]) + 1
    return found


@pytest.mark.parametrize("recovery_point", [0, 5, 21])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_offsets_may_be_missing_after_the_recovery_point(
    logs: Logs, recovery_point: int, *, is_sealed: bool
) -> None:
    stored = copied(logs, GAPS)

    log, behind = logs.recover(
        recovery_point=recovery_point, synced_end=10 if is_sealed else 0, is_copy=True
    )

    assert (bases_of(log), behind) == ([0, 10], [])
    assert (content(log), log.log_end_offset) == (stored, 41)
    assert not log.damaged_ranges


def test_a_log_that_is_no_copy_ends_at_the_first_gap(logs: Logs) -> None:
    stored = copied(logs, [0, 1, 5, 6])

    log, _ = logs.recover()

    assert (content(log), log.log_end_offset) == (stored[:2], 2)


def test_a_gap_larger_than_a_segment_can_name_is_part_of_the_log(logs: Logs) -> None:
    stored = copied(logs, [0, FAR, FAR + 1])
    sealed = logs.sealed_offset()
    assert sealed == FAR

    for synced_end in (0, sealed):
        log, behind = logs.recover(synced_end=synced_end, is_copy=True)
        assert (bases_of(log), behind) == ([0, FAR], [])
        assert (content(log), log.log_end_offset) == (stored, FAR + 2)
        assert not log.damaged_ranges


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_segment_that_has_lost_its_end_is_no_gap(logs: Logs, left: int) -> None:
    stored = copied(logs, GAPS)
    first = min(logs.folder().glob("*.log"))
    first.write_bytes(b"".join(stored[:left]))

    log, behind = logs.recover(is_copy=True)

    assert (content(log), behind) == (stored[:left], [10])
    assert log.log_end_offset == [0, 4, 5][left]


@pytest.mark.parametrize("offset", [2, 700, FAR])
@pytest.mark.parametrize("place", [0, 1, 3, 4])
def test_a_damaged_base_offset_is_no_gap(logs: Logs, place: int, offset: int) -> None:
    stored = copied(logs, list(range(6)))
    file = logs.folder() / f"{0 if place < 3 else 3:020d}.log"
    data = bytearray(file.read_bytes())
    position = place % 3 * len(BATCH)
    data[position : position + 8] = (place + offset).to_bytes(8)
    file.write_bytes(data)

    log, behind = logs.recover(is_copy=True)

    assert (content(log), log.log_end_offset) == (stored[:place], place)
    assert behind == ([] if place >= 3 else [3])


@pytest.mark.parametrize("offset", [3, 700])
def test_a_gap_ends_before_the_next_segment(logs: Logs, offset: int) -> None:
    stored = copied(logs, list(range(6)))
    file = min(logs.folder().glob("*.log"))
    file.write_bytes(b"".join(stored[:2]) + placed(BATCH, 2 + offset, 1))

    log, _ = logs.recover(is_copy=True)

    assert (content(log), log.log_end_offset) == (stored[:2], 2)
