"""The state of idempotent producers in a partition (KIP-98), through the log's append."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.producer_state import producers_total, set_producers_max
from broker.model import limits
from broker.model.log_results import AppendResult, AppendStatus
from tests.oracles.producer_oracle import Producers
from tests.support.native_log import NOW_MS, Logs, placed, records

DUPLICATE = AppendStatus.DUPLICATE
OUT_OF_ORDER = AppendStatus.SEQUENCE_OUT_OF_ORDER
FENCED = AppendStatus.SEQUENCE_FENCED
FULL = AppendStatus.SEQUENCE_FULL
NOT_LED = AppendStatus.LOG_NOT_LED
OPEN_TRANSACTION = AppendStatus.TRANSACTION_OPEN
PRODUCER = 4711
LAST_SEQUENCE = 2**31 - 1
HEAD_SIZE = 2 + 4 + 4  # of a snapshot: version, CRC, count
ENTRY_SIZE = 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8
DAY_MS = 24 * 3600 * 1000
COMMIT = CommitThread(1)  # for logs that never sync


@pytest.fixture
def log(logs: Logs) -> PartitionLog:
    """One log."""
    return logs.create()


@pytest.fixture
def left() -> int:
    """Return how many producers have logs of other tests that are still referenced somewhere."""
    gc.collect()
    return producers_total()


@pytest.fixture
def bound(left: int) -> Iterator[int]:
    """Limit all logs of a test together to 60 producers."""
    set_producers_max(left + 60)
    yield 60
    set_producers_max(limits.PRODUCER_IDS_MAX)


def batch(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = PRODUCER) -> bytes:
    """Return a producer's batch of `count` records."""
    return records(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def accept(log: PartitionLog, *sequences: int) -> None:
    """Append batches of one record, which must be accepted."""
    for sequence in sequences:
        assert log.append(batch(sequence))[0] == 0


# ---- the rules -------------------------------------------------------------------------------


def test_a_producers_first_batch_may_have_any_sequence(log: PartitionLog) -> None:
    assert log.append(batch(17))[:2] == (0, 0)


def test_a_batch_with_the_next_sequence_is_appended(log: PartitionLog) -> None:
    log.append(batch(0, 3))

    assert log.append(batch(3, 2))[:2] == (0, 3)
    assert log.append(batch(5))[:2] == (0, 5)


@pytest.mark.parametrize("age", range(5))
def test_each_of_the_last_five_batches_is_recognized_as_a_duplicate(
    log: PartitionLog, age: int
) -> None:
    accept(log, *range(7))

    assert log.append(batch(6 - age)) == AppendResult(DUPLICATE, 6 - age, 7 - age)
    assert log.log_end_offset == 7


def test_the_sixth_oldest_batch_is_out_of_order(log: PartitionLog) -> None:
    accept(log, *range(7))

    assert log.append(batch(1))[:2] == (OUT_OF_ORDER, -1)


def test_a_batch_that_overlaps_an_older_one_is_not_a_duplicate(log: PartitionLog) -> None:
    log.append(batch(0, 3))

    assert log.append(batch(0, 2))[:2] == (OUT_OF_ORDER, -1)
    assert log.append(batch(0, 4))[:2] == (OUT_OF_ORDER, -1)
    assert log.append(batch(1, 2))[:2] == (OUT_OF_ORDER, -1)


def test_a_gap_is_out_of_order(log: PartitionLog) -> None:
    accept(log, 0)

    assert log.append(batch(2))[:2] == (OUT_OF_ORDER, -1)
    assert log.log_end_offset == 1


def test_an_older_epoch_is_fenced(log: PartitionLog) -> None:
    log.append(batch(0, epoch=3))

    assert log.append(batch(1, epoch=2))[:2] == (FENCED, -1)


def test_a_newer_epoch_starts_at_sequence_0(log: PartitionLog) -> None:
    accept(log, 0, 1)

    assert log.append(batch(2, epoch=1))[:2] == (OUT_OF_ORDER, -1)
    assert log.append(batch(0, epoch=1))[:2] == (0, 2)
    assert log.append(batch(1, epoch=1))[:2] == (0, 3)


def test_batches_of_the_previous_epoch_are_not_duplicates(log: PartitionLog) -> None:
    accept(log, 0, 1, 2)
    log.append(batch(0, epoch=1))

    assert log.append(batch(1, epoch=1))[:2] == (0, 4)


def test_sequence_0_follows_the_last_sequence(log: PartitionLog) -> None:
    accept(log, LAST_SEQUENCE)

    assert log.append(batch(0))[:2] == (0, 1)


def test_a_batch_may_wrap_around_the_last_sequence(log: PartitionLog) -> None:
    log.append(batch(LAST_SEQUENCE - 1, 4))

    assert log.append(batch(LAST_SEQUENCE - 1, 4)) == AppendResult(DUPLICATE, 0, 4)
    assert log.append(batch(2))[:2] == (0, 4)


def test_producers_do_not_affect_each_other(log: PartitionLog) -> None:
    accept(log, 0)

    assert log.append(batch(0, producer=1))[:2] == (0, 1)
    assert log.append(batch(7, producer=2))[:2] == (0, 2)


def test_a_batch_without_a_producer_id_has_no_sequence(log: PartitionLog) -> None:
    assert log.append(records())[:2] == (0, 0)
    assert log.append(records())[:2] == (0, 1)
    assert log.producer_count == 0


# ---- expiry and the limit --------------------------------------------------------------------


def test_an_idle_producer_expires(logs: Logs) -> None:
    log = logs.create()
    accept(log, 5)

    logs.turn.steady_ms = NOW_MS + DAY_MS
    assert log.append(batch(9))[:2] == (OUT_OF_ORDER, -1)
    logs.turn.steady_ms = NOW_MS + DAY_MS + 1
    assert log.append(batch(9))[:2] == (0, 1)
    assert log.append(batch(5))[:2] == (OUT_OF_ORDER, -1)


def test_a_log_keeps_the_most_recently_active_producers(logs: Logs) -> None:
    log = logs.create(producer_ids_max=100)

    statuses = [log.append(batch(0, producer=number))[0] for number in range(1000)]

    assert statuses == [0] * 1000
    assert log.producer_count == 100
    assert {number for number, *_ in log.producer_ends} == set(range(900, 1000))


def test_an_active_producer_is_kept_however_many_others_appear(logs: Logs) -> None:
    log = logs.create(producer_ids_max=10)

    for number in range(200):
        assert log.append(batch(number))[0] == 0
        log.append(batch(0, producer=number))

    assert log.append(batch(199))[::2] == (DUPLICATE, 399)
    assert log.append(batch(201))[0] == OUT_OF_ORDER


def test_the_producer_states_of_all_logs_together_are_limited(
    logs: Logs, left: int, bound: int
) -> None:
    every = [logs.create(partition=partition) for partition in range(5)]

    for number in range(bound * 3):
        assert every[number % 5].append(batch(0, producer=number))[0] == 0

    assert producers_total() == left + bound
    kept = {number for log in every for number, *_ in log.producer_ends}
    newest = range(bound * 2, bound * 3)
    assert set(newest) <= kept <= {*range(newest.start - left, newest.stop)}


def test_an_active_producer_is_kept_however_many_appear_in_other_logs(
    logs: Logs, bound: int
) -> None:
    mine, others = logs.create(), logs.create(partition=1)

    for number in range(bound * 3):
        assert mine.append(batch(number))[0] == 0
        others.append(batch(0, producer=number))

    assert mine.append(batch(bound * 3 + 1))[0] == OUT_OF_ORDER


def test_a_producer_with_an_open_transaction_is_never_evicted(
    logs: Logs, left: int, bound: int
) -> None:
    log, others = logs.create(), logs.create(partition=1)
    log.admit_transaction(PRODUCER, 0)
    transactional = records(
        producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    assert log.append(transactional)[0] == 0

    for number in range(bound * 2):
        assert others.append(batch(0, producer=number))[0] == 0

    assert producers_total() == left + bound
    assert log.append(transactional)[::2] == (DUPLICATE, 1)
    assert log.open_transactions == {PRODUCER: 0}


def test_where_every_producer_has_an_open_transaction_a_new_one_is_refused(logs: Logs) -> None:
    log = logs.create(producer_ids_max=3)
    for number in range(3):
        log.admit_transaction(number, 0)
        first = {"producer_id": number, "producer_epoch": 0, "base_sequence": 0}
        assert log.append(records(is_transactional=True, **first))[0] == 0

    assert log.append(batch(0))[:2] == (FULL, -1)
    assert log.append(batch(1, producer=2))[0] == OPEN_TRANSACTION


def test_a_closed_log_releases_its_producer_states(logs: Logs) -> None:
    gc.collect()  # what other tests left
    before = producers_total()
    log = logs.create()
    for number in range(50):
        log.append(batch(0, producer=number))
    assert producers_total() == before + 50

    logs.sync(log)
    del log
    gc.collect()

    assert producers_total() == before


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=200))
@settings(max_examples=100, deadline=None)
def test_producers_are_added_and_evicted_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, heard: list[tuple[int, bool]]
) -> None:
    logs = Logs(tmp_path_factory.mktemp("log"), COMMIT)
    log = logs.create(is_group_commit=False, producer_ids_max=8)
    last: dict[int, int] = {}  # sequence by producer, the most recent one last
    known_end: dict[int, int] = {}

    for number, goes_on in heard:
        known = last.get(number)
        sequence = 0 if known is None else known + goes_on
        found, base_offset, end_offset, _ = log.append(batch(sequence, producer=number))
        if known is not None and not goes_on:
            assert (found, end_offset) == (DUPLICATE, known_end[number])
            continue
        assert found == 0
        last.pop(number, None)
        last[number] = sequence
        known_end[number] = base_offset + 1
        if len(last) > 8:
            del last[next(iter(last))]
        assert {each for each, *_ in log.producer_ends} == last.keys()


# ---- snapshots -------------------------------------------------------------------------------


def reopened(logs: Logs, log: PartitionLog) -> PartitionLog:
    """Return a log of other files with the same producers."""
    end_offset, snapshot = log.producer_snapshot()
    logs.create(partition=1)
    other = logs.attach(0, partition=1, snapshot=snapshot)
    assert end_offset == log.log_end_offset
    return other


def test_a_snapshot_keeps_the_last_batch_of_each_producer(logs: Logs, log: PartitionLog) -> None:
    accept(log, 0, 1, 2)
    log.append(batch(6, 4, producer=1, epoch=2))

    other = reopened(logs, log)

    assert other.producer_count == 2
    assert other.append(batch(2)) == AppendResult(DUPLICATE, 2, 3)
    assert other.append(batch(1))[:2] == (OUT_OF_ORDER, -1)  # its files do not have it
    assert other.append(batch(6, 4, producer=1, epoch=2)) == AppendResult(DUPLICATE, 3, 7)
    assert other.append(batch(10, producer=1, epoch=1))[:2] == (FENCED, -1)
    assert other.append(batch(10, producer=1, epoch=2))[0] == 0


def taken_over(logs: Logs, log: PartitionLog, **settings: Any) -> PartitionLog:
    """Return the log as the next broker opens it."""
    logs.sync(log)
    end_offset, snapshot = log.producer_snapshot()
    return logs.attach(end_offset, snapshot=snapshot, **settings)


def test_a_batch_that_a_snapshot_has_not_kept_is_looked_up_in_the_log(
    logs: Logs, log: PartitionLog
) -> None:
    """A producer repeats up to five batches of which it has had no response."""
    for sequence in (8, 10, 12, 14, 16, 18):
        log.append(batch(sequence, 2))
        log.append(batch(sequence, 2, producer=1))

    other = taken_over(logs, log)

    offsets = {10: 4, 12: 8, 14: 12, 16: 16, 18: 20}
    assert [other.append(batch(each, 2)) for each in offsets] == [
        AppendResult(DUPLICATE, offset, offset + 2) for offset in offsets.values()
    ]
    refused = [batch(17, 2), batch(14, 6), batch(21), batch(8, 2), batch(LAST_SEQUENCE - 1, 2)]
    assert [other.append(each)[0] for each in refused] == [OUT_OF_ORDER] * 5
    accept(other, 20)
    assert other.append(batch(10, 2))[0] == OUT_OF_ORDER
    assert other.append(batch(12, 2))[0] == DUPLICATE


def test_batches_that_a_snapshot_has_not_kept_are_looked_up_beside_later_ones(
    logs: Logs, log: PartitionLog
) -> None:
    accept(log, 0, 1, 2)
    other = taken_over(logs, log)
    accept(other, 3, 4, 5)

    assert [other.append(batch(each))[0] for each in (1, 2, 3, 4, 5)] == [DUPLICATE] * 5
    assert other.append(batch(0))[0] == OUT_OF_ORDER


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_batches_that_a_snapshot_has_not_kept_may_be_in_earlier_segments(
    logs: Logs, count: int
) -> None:
    """`count` batches fit a segment."""
    log = logs.create(segment_bytes_max=count * len(batch(0)), index_interval_bytes=1)
    accept(log, *range(7))

    other = taken_over(logs, log)

    assert log.segment_count == -(-7 // count)
    assert [other.append(batch(each)) for each in range(2, 7)] == [
        AppendResult(DUPLICATE, each, each + 1) for each in range(2, 7)
    ]


def test_a_batch_that_was_never_appended_is_no_duplicate_below_a_snapshots_sequence(
    logs: Logs, log: PartitionLog
) -> None:
    """The first batch of an unknown producer was refused, the second one was not.

    An acknowledgement of the first one would lose it.
    """
    accept(log, 1, 2)
    log.append(batch(LAST_SEQUENCE - 3, 2, producer=1))

    other = taken_over(logs, log)

    assert other.append(batch(0))[0] == OUT_OF_ORDER
    assert other.append(batch(1))[0] == DUPLICATE
    # The sequence begins at 0 again; what is before that has not arrived.
    assert other.append(batch(0, producer=1))[0] == OUT_OF_ORDER
    assert other.append(batch(LAST_SEQUENCE - 1, 2, producer=1))[0] == 0


def test_batches_that_a_snapshot_has_not_kept_are_looked_up_near_its_last_one(logs: Logs) -> None:
    """The time that a search takes is limited, however long the log is."""
    size = limits.PRODUCER_SEARCH_BYTES // 4
    log = logs.create(batch_bytes_max=2 * size)
    accept(log, 0)
    for _ in range(4):
        log.append(records(1, size=size))
    accept(log, 1)
    log.append(records(1, size=size))
    accept(log, 2)

    other = taken_over(logs, log)

    assert other.append(batch(0))[0] == OUT_OF_ORDER
    assert [other.append(batch(each))[0] for each in (1, 2)] == [DUPLICATE] * 2


def test_a_batch_of_a_new_epoch_is_not_taken_for_one_of_the_epoch_of_a_snapshot(
    logs: Logs, log: PartitionLog
) -> None:
    accept(log, 0, 1, 2)
    other = reopened(logs, log)
    other.append(batch(0, epoch=1))
    other.append(batch(1, epoch=1))

    assert other.append(batch(0, epoch=0))[0] == FENCED
    assert other.append(batch(1, epoch=1))[0] == DUPLICATE
    assert other.append(batch(0, 1, epoch=1))[0] == DUPLICATE
    assert other.append(batch(0, 2, epoch=1))[0] == OUT_OF_ORDER


# ---- a new leader ----------------------------------------------------------------------------


def test_a_new_leader_refuses_batches_whose_predecessors_it_has_refused(logs: Logs) -> None:
    """Its producer sends the first ones again, and the others after them."""
    log = logs.create()
    logs.turn.serves_until_ns = 2**62
    log.begin_loading()
    log.end_loading()
    accept(log, 0)

    assert log.append(batch(2))[0] == NOT_LED
    accept(log, 1, 2)
    logs.turn.steady_ms += limits.PRODUCER_REFUSED_SECONDS * 1000
    assert log.append(batch(5))[0] == OUT_OF_ORDER


def test_the_same_holds_after_a_time_in_which_others_could_lead(logs: Logs) -> None:
    log = logs.create()
    accept(log, 0)
    assert log.append(batch(2))[0] == OUT_OF_ORDER

    logs.turn.unfenced_ms = logs.turn.steady_ms

    assert log.append(batch(2))[0] == NOT_LED


def test_a_standalone_broker_refuses_a_gap_as_one_from_the_beginning(logs: Logs) -> None:
    log = logs.create()
    log.begin_loading()
    log.end_loading()
    accept(log, 0)

    assert log.append(batch(2))[0] == OUT_OF_ORDER


def test_a_snapshot_of_a_wrapped_sequence_is_complete(logs: Logs, log: PartitionLog) -> None:
    log.append(batch(LAST_SEQUENCE - 1, 4))

    other = reopened(logs, log)

    assert other.append(batch(LAST_SEQUENCE - 1, 4)) == AppendResult(DUPLICATE, 0, 4)
    assert other.append(batch(2))[0] == 0


def test_a_restart_does_not_extend_the_life_of_a_producer(logs: Logs) -> None:
    log = logs.create()
    log.append(records(producer_id=1, producer_epoch=0, base_sequence=5))
    logs.turn.now_ms = NOW_MS + DAY_MS - 1_000  # the monotonic clock restarts at a start
    other = reopened(logs, log)

    logs.turn.steady_ms = NOW_MS + 1_000
    assert other.append(batch(9, producer=1))[0] == OUT_OF_ORDER
    logs.turn.steady_ms = NOW_MS + 1_001
    assert other.append(batch(9, producer=1))[0] == 0


@pytest.mark.parametrize("off_ms", [-400 * DAY_MS, -DAY_MS - 1, 1, 400 * DAY_MS])
def test_a_producer_whose_batches_have_implausible_timestamps_ages_from_the_load(
    logs: Logs, off_ms: int
) -> None:
    log = logs.create()
    sent = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 5}
    log.append(records(timestamp=NOW_MS + off_ms, **sent))

    other = reopened(logs, log)

    logs.turn.steady_ms = NOW_MS + DAY_MS
    assert other.append(batch(9, producer=1))[0] == OUT_OF_ORDER


def test_restored_producers_are_evicted_in_the_order_of_their_last_batch(logs: Logs) -> None:
    log = logs.create()
    for number, age_ms in enumerate([3, 1, 4, 2]):
        sent = {"producer_id": number, "producer_epoch": 0, "base_sequence": 0}
        log.append(records(timestamp=NOW_MS - age_ms * 1_000, **sent))
    _, snapshot = log.producer_snapshot()
    logs.create(partition=1)
    other = logs.attach(0, partition=1, snapshot=snapshot, producer_ids_max=4)

    other.append(batch(0, producer=10))
    other.append(batch(0, producer=11))

    assert {number for number, *_ in other.producer_ends} == {1, 3, 10, 11}


def entries(snapshot: bytes) -> list[bytes]:
    """Return a snapshot's entries, which are in no order."""
    return sorted(
        snapshot[at : at + ENTRY_SIZE] for at in range(HEAD_SIZE, len(snapshot), ENTRY_SIZE)
    )


def test_a_snapshot_of_a_restored_snapshot_is_the_same(logs: Logs, log: PartitionLog) -> None:
    for number in range(20):
        log.append(batch(number, producer=number))
    _, snapshot = log.producer_snapshot()

    _, again = reopened(logs, log).producer_snapshot()

    assert entries(again) == entries(snapshot)


@pytest.mark.parametrize("damage", ["shorter", "longer", "version", "bit"])
def test_a_damaged_snapshot_is_refused(logs: Logs, log: PartitionLog, damage: str) -> None:
    accept(log, 0)
    _, snapshot = log.producer_snapshot()
    damaged = bytearray(snapshot)
    if damage == "bit":
        damaged[-3] ^= 1
    elif damage == "version":
        damaged[1] = 2
    damaged = damaged[:-1] if damage == "shorter" else damaged + b"\0" * (damage == "longer")

    with pytest.raises(AssertionError):  # attach refuses it, and recovery reads the log
        logs.attach(0, snapshot=bytes(damaged))


# ---- against the oracle ------------------------------------------------------------------------

steps = st.tuples(
    st.integers(0, 2),  # producer
    st.integers(0, 2),  # epoch
    st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, LAST_SEQUENCE - 1, LAST_SEQUENCE]),
    st.integers(1, 3),  # records
)


@given(st.lists(steps, max_size=40))
@settings(max_examples=150, deadline=None)
def test_any_order_of_batches_is_judged_as_by_the_oracle(
    tmp_path_factory: pytest.TempPathFactory, taken: list[tuple[int, int, int, int]]
) -> None:
    logs = Logs(tmp_path_factory.mktemp("log"), COMMIT)
    log = logs.create(is_group_commit=False)
    oracle = Producers()

    for producer, epoch, sequence, count in taken:
        found = log.append(batch(sequence, count, epoch=epoch, producer=producer))
        assert found == oracle.append(producer, epoch, sequence, count)


def emptied(batch: bytes) -> bytes:
    """A batch of which compaction has left only the header."""
    covered = batch[21:57] + bytes(4)
    return batch[:8] + (49).to_bytes(4) + batch[12:17] + crc32c(covered).to_bytes(4) + covered


@pytest.mark.parametrize(("sequence", "status"), [(7, 0), (6, OUT_OF_ORDER), (8, OUT_OF_ORDER)])
def test_recovery_counts_the_sequences_of_records_removed_by_compaction(
    logs: Logs, sequence: int, status: object
) -> None:
    log = logs.create()
    batch = records(3, producer_id=PRODUCER, producer_epoch=0, base_sequence=4)
    log.append(batch)
    logs.sync(log)
    log.roll()
    log.append(records())
    logs.sync(log)
    (logs.folder() / f"{0:020}.log").write_bytes(emptied(placed(batch, 0)))

    log, _ = logs.recover(recovery_point=4)

    sent = records(producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence)
    assert log.append(sent)[0] == status
