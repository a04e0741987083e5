"""The transaction coordinator over its log and the logs of clients: the order of events.

Every log is in memory; appended batches are durable at once, or when a test syncs them.
"""

import asyncio
from collections.abc import Callable

import pytest

from broker.codec.control_records import Marker
from broker.core.groups.commands.offsets import CommitRequest, FetchOffsetsRequest, OffsetToCommit
from broker.core.transactions.commands import (
    AddRequest,
    EndRequest,
    InitRequest,
    Producer,
)
from broker.core.transactions.markers import Markers
from broker.core.transactions.records import (
    TopicPartition,
    TransactionState,
)
from broker.core.transactions.transaction import Transaction
from broker.model import limits
from broker.model.errors import ErrorCode, StorageError
from tests.support.memory_log import ClientLog
from tests.unit.core.transactions.broker import FIRST, NONE, OFFSETS, SECOND, Broker

# ---- ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("é" * (limits.TRANSACTIONAL_ID_BYTES_MAX // 2), NONE),
        ("é" * (limits.TRANSACTIONAL_ID_BYTES_MAX // 2) + "e", ErrorCode.INVALID_REQUEST),
        ("e" * 20_000, ErrorCode.INVALID_REQUEST),
    ],
)
def test_the_length_of_a_transactional_id_is_limited(
    broker: Broker, name: str, expected: ErrorCode
) -> None:
    assert broker.transactions.init(InitRequest(name, 60_000, 1)).result().error is expected


# ---- partitions ----------------------------------------------------------------------------------


def test_a_log_accepts_transactional_batches_once_the_added_partition_is_durable(
    broker: Broker,
) -> None:
    producer = broker.init()
    broker.state.syncs = False

    added = broker.add(producer, FIRST)

    assert not broker.logs[FIRST].send(*producer[1:])
    broker.state.sync()
    assert added.result() is NONE
    assert broker.logs[FIRST].send(*producer[1:])


def test_a_partition_whose_transaction_ends_before_it_is_added_is_not_admitted(
    broker: Broker,
) -> None:
    producer = broker.begin(FIRST)
    broker.state.syncs = False
    added = broker.add(producer, SECOND)
    broker.end(producer, is_commit=False)

    broker.state.sync()

    assert added.result() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert not broker.logs[SECOND].send(*producer[1:])


@pytest.mark.parametrize(
    ("place", "expected"), [(FIRST, NONE), (SECOND, ErrorCode.INVALID_TXN_STATE)]
)
def test_an_old_producer_writes_only_to_partitions_it_has_added(
    broker: Broker, place: TopicPartition, expected: ErrorCode
) -> None:
    producer = broker.begin(FIRST)
    broker.logs[FIRST].admitted.clear()

    admission = broker.transactions.admit(*producer, [place], adds_implicitly=False)
    codes = broker.loop.run_until_complete(admission)

    assert codes == {place: expected}
    assert broker.logs[place].admits_transaction(*producer[1:]) is (expected is NONE)


def test_a_new_producer_adds_partitions_by_writing_to_them(broker: Broker) -> None:
    producer = broker.init()

    admission = broker.transactions.admit(*producer, [FIRST, SECOND], adds_implicitly=True)

    assert broker.loop.run_until_complete(admission) == {FIRST: NONE, SECOND: NONE}
    assert broker.transactions.describe("x").result().partitions == {FIRST, SECOND}
    assert broker.logs[SECOND].send(*producer[1:])


def admission_behind_an_end(broker: Broker) -> "asyncio.Task[dict[TopicPartition, ErrorCode]]":
    """A producer's next write, while a marker of its last transaction is not on the disk."""
    producer = broker.init()
    added = broker.transactions.add(AddRequest(producer, (FIRST,), 2))
    assert added.result() is NONE
    broker.logs[FIRST].syncs = False
    ended = broker.transactions.end(EndRequest(producer, is_commit=True, bumps_epoch=True))
    admission = broker.transactions.admit("x", *ended.result()[1:], [SECOND], adds_implicitly=True)
    task = broker.loop.create_task(admission)
    broker.loop.run_until_complete(asyncio.sleep(0))
    assert not task.done()
    return task


def test_a_write_after_an_end_waits_for_its_markers(broker: Broker) -> None:
    task = admission_behind_an_end(broker)

    broker.logs[FIRST].sync()

    assert broker.loop.run_until_complete(task) == {SECOND: NONE}


def test_a_write_after_an_end_waits_only_for_a_limited_time(broker: Broker) -> None:
    task = admission_behind_an_end(broker)

    broker.tick(limits.CONCURRENT_TRANSACTION_WAIT_MS)

    codes = broker.loop.run_until_complete(task)
    assert codes == {SECOND: ErrorCode.CONCURRENT_TRANSACTIONS}


def test_a_write_after_an_end_that_is_already_complete_does_not_wait(broker: Broker) -> None:
    producer = broker.init()
    assert broker.transactions.add(AddRequest(producer, (FIRST,), 2)).result() is NONE
    broker.logs[FIRST].syncs = False
    ended = broker.transactions.end(EndRequest(producer, is_commit=True, bumps_epoch=True))
    broker.state.syncs = False
    broker.transactions.init(InitRequest("y", 60_000, next(broker.ids)))  # Responses wait for it.
    admission = broker.transactions.admit("x", *ended.result()[1:], [SECOND], adds_implicitly=True)
    task = broker.loop.create_task(admission)
    broker.loop.run_until_complete(asyncio.sleep(0))

    broker.state.syncs = True
    broker.state.sync()
    broker.logs[FIRST].sync()

    async def soon() -> dict[TopicPartition, ErrorCode]:
        return await asyncio.wait_for(task, 60)

    assert broker.loop.run_until_complete(soon()) == {SECOND: NONE}


def test_a_fenced_producer_is_refused_with_invalid_producer_epoch(broker: Broker) -> None:
    producer = broker.init()
    broker.init()

    admission = broker.transactions.admit(*producer, [FIRST], adds_implicitly=True)

    assert broker.loop.run_until_complete(admission) == {FIRST: ErrorCode.INVALID_PRODUCER_EPOCH}


# ---- the order of an end -------------------------------------------------------------------------


def test_no_batch_is_accepted_after_an_end_has_begun(broker: Broker) -> None:
    producer = broker.begin(FIRST)
    broker.state.syncs = False

    broker.end(producer)

    assert not broker.logs[FIRST].send(*producer[1:])


def test_the_decision_waits_until_the_data_is_durable(broker: Broker) -> None:
    producer = broker.begin(FIRST, SECOND)
    broker.logs[SECOND].syncs = False
    broker.logs[SECOND].admit_transaction(*producer[1:])
    broker.logs[SECOND].send(*producer[1:])

    answer = broker.end(producer)

    assert not answer.done()
    assert broker.state_of() is TransactionState.ONGOING
    broker.logs[SECOND].sync()
    assert answer.result().error is NONE


def test_the_response_and_the_markers_wait_until_the_decision_is_durable(broker: Broker) -> None:
    producer = broker.begin(FIRST)
    broker.state.syncs = False

    answer = broker.end(producer)

    assert not answer.done()
    assert broker.logs[FIRST].markers == []
    broker.state.sync()
    assert answer.result().error is NONE
    assert broker.logs[FIRST].markers == [Marker(*producer[1:], True, 0)]


def test_the_completion_is_recorded_when_every_marker_is_durable(broker: Broker) -> None:
    producer = broker.begin(FIRST, SECOND)
    broker.state.syncs = False
    broker.end(producer)
    broker.logs[SECOND].syncs = False
    broker.state.syncs = True

    broker.state.sync()

    assert broker.state_of() is TransactionState.PREPARE_COMMIT
    broker.logs[SECOND].sync()
    assert broker.state_of() is TransactionState.COMPLETE_COMMIT


def test_markers_are_valid_for_one_epoch_only(broker: Broker) -> None:
    producer = broker.begin(FIRST)
    broker.logs[FIRST].syncs = False
    broker.logs[FIRST].sync()
    broker.end(producer)

    assert broker.state_of() is TransactionState.PREPARE_COMMIT
    assert broker.transactions.decided_in(producer) is broker.transactions.load_of("x")
    assert broker.transactions.decided_in(producer._replace(producer_epoch=1)) is None


def test_a_transaction_with_lost_data_is_not_committed(broker: Broker) -> None:
    producer = broker.begin(FIRST, SECOND)
    broker.logs[SECOND].fail()

    answer = broker.end(producer)

    assert answer.result().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.state_of() is TransactionState.ONGOING
    assert broker.logs[FIRST].markers == []


def test_a_marker_that_cannot_be_written_is_retried(broker: Broker) -> None:
    producer = broker.begin(FIRST, SECOND)
    broker.logs[SECOND].is_loading = True

    assert broker.end(producer, is_commit=False).result().error is NONE
    assert broker.state_of() is TransactionState.PREPARE_ABORT
    broker.tick()
    broker.logs[SECOND].is_loading = False
    broker.tick(limits.TRANSACTION_RETRY_MS)

    assert [each.is_committed for each in broker.logs[SECOND].markers] == [False]
    assert len(broker.logs[FIRST].markers) == 1
    assert broker.state_of() is TransactionState.COMPLETE_ABORT


def test_a_deleted_topic_needs_no_marker(broker: Broker) -> None:
    producer = broker.begin(FIRST, SECOND)
    del broker.logs[SECOND]

    assert broker.end(producer).result().error is NONE
    assert broker.state_of() is TransactionState.COMPLETE_COMMIT


def test_many_markers_are_written_over_several_turns(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [("t", number) for number in range(5)]
    broker.logs |= {place: ClientLog() for place in places}
    producer = broker.begin(*places)
    broker.state.syncs = False
    broker.end(producer)
    monkeypatch.setattr(limits, "MARKERS_PER_TURN", 2)
    broker.tick()

    broker.state.sync()

    assert sum(len(broker.logs[place].markers) for place in places) == 2
    broker.transactions.tick()
    assert sum(len(broker.logs[place].markers) for place in places) == 4
    broker.state.syncs = True
    broker.tick()
    assert broker.state_of() is TransactionState.COMPLETE_COMMIT


def test_a_transaction_of_many_partitions_is_admitted_and_synced_over_several_turns(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MARKERS_PER_TURN", 2)
    broker.tick()
    places = [("t", number) for number in range(5)]
    broker.logs |= {place: ClientLog() for place in places}
    producer = broker.init()

    def admitted() -> int:
        logs = [broker.logs[place] for place in places]
        return sum(each.admits_transaction(*producer[1:]) for each in logs)

    added = broker.add(producer, *places)
    assert (admitted(), added.done()) == (2, False)
    broker.tick()
    assert (admitted(), added.result()) == (5, NONE)
    broker.tick()

    ended = broker.end(producer)
    assert (admitted(), ended.done()) == (3, False)
    broker.tick()
    assert (admitted(), ended.result().error) == (0, NONE)


def test_a_transaction_that_ends_while_its_partitions_are_admitted_is_admitted_no_further(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = broker.begin(FIRST)
    monkeypatch.setattr(limits, "MARKERS_PER_TURN", 2)
    broker.tick()
    places = [("t", number) for number in range(5)]
    broker.logs |= {place: ClientLog() for place in places if place not in broker.logs}
    added = broker.add(producer, *places)

    broker.end(producer, is_commit=False)
    broker.tick()

    assert added.result() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert not any(broker.logs[place].admitted for place in places)


def test_many_small_transactions_share_a_turns_budget(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MARKERS_PER_TURN", 5)
    producers = [broker.init(name) for name in "abcde"]
    broker.tick()
    broker.state.syncs = False
    added = [broker.add(producer, FIRST, SECOND) for producer in producers]

    broker.state.sync()

    assert sum(each.done() for each in added) == 2
    broker.tick()
    assert all(each.done() for each in added)


def test_a_producer_continues_where_its_end_was_lost_before_it_was_dismissed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator's log was full for a moment, and its state was loaded again."""
    producer = broker.begin(FIRST, SECOND)
    monkeypatch.setattr(limits, "MARKERS_PER_TURN", 1)
    broker.tick()
    broker.end(producer)

    def full(_batch: bytes) -> int:
        raise StorageError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(broker.state, "append_internal", full)
        broker.transactions.init(InitRequest("y", 60_000, next(broker.ids)))
    broker.tick(limits.LOAD_RETRY_MS)

    assert broker.state_of() is TransactionState.ONGOING
    assert sum(log.admits_transaction(*producer[1:]) for log in broker.logs.values()) == 1


def test_a_transaction_that_exceeds_its_timeout_is_aborted(broker: Broker) -> None:
    producer = broker.begin(FIRST)

    broker.tick(59_999)
    assert broker.state_of() is TransactionState.ONGOING
    broker.tick(1)

    assert broker.state_of() is TransactionState.COMPLETE_ABORT
    assert broker.logs[FIRST].markers == [Marker(producer.producer_id, 1, False, 0)]
    assert broker.end(producer).result().error is ErrorCode.PRODUCER_FENCED


# ---- offsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_commit", "expected"), [(True, 5), (False, None)])
def test_a_transaction_decides_the_pending_offsets_of_a_group(
    broker: Broker, is_commit: bool, expected: int | None
) -> None:
    producer = broker.begin(OFFSETS)
    request = CommitRequest("g", "", None, -1, (OffsetToCommit("t", 0, 5),), producer[1:])
    assert broker.groups.commit_offsets(request).result().errors == (NONE,)

    broker.end(producer, is_commit=is_commit)

    found = broker.groups.fetch_offsets(FetchOffsetsRequest("g", {"t": (0,)})).result()
    offset = found.topics["t"][0]
    assert (None if offset is None else offset.offset) == expected


def committing_offsets(broker: Broker, name: str = "x") -> Producer:
    """Run a transaction with offsets of a group, whose commit waits for a disk."""
    producer = broker.begin(OFFSETS, name=name)
    broker.state.syncs = False
    broker.end(producer)
    return producer


def come(broker: Broker) -> "asyncio.Task[bool]":
    """Somebody waits for the commits in a partition, and has had a turn."""
    waiting = broker.loop.create_task(broker.transactions.wait_for_commits(OFFSETS, 3_000))
    broker.loop.run_until_complete(asyncio.sleep(0))
    return waiting


def test_an_offset_fetch_waits_for_commits_in_progress(broker: Broker) -> None:
    committing_offsets(broker)

    waiting = come(broker)
    assert not waiting.done()
    broker.state.syncs = True
    broker.state.sync()

    assert broker.loop.run_until_complete(waiting)


def test_an_offset_fetch_does_not_wait_for_other_groups_aborts_or_open_transactions(
    broker: Broker,
) -> None:
    broker.begin(OFFSETS, name="open")
    elsewhere, aborted = broker.begin(FIRST, name="x"), broker.begin(OFFSETS, name="y")
    broker.state.syncs = False
    broker.end(elsewhere)
    broker.end(aborted, is_commit=False)

    assert come(broker).result()


def test_an_offset_fetch_does_not_wait_for_a_commit_that_begins_later(broker: Broker) -> None:
    for place in (FIRST, SECOND):
        broker.logs[place].syncs = False
    first = broker.begin(OFFSETS, FIRST, name="first")
    later = broker.begin(OFFSETS, SECOND, name="later")
    broker.end(first)
    waiting = come(broker)

    broker.end(later)
    broker.logs[FIRST].syncs = True
    broker.logs[FIRST].sync()

    assert broker.loop.run_until_complete(waiting)
    again = come(broker)
    assert not again.done()
    again.cancel()
    broker.loop.run_until_complete(asyncio.wait([again]))


def test_an_offset_fetch_waits_for_a_commit_only_for_a_limited_time(broker: Broker) -> None:
    committing_offsets(broker)
    waiting = come(broker)

    broker.tick(3_000)

    assert not broker.loop.run_until_complete(waiting)


# ---- a restart -----------------------------------------------------------------------------------


def test_committed_offsets_are_unknown_until_all_partitions_are_loaded(
    broker: Broker,
) -> None:
    producer = broker.begin(OFFSETS)
    broker.end(producer)
    broker.restart()
    assert not come(broker).result()

    broker.recover()

    assert come(broker).result()


def test_an_offset_fetch_waits_for_a_commit_decided_before_a_crash(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(
        _: Markers,
        _place: TopicPartition,
        _marker: Marker,
        _batch: bytes,
        answer: Callable[[ErrorCode], None],
    ) -> None:
        answer(ErrorCode.KAFKA_STORAGE_ERROR)

    with monkeypatch.context() as broken:
        broken.setattr(Markers, "write_here", fail)
        broker.end(broker.begin(OFFSETS))
        broker.restart()
        broker.recover()
        waiting = come(broker)
        assert not waiting.done()

    broker.tick(limits.TRANSACTION_RETRY_MS)  # Their coordinator begins to load.
    broker.groups.tick()
    broker.tick(limits.TRANSACTION_RETRY_MS)

    assert broker.loop.run_until_complete(waiting)


def test_a_coordinator_that_is_loading_returns_coordinator_load_in_progress(broker: Broker) -> None:
    producer = broker.begin(FIRST)

    broker.restart()

    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.end(producer).result().error is loading
    assert broker.add(producer, FIRST).result() is loading
    assert not broker.transactions.is_complete


def test_a_transaction_decided_before_a_crash_is_completed_after_it(broker: Broker) -> None:
    producer = broker.begin(FIRST)
    broker.state.syncs = False
    broker.end(producer)
    broker.logs[FIRST].syncs = False
    broker.state.sync()  # The decision is on the disk, the marker is not.
    broker.state.syncs = broker.logs[FIRST].syncs = True
    broker.logs[FIRST].crash()
    broker.logs[FIRST].markers.clear()
    broker.state.crash()

    broker.restart()
    broker.recover()

    assert broker.logs[FIRST].markers == [Marker(*producer[1:], True, 0)]
    assert broker.state_of() is TransactionState.COMPLETE_COMMIT


def test_an_undecided_end_is_not_completed_after_a_crash(broker: Broker) -> None:
    producer = broker.begin(FIRST)
    broker.state.syncs = False
    answer = broker.end(producer)
    broker.state.crash()
    broker.state.syncs = True

    broker.restart()
    broker.recover()

    assert not answer.done()
    assert broker.state_of() is TransactionState.ONGOING
    assert broker.logs[FIRST].markers == []


def test_an_open_transaction_continues_after_a_restart(broker: Broker) -> None:
    producer = broker.begin(FIRST)

    broker.restart()
    broker.recover()
    admission = broker.transactions.admit(*producer, [FIRST], adds_implicitly=False)

    assert broker.loop.run_until_complete(admission) == {FIRST: NONE}
    assert broker.logs[FIRST].send(*producer[1:])
    assert broker.end(producer).result().error is NONE


# ---- failures of its own log ---------------------------------------------------------------------


def test_a_coordinator_with_a_failed_log_is_not_available(broker: Broker) -> None:
    producer = broker.begin(FIRST)
    broker.state.syncs = False
    waiting = broker.end(producer)

    broker.state.fail()

    gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting.result().error is gone
    assert broker.end(producer).result().error is gone
    assert broker.logs[FIRST].markers == []


def test_after_a_failed_append_the_coordinator_recovers_by_itself(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = broker.begin(FIRST)

    def full(_batch: bytes) -> int:
        raise StorageError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(broker.state, "append_internal", full)
        assert broker.end(producer).result().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.tick(60_000)  # No request arrives, and the transaction exceeds its timeout.

    assert broker.logs[FIRST].open_transactions == {}
    assert broker.state_of() is TransactionState.COMPLETE_ABORT


def test_a_partition_that_could_not_resume_its_ends_is_loaded_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = broker.begin(FIRST)
    broker.logs[FIRST].is_loading = True
    broker.end(producer, is_commit=False)
    broker.logs[FIRST].is_loading = False
    broker.restart()

    def failing(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    with monkeypatch.context() as broken:
        broken.setattr(Transaction, "resume", failing)
        with pytest.raises(RuntimeError):
            broker.recover()
    broker.tick(limits.LOAD_RETRY_MS)

    assert broker.state_of() is TransactionState.COMPLETE_ABORT


def test_an_offline_state_log_is_omitted_from_lists_and_its_transactions_are_not_orphans(
    broker: Broker,
) -> None:
    broker.begin(FIRST)
    broker.restart()
    broker.state.is_offline = True

    broker.recover()

    assert broker.transactions.is_ready
    assert not broker.transactions.is_complete
    assert broker.logs[FIRST].markers == []


def test_after_close_producers_are_sent_to_another_coordinator(broker: Broker) -> None:
    producer = broker.begin(FIRST)

    broker.transactions.close()

    assert broker.end(producer).result().error is ErrorCode.NOT_COORDINATOR


# ---- administration ------------------------------------------------------------------------------


def test_every_transactional_id_is_listed(broker: Broker) -> None:
    broker.begin(FIRST)
    broker.init("y")

    [listing] = broker.transactions.listing()

    states = {each.transactional_id: each.state for each in listing}
    assert states == {"x": TransactionState.ONGOING, "y": TransactionState.EMPTY}


@pytest.mark.parametrize(
    ("epoch", "place", "expected"),
    [
        (4, FIRST, NONE),
        (3, FIRST, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, ("u", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_hanging_transaction_is_aborted_by_its_marker(
    broker: Broker, epoch: int, place: TopicPartition, expected: ErrorCode
) -> None:
    log = broker.logs[FIRST]
    log.admit_transaction(99, 4)
    log.send(99, 4)

    written = broker.transactions.write_marker(place, Marker(99, epoch, False, 0))

    assert written.result() is expected
    assert bool(log.open_transactions) is (expected is not NONE)
