"""A follower's copy: what it takes, shows and deletes, and where it parts from its leader's log."""

from collections.abc import Callable
from functools import partial

import pytest

from broker._native.log import truncation
from broker._native.log.partition_log import PartitionLog
from broker.model.log_results import LogState
from tests.support.native_log import appended, batches, placed, records
from tests.support.native_replicas import BATCH, Replicas, fill

# ---- a follower's copy --------------------------------------------------------------------------


def test_a_copy_has_the_bytes_of_the_leader(make_replicas: Callable[..., Replicas]) -> None:
    replicas = make_replicas(2, segment_bytes_max=4 * len(BATCH))
    for each in range(30):
        appended(replicas.leader, records(1 + each % 3, timestamp=1_000 + each))
    replicas.replicate()
    replicas.copy(2)  # the high watermark

    log = replicas.log(2)
    assert (log.log_end_offset, log.high_watermark) == (replicas.leader.log_end_offset,) * 2
    assert everything(log) == everything(replicas.leader)
    assert log.segment_count > 3


def everything(log: PartitionLog) -> bytes:
    """Return all visible batches."""
    found = b""
    offset = log.log_start_offset
    while offset < log.high_watermark:
        part = batches(log.read(offset, 1 << 20))
        found += b"".join(part)
        offset = int.from_bytes(part[-1][:8]) + int.from_bytes(part[-1][23:27]) + 1
    return found


def test_a_followers_high_watermark_is_the_leaders_as_far_as_its_disk_has_it(
    replicas: Replicas,
) -> None:
    log = replicas.log(2)
    data = b"".join(placed(BATCH, each, 1) for each in range(3))
    log.copy(data, high_watermark=2)
    replicas.all[2].logs.turn.end()
    log.copy(b"", high_watermark=2)
    assert log.high_watermark == 0  # written, not synced
    replicas.settle(2)
    assert log.high_watermark == 2
    log.copy(b"", high_watermark=9)
    assert log.high_watermark == 3
    log.copy(b"", high_watermark=1)
    assert log.high_watermark == 3
    assert len(batches(log.read(0, 1 << 20))) == 3


def test_a_follower_forgets_what_an_earlier_leader_has_told(replicas: Replicas) -> None:
    log = replicas.log(2)
    log.copy(placed(BATCH, 0, 1), high_watermark=5, log_start=4)
    replicas.settle(2)
    assert log.high_watermark == 1

    # An unclean election: the new leader has less than the one before had acknowledged.
    log.follow(2)
    data = b"".join(placed(BATCH, each, 2) for each in range(1, 6))
    log.copy(data, high_watermark=1)
    replicas.settle(2)

    assert log.high_watermark == 1
    log.copy(b"", high_watermark=6)
    assert (log.high_watermark, log.log_start_offset) == (6, 1)


def test_a_follower_reports_only_what_is_synced(replicas: Replicas) -> None:
    log = replicas.log(2)
    log.copy(placed(BATCH, 0, 1), high_watermark=1)
    assert (log.log_end_offset, log.kept_offset) == (1, 0)
    replicas.settle(2)
    assert log.kept_offset == 1


def test_a_rest_of_a_batch_is_ignored(replicas: Replicas) -> None:
    one, two = placed(BATCH, 0, 1), placed(BATCH, 1, 1)
    log = replicas.log(2)
    for size in range(len(two)):
        assert log.copy(one + two[:size] if size == 0 else two[:size], high_watermark=0) is (
            LogState.OK
        )
    assert log.log_end_offset == 1


@pytest.mark.parametrize("place", [11, 16, 17, 30, 60, len(BATCH) - 1])
def test_a_damaged_batch_is_refused_and_those_before_it_are_kept(
    replicas: Replicas, place: int
) -> None:
    data = bytearray(placed(BATCH, 0, 1) + placed(BATCH, 1, 1))
    data[len(BATCH) + place] ^= 0x40 if place != 11 else 0x80
    log = replicas.log(2)
    expected = LogState.OK if place == 11 else LogState.CORRUPT  # 11: too long to be whole
    assert log.copy(bytes(data), high_watermark=0) is expected
    assert log.log_end_offset == 1


def test_a_batch_below_the_end_is_refused(replicas: Replicas) -> None:
    log = replicas.log(2)
    data = placed(BATCH, 0, 1)
    assert log.copy(data, high_watermark=0) is LogState.OK
    assert log.copy(data, high_watermark=0) is LogState.GAP
    assert log.log_end_offset == 1


def test_offsets_that_the_leaders_compaction_removed_may_be_missing(replicas: Replicas) -> None:
    log = replicas.log(2)
    data = placed(BATCH, 3, 1) + placed(BATCH, 9, 1)
    assert log.copy(data, high_watermark=10) is LogState.OK
    replicas.settle(2)
    assert (log.log_end_offset, log.high_watermark) == (10, 10)
    assert log.read(0, 1 << 20) == data


@pytest.mark.parametrize(
    ("high_watermark", "state"),
    [(0, LogState.GAP), (2, LogState.GAP), (3, LogState.OK), (9, LogState.OK)],
)
def test_offsets_are_missing_only_below_the_leaders_high_watermark(
    replicas: Replicas, high_watermark: int, state: LogState
) -> None:
    log = replicas.log(2)
    assert log.copy(placed(BATCH, 0, 1), high_watermark=1) is LogState.OK
    assert log.copy(placed(BATCH, 3, 1), high_watermark=high_watermark) is state
    assert log.log_end_offset == (4 if state is LogState.OK else 1)


def test_offsets_may_be_missing_beyond_what_one_segment_can_index(replicas: Replicas) -> None:
    log = replicas.log(2)
    far = 1 << 33
    data = placed(BATCH, 0, 1) + placed(BATCH, far, 1)
    assert log.copy(data, high_watermark=far + 1) is LogState.OK
    replicas.settle(2)
    assert log.read(1, 1 << 20) == placed(BATCH, far, 1)


def test_batches_of_another_epoch_than_the_leaders_are_refused(replicas: Replicas) -> None:
    log = replicas.log(2)
    assert log.copy(placed(BATCH, 0, 2), high_watermark=0) is LogState.CORRUPT
    assert log.copy(placed(BATCH, 0, 1), high_watermark=0, leader_epoch=2) is LogState.NOT_LED
    assert replicas.leader.copy(placed(BATCH, 0, 1), high_watermark=0) is LogState.NOT_LED


def test_epochs_are_those_of_the_batches(replicas: Replicas) -> None:
    log = replicas.log(2)
    log.follow(7)
    data = placed(BATCH, 0, 1) + placed(BATCH, 1, 1) + placed(BATCH, 2, 4) + placed(BATCH, 3, 7)
    assert log.copy(data, high_watermark=0) is LogState.OK
    assert log.epoch_entries == [(1, 0), (4, 2), (7, 3)]
    assert log.copy(placed(BATCH, 4, 4), high_watermark=0) is LogState.CORRUPT


def test_a_followers_log_start_is_the_leaders_within_its_high_watermark(
    replicas: Replicas,
) -> None:
    log = replicas.log(2)
    data = b"".join(placed(BATCH, each, 1) for each in range(4))
    log.copy(data, high_watermark=2, log_start=3)
    replicas.settle(2)
    log.copy(b"", high_watermark=2, log_start=3)
    assert log.log_start_offset == 2
    log.copy(b"", high_watermark=4, log_start=3)
    assert log.log_start_offset == 3


def test_a_follower_deletes_what_becomes_visible_after_it_was_told_of_the_deletion(
    replicas: Replicas,
) -> None:
    log = replicas.log(2)
    data = b"".join(placed(BATCH, each, 1) for each in range(4))
    log.copy(data, high_watermark=4, log_start=3)
    assert log.log_start_offset == 0
    replicas.settle(2)
    assert log.high_watermark == 4
    assert log.log_start_offset == 3


# ---- waiting for the log starts of followers ----------------------------------------------------


def _note(called: list[tuple[int, bool]], offset: int, good: bool) -> None:
    called.append((offset, good))


def waiting(replicas: Replicas, *offsets: int) -> list[tuple[int, bool]]:
    """Wait for log starts; return the list that receives what has been called back."""
    called: list[tuple[int, bool]] = []
    for offset in offsets:
        replicas.leader.when_start_copied(offset, partial(_note, called, offset))
    return called


def test_a_deletion_waits_for_the_log_starts_of_all_replicas_in_sync(replicas: Replicas) -> None:
    fill(replicas, 4)
    replicas.replicate()
    replicas.leader.move_log_start(3)

    called = waiting(replicas, 0, 2, 3)

    assert called == [(0, True)]
    replicas.leader.report(2, 4, log_start=3)
    replicas.leader.report(3, 4, log_start=1)
    assert called == [(0, True)]
    replicas.leader.report(3, 4, log_start=2)
    replicas.leader.report(3, 4, log_start=3)
    assert called == [(0, True), (2, True), (3, True)]


def test_a_deletion_does_not_wait_for_a_replica_that_leaves_the_isr(replicas: Replicas) -> None:
    fill(replicas, 2)
    replicas.replicate()
    replicas.leader.move_log_start(1)
    replicas.leader.report(2, 2, log_start=1)
    called = waiting(replicas, 1)

    replicas.leader.set_isr([1, 2], 2)

    assert called == [(1, True)]


def test_a_deletion_waits_for_a_replica_whose_log_start_is_not_known(replicas: Replicas) -> None:
    assert waiting(replicas, 0) == []


def test_a_deletion_of_an_only_replica_waits_for_nobody(
    make_replicas: Callable[..., Replicas],
) -> None:
    assert waiting(make_replicas(1), 0) == [(0, True)]


def test_a_deletion_ends_when_the_other_replicas_are_removed(replicas: Replicas) -> None:
    called = waiting(replicas, 0)
    replicas.leader.lead(1, 1, [1], [1])
    assert called == [(0, True)]


def test_a_deletion_ends_when_another_broker_leads(replicas: Replicas) -> None:
    called = waiting(replicas, 0)
    leader = replicas.leader
    leader.follow(2)
    assert called == [(0, False)]
    leader.when_start_copied(0, lambda good: called.append((1, good)))
    assert called[1:] == [(1, False)]


def test_a_copy_begins_with_the_whole_batch_that_the_leaders_log_starts_in(
    replicas: Replicas,
) -> None:
    leader = replicas.leader
    for _ in range(3):
        appended(leader, records(4))
    replicas.replicate(2)
    leader.set_isr([1, 2], 2)
    leader.move_log_start(6)

    assert leader.report(3, 3) is LogState.OUT_OF_RANGE
    assert leader.report(3, 4) is LogState.OK
    data = leader.read_for_replica(4, 1)
    assert data == placed(records(4), 4, 1)
    assert leader.read_for_replica(6, 1) == data
    with pytest.raises(IndexError):
        leader.read_for_replica(3, 1)


def test_a_follower_knows_the_producers_and_transactions_of_its_batches(
    replicas: Replicas,
) -> None:
    leader = replicas.leader
    leader.admit_transaction(5, 0)
    options = {"producer_id": 5, "producer_epoch": 0}
    appended(leader, records(base_sequence=0, is_transactional=True, **options))
    replicas.replicate()
    replicas.copy(2)
    log = replicas.log(2)
    assert log.open_transactions == {5: 0}
    assert log.last_stable_offset == 0
    assert log.active_producers[0][:3] == leader.active_producers[0][:3]


def test_what_is_above_the_high_watermark_is_not_compacted_or_deleted(
    make_replicas: Callable[..., Replicas],
) -> None:
    replicas = make_replicas(2, segment_bytes_max=len(BATCH))
    fill(replicas, 4)
    replicas.all[1].logs.settle(replicas.leader)
    replicas.leader.report(2, 1)

    assert replicas.leader.can_replace([0])
    assert not replicas.leader.can_replace([1])
    assert not replicas.leader.can_replace([2])
    with pytest.raises(IndexError):
        replicas.leader.move_log_start(2)


def test_an_idle_replica_holds_no_descriptor(replicas: Replicas) -> None:
    fill(replicas, 3)
    replicas.replicate()
    for each in replicas.all.values():
        files = each.logs.turn.files
        for _ in range(3):
            files.begin_tick()
        files.close_idle(60_000_000)
        assert files.count == 0
    replicas.copy(2)  # the high watermark moves without an open file
    assert replicas.log(2).high_watermark == 3
    assert replicas.all[2].logs.turn.files.count == 0


# ---- where logs part ----------------------------------------------------------------------------


def test_a_copy_diverges_where_its_last_epoch_ended_earlier_at_the_leader(
    replicas: Replicas,
) -> None:
    leader = replicas.leader
    fill(replicas, 3)
    replicas.replicate()
    replicas.elect(2)
    fill(replicas, 2)
    leader = replicas.leader
    assert leader.epoch_entries == [(1, 0), (2, 3)]
    # (last epoch, end) of a copy -> what it has in common with the leader
    assert leader.divergence(1, 3, 0) is None
    assert leader.divergence(1, 4, 0) == (1, 3)
    assert leader.divergence(2, 5, 0) is None
    assert leader.divergence(2, 6, 0) == (2, 5)
    assert leader.divergence(-1, 9, 0) is None


def with_a_replica_out_of_sync(replicas: Replicas) -> PartitionLog:
    """Return the leader's log, offsets 0 to 2 in epoch 1, 3 and 4 in epoch 2; 1 is out of sync."""
    fill(replicas, 3)
    replicas.replicate()
    replicas.elect(2)
    fill(replicas, 2)
    replicas.replicate()
    replicas.leader.set_isr([2, 3], 2)
    return replicas.leader


def test_a_copy_whose_last_epoch_is_deleted_at_the_leader_begins_anew(replicas: Replicas) -> None:
    leader = with_a_replica_out_of_sync(replicas)
    leader.move_log_start(4)
    assert leader.epoch_entries == [(2, 4)]

    # Its record 3 may be of epoch 1, and nobody else's.
    assert leader.must_begin_anew(1, 1, 4, 0)
    assert leader.divergence(1, 4, 0) is None
    for last_epoch, offset, log_start in ((1, 4, 4), (2, 4, 0), (2, 5, 0), (-1, 4, 0)):
        assert not leader.must_begin_anew(1, last_epoch, offset, log_start)
    assert not leader.must_begin_anew(3, 1, 4, 0)  # a member of the ISR


def test_a_leader_whose_log_start_was_set_back_does_not_let_copies_begin_anew(
    replicas: Replicas,
) -> None:
    leader = with_a_replica_out_of_sync(replicas)
    leader.move_log_start(1)
    truncation.set_epochs(leader, [(2, 3)])  # the log start was 3 before the crash

    assert not leader.must_begin_anew(1, 1, 1, 0)
    assert leader.divergence(1, 3, 0) is None
    assert leader.divergence(1, 4, 0) == (1, 3)
