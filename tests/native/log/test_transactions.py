"""Transactions in a log: open, ended, aborted; across snapshots, restarts and recovery."""

import struct
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.partition_log import PartitionLog
from broker.model.errors import TooManyProducers
from broker.model.log_results import AppendResult, AppendStatus
from tests.support.batches import batch_of
from tests.support.native_log import NOW_MS, Logs, appended, batches, records

ABORT, COMMIT = 0, 1
EPOCH = 3


def send(log: PartitionLog, producer_id: int, sequence: int, count: int = 1) -> int:
    """Append records of a producer's transaction, which the log admits; return the first offset."""
    log.admit_transaction(producer_id, EPOCH)
    return appended(
        log,
        records(
            count,
            producer_id=producer_id,
            producer_epoch=EPOCH,
            base_sequence=sequence,
            is_transactional=True,
        ),
    )


def end(log: PartitionLog, producer_id: int, kind: int, *, epoch: int = EPOCH) -> int:
    """Append a transaction's marker, as the coordinator writes it; return its offset."""
    key = (0).to_bytes(2) + kind.to_bytes(2)
    value = (0).to_bytes(2) + (7).to_bytes(4)
    return log.append_internal(
        batch_of(
            [(key, value, [])],
            NOW_MS,
            producer_id=producer_id,
            producer_epoch=epoch,
            is_transactional=True,
            is_control=True,
        )
    )


def transactional(producer_id: int, sequence: int, *, epoch: int = EPOCH) -> bytes:
    return records(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


@pytest.mark.parametrize("admitted_epoch", [EPOCH - 1, EPOCH + 1, None])
def test_a_transactional_batch_without_admission_is_refused(
    logs: Logs, admitted_epoch: int | None
) -> None:
    log = logs.create()
    if admitted_epoch is not None:
        log.admit_transaction(1, admitted_epoch)

    status, *_ = log.append(transactional(1, 0))

    assert status is AppendStatus.TRANSACTION_NOT_ADMITTED
    assert log.log_end_offset == 0


def test_a_transaction_is_admitted_until_its_marker(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    appended(log, transactional(1, 1))
    end(log, 1, COMMIT)

    status, *_ = log.append(transactional(1, 2))

    assert status is AppendStatus.TRANSACTION_NOT_ADMITTED
    assert not log.admits_transaction(1, EPOCH)


def test_admissions_of_many_producers_are_independent(logs: Logs) -> None:
    log = logs.create()
    for producer_id in range(100):
        log.admit_transaction(producer_id, EPOCH)
    for producer_id in range(0, 100, 3):
        log.dismiss_transaction(producer_id)
    log.admit_transaction(1, EPOCH + 1)

    admitted = [each for each in range(101) if log.admits_transaction(each, EPOCH)]

    assert admitted == [each for each in range(100) if each % 3 and each != 1]
    assert log.admits_transaction(1, EPOCH + 1)


def test_a_plain_producer_writes_while_the_transaction_of_another_is_open(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)

    assert log.append(records(producer_id=2, producer_epoch=0, base_sequence=0))[:2] == (0, 1)
    assert log.append(records(producer_id=2, producer_epoch=0, base_sequence=1))[:2] == (0, 2)
    assert log.append(records())[:2] == (0, 3)


def test_a_late_batch_of_a_decided_transaction_is_refused(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    log.dismiss_transaction(1)

    status, *_ = log.append(transactional(1, 1))

    assert status is AppendStatus.TRANSACTION_NOT_ADMITTED


def test_a_batch_repeated_after_the_decision_gets_its_original_offset(logs: Logs) -> None:
    log = logs.create()
    appended(log, records())
    send(log, 1, 0)
    log.dismiss_transaction(1)

    assert log.append(transactional(1, 0)) == AppendResult(AppendStatus.DUPLICATE, 1, 2)


def test_a_plain_batch_within_a_transaction_is_refused(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    plain = records(producer_id=1, producer_epoch=EPOCH, base_sequence=1)

    assert log.append(plain)[0] is AppendStatus.TRANSACTION_OPEN
    end(log, 1, COMMIT)
    assert log.append(plain)[0] == 0


def test_an_admission_does_not_survive_a_restart(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    logs.sync(log)

    log, _ = logs.recover()

    assert log.append(transactional(1, 1))[0] is AppendStatus.TRANSACTION_NOT_ADMITTED


def test_a_coordinators_batches_open_a_transaction_that_the_snapshot_contains(logs: Logs) -> None:
    log = logs.create()
    offsets = batch_of(
        [(b"key", b"value", [])],
        NOW_MS,
        producer_id=9,
        producer_epoch=EPOCH,
        is_transactional=True,
    )
    log.append_internal(offsets)

    [entry] = log.active_producers

    assert (entry[0], entry[1], entry[5]) == (9, EPOCH, 0)
    assert log.open_transactions == {9: 0}


def coordinators_batch(producer_id: int) -> bytes:
    return batch_of(
        [(b"key", b"value", [])],
        NOW_MS,
        producer_id=producer_id,
        producer_epoch=EPOCH,
        is_transactional=True,
    )


def test_a_log_with_all_its_producers_refuses_a_coordinators_batch_and_is_unchanged(
    logs: Logs,
) -> None:
    log = logs.create(producer_ids_max=1)
    log.append_internal(coordinators_batch(1))

    with pytest.raises(TooManyProducers):
        log.append_internal(coordinators_batch(2))

    assert log.log_end_offset == 1
    assert log.append_internal(coordinators_batch(1)) == 1


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_log_with_all_its_producers_accepts_a_marker_of_a_producer_without_batches(
    logs: Logs, kind: int
) -> None:
    log = logs.create(producer_ids_max=1)
    send(log, 1, 0)

    assert end(log, 2, kind) == 1

    assert [each[0] for each in log.active_producers] == [1]
    assert log.open_transactions == {1: 0}


def test_producer_states_can_be_listed(logs: Logs) -> None:
    log = logs.create()
    appended(log, records(producer_id=4, producer_epoch=1, base_sequence=0))
    send(log, 1, 0, count=3)
    send(log, 2, 0)
    end(log, 2, ABORT)

    assert sorted(log.active_producers) == [
        (1, EPOCH, 2, NOW_MS, -1, 1),
        (2, EPOCH, 0, NOW_MS, 7, -1),
        (4, 1, 0, NOW_MS, -1, -1),
    ]


def test_the_state_of_one_producer_equals_its_listed_state(logs: Logs) -> None:
    log = logs.create(producer_expiration_ms=1_000)
    appended(log, records(producer_id=4, producer_epoch=1, base_sequence=0))
    send(log, 1, 0, count=3)

    assert [log.active_producer(each[0]) for each in log.active_producers] == log.active_producers
    assert log.active_producer(5) is None
    logs.turn.steady_ms += 1_001
    assert log.active_producer(4) is None
    assert log.active_producer(1) is not None  # Its transaction is open.


def test_a_sync_can_be_requested_under_any_durability(logs: Logs) -> None:
    log = logs.create(is_group_commit=False)
    appended(log, records())
    logs.turn.end()
    heard: list[bool] = []

    log.when_synced(1, heard.append)
    assert (heard, log.durable_end) == ([], 0)
    logs.turn.end()
    logs.take_synced()

    assert (heard, log.durable_end) == ([True], 1)
    log.when_synced(1, heard.append)
    assert heard == [True, True]


def test_a_waiter_for_a_sync_is_notified_when_the_log_goes_offline(logs: Logs) -> None:
    log = logs.create(is_group_commit=False)
    appended(log, records())
    heard: list[bool] = []
    log.when_synced(1, heard.append)

    log.take_offline("a test")

    assert heard == [False]
    log.when_synced(1, heard.append)
    assert heard == [False, False]


def test_a_read_ends_at_the_given_offset(logs: Logs) -> None:
    log = logs.create()
    for _ in range(3):
        appended(log, records(2))
    logs.sync(log)

    assert len(batches(log.read(0, 1 << 20, True, 4))) == 2
    assert log.read(4, 1 << 20, True, 4) == b""
    assert len(batches(log.read(0, 1 << 20))) == 3


def test_a_read_that_ends_early_spans_segments(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=1)
    for _ in range(3):
        appended(log, records(2))
    logs.sync(log)

    ends = {
        end: [len(log.read(offset, 1 << 20, True, end)) > 0 for offset in (0, 2, 4)]
        for end in (0, 2, 4, 6)
    }

    assert ends == {
        0: [False, False, False],
        2: [True, False, False],
        4: [True, True, False],
        6: [True, True, True],
    }


def test_many_aborted_transactions_are_found_by_their_first_offsets(logs: Logs) -> None:
    log = logs.create()
    for sequence in range(150):
        send(log, 1, 2 * sequence)
        send(log, 2, sequence)
        end(log, 2, ABORT)
        send(log, 1, 2 * sequence + 1)
        end(log, 1, ABORT)
    logs.sync(log)
    spans = [
        span for k in range(150) for span in ((1, 5 * k, 5 * k + 4), (2, 5 * k + 1, 5 * k + 2))
    ]

    assert log.aborted_transactions(0, 750) == spans
    for start, stop in ((0, 1), (3, 4), (374, 376), (377, 630), (749, 750)):
        assert log.aborted_transactions(start, stop) == [
            span for span in spans if span[2] >= start and span[1] < stop
        ]


def test_readers_of_committed_records_stop_at_an_open_transaction(logs: Logs) -> None:
    log = logs.create()
    appended(log, records())
    send(log, 1, 0)
    appended(log, records())
    logs.sync(log)

    assert (log.last_stable_offset, log.high_watermark) == (1, 3)


def test_readers_of_committed_records_continue_once_the_marker_is_visible(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    logs.sync(log)
    end(log, 1, COMMIT)

    assert log.last_stable_offset == 0
    logs.sync(log)
    assert log.last_stable_offset == 2


def test_the_oldest_of_several_open_transactions_sets_the_last_stable_offset(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    send(log, 2, 0)
    end(log, 1, COMMIT)
    logs.sync(log)

    assert log.last_stable_offset == 1
    assert log.open_transactions == {2: 1}


def test_a_transaction_begins_with_its_first_batch(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0, count=2)
    send(log, 1, 2)
    logs.sync(log)

    assert log.last_stable_offset == 0


def test_a_transaction_that_is_not_visible_yet_does_not_hide_earlier_records(logs: Logs) -> None:
    log = logs.create()
    appended(log, records())
    logs.sync(log)
    send(log, 1, 0)

    assert log.last_stable_offset == 1


def test_a_marker_without_a_transaction_ends_nothing(logs: Logs) -> None:
    log = logs.create()
    end(log, 1, ABORT)
    logs.sync(log)

    assert log.last_stable_offset == 1
    assert log.aborted_transactions(0, 1) == []


def test_an_aborted_transaction_is_returned_for_every_range_that_overlaps_it(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)  # 0
    send(log, 2, 0)  # 1
    end(log, 1, ABORT)  # 2
    end(log, 2, COMMIT)  # 3
    send(log, 1, 1)  # 4
    end(log, 1, ABORT)  # 5
    logs.sync(log)

    assert log.aborted_transactions(0, 6) == [(1, 0, 2), (1, 4, 5)]
    assert log.aborted_transactions(0, 2) == [(1, 0, 2)]
    assert log.aborted_transactions(3, 6) == [(1, 4, 5)]
    assert log.aborted_transactions(3, 4) == []


def test_a_reader_beyond_the_last_abort_opens_no_index_of_aborted_transactions(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    end(log, 1, ABORT)
    send(log, 1, 1)
    end(log, 1, COMMIT)
    logs.sync(log)

    assert opened_lists(log, 2, 4) == []
    assert opened_lists(log, 1, 4) == [f"{0:020}.txnindex"]


def test_after_a_restart_the_last_abort_is_looked_up_once(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    end(log, 1, ABORT)
    appended(log, records())
    logs.sync(log)
    assert recovery.close(log) == 3
    again = logs.attach(3)

    assert len(opened_lists(again, 2, 3)) == 1
    assert opened_lists(again, 2, 3) == []


def opened_lists(log: PartitionLog, start: int, stop: int) -> list[str]:
    """Return the indexes of aborted transactions that are opened for a range."""
    file_ops.start_recording()
    log.aborted_transactions(start, stop)
    names = [Path(path).name for name, path, *_ in file_ops.recorded() if name == "open"]
    file_ops.stop_recording()
    return [name for name in names if name.endswith(".txnindex")]


def test_the_index_of_aborted_transactions_has_kafkas_format(logs: Logs) -> None:
    log = logs.create()
    send(log, 5, 0)
    send(log, 6, 0)
    end(log, 5, ABORT)

    [file] = logs.folder().glob("*.txnindex")

    assert file.name == f"{0:020}.txnindex"
    assert file.read_bytes() == struct.pack(">hqqqq", 0, 5, 0, 2, 1)


def test_zeros_left_by_a_power_cut_are_not_an_aborted_transaction(logs: Logs) -> None:
    log = logs.create()
    send(log, 0, 0)
    end(log, 0, COMMIT)
    logs.sync(log)
    snapshot_offset, snapshot = log.producer_snapshot()
    (logs.folder() / f"{0:020}.txnindex").write_bytes(bytes(34))

    again, _ = logs.recover(recovery_point=2, snapshot=snapshot, snapshot_offset=snapshot_offset)

    assert again.aborted_transactions(0, 2) == []


def test_a_log_without_aborted_transactions_has_no_index_of_them(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    end(log, 1, COMMIT)
    logs.sync(log)

    assert list(logs.folder().glob("*.txnindex")) == []


def test_aborted_transactions_are_found_across_segments(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=1)
    for round_ in range(3):
        send(log, 1, round_)
        end(log, 1, ABORT)
    logs.sync(log)

    assert log.aborted_transactions(0, 6) == [(1, 0, 1), (1, 2, 3), (1, 4, 5)]
    assert log.aborted_transactions(2, 3) == [(1, 2, 3)]


def test_a_marker_of_a_new_epoch_fences_the_old_one(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    end(log, 1, ABORT, epoch=EPOCH + 1)

    status, *_ = log.append(
        records(producer_id=1, producer_epoch=EPOCH, base_sequence=1, is_transactional=True)
    )

    assert status is AppendStatus.SEQUENCE_FENCED


@pytest.mark.parametrize(("sequence", "is_accepted"), [(0, True), (1, False)])
def test_after_the_marker_of_a_new_epoch_sequences_start_again(
    logs: Logs, sequence: int, is_accepted: bool
) -> None:
    log = logs.create()
    send(log, 1, 0)
    end(log, 1, COMMIT, epoch=EPOCH + 1)

    status, *_ = log.append(
        records(producer_id=1, producer_epoch=EPOCH + 1, base_sequence=sequence)
    )

    assert (status == 0) is is_accepted


def test_a_producer_with_an_open_transaction_does_not_expire(logs: Logs) -> None:
    log = logs.create(producer_expiration_ms=10)
    send(log, 1, 0)
    logs.turn.steady_ms += 1000

    status, *_ = log.append(
        records(producer_id=1, producer_epoch=EPOCH, base_sequence=7, is_transactional=True)
    )

    assert status is AppendStatus.SEQUENCE_OUT_OF_ORDER


def test_an_open_transaction_survives_a_clean_stop(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    send(log, 2, 0)
    end(log, 2, ABORT)
    assert recovery.close(log) == 3
    _, snapshot = log.producer_snapshot()

    log = logs.attach(3, snapshot=snapshot)

    assert log.last_stable_offset == 0
    assert log.open_transactions == {1: 0}
    assert log.aborted_transactions(0, 3) == [(2, 1, 2)]
    end(log, 1, COMMIT)
    logs.sync(log)
    assert log.last_stable_offset == 4


def test_a_producer_known_only_by_a_marker_is_in_the_snapshot(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    end(log, 1, COMMIT, epoch=EPOCH + 1)
    assert recovery.close(log) == 2
    _, snapshot = log.producer_snapshot()

    log = logs.attach(2, snapshot=snapshot)

    status, *_ = log.append(records(producer_id=1, producer_epoch=EPOCH, base_sequence=1))
    assert status is AppendStatus.SEQUENCE_FENCED


def test_recovery_reads_transactions_from_the_log(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    send(log, 2, 0)
    end(log, 2, ABORT)
    logs.sync(log)

    log, _ = logs.recover()

    assert log.last_stable_offset == 0
    assert log.aborted_transactions(0, 3) == [(2, 1, 2)]


def test_recovery_keeps_transactions_aborted_before_its_snapshot(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    end(log, 1, ABORT)
    offset, snapshot = log.producer_snapshot()
    send(log, 1, 1)
    end(log, 1, ABORT)
    logs.sync(log)

    log, _ = logs.recover(recovery_point=offset, snapshot=snapshot, snapshot_offset=offset)

    assert log.aborted_transactions(0, 4) == [(1, 0, 1), (1, 2, 3)]


def test_recovery_from_a_snapshot_of_more_producers_than_allowed_reads_the_log(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    send(log, 2, 0)
    offset, snapshot = log.producer_snapshot()
    logs.sync(log)

    log, _ = logs.recover(
        recovery_point=offset, snapshot=snapshot, snapshot_offset=offset, producer_ids_max=1
    )

    assert log.open_transactions == {1: 0, 2: 1}
    assert log.last_stable_offset == 0


def test_an_abort_missing_from_the_log_is_removed_from_the_index(logs: Logs) -> None:
    log = logs.create()
    send(log, 1, 0)
    logs.sync(log)
    size = log.size
    end(log, 1, ABORT)
    logs.sync(log)
    file = logs.folder() / f"{0:020}.log"
    with file.open("r+b") as opened:
        opened.truncate(size)

    log, _ = logs.recover()

    assert log.open_transactions == {1: 0}
    assert log.aborted_transactions(0, 2) == []


@pytest.mark.parametrize(("key_size", "value_size"), [(0, 6), (3, 6), (4, 0), (4, 5)])
def test_a_control_record_that_is_not_a_marker_is_skipped(
    logs: Logs, key_size: int, value_size: int
) -> None:
    log = logs.create()
    send(log, 1, 0)

    log.append_internal(
        batch_of(
            [(bytes(key_size), bytes(value_size), [])],
            NOW_MS,
            producer_id=1,
            producer_epoch=EPOCH,
            is_transactional=True,
            is_control=True,
        )
    )

    assert log.open_transactions == {1: 0}
