"""Open transactions unknown to every coordinator, and records that cannot be decoded."""

import pytest

from broker.codec.control_records import Marker
from broker.core.transactions.records import (
    TransactionRecord,
    encode,
)
from broker.model import limits
from broker.model.errors import ErrorCode, StorageError
from tests.support.batches import batch_of
from tests.unit.core.transactions.broker import FIRST, NONE, SECOND, Broker


def test_an_orphaned_transaction_is_aborted(broker: Broker) -> None:
    known = broker.begin(FIRST)
    log = broker.logs[FIRST]
    log.admit_transaction(99, 4)
    log.send(99, 4)

    broker.restart()
    broker.recover()

    assert log.markers == [Marker(99, 4, False, 0)]
    assert log.open_transactions == {known.producer_id: 0}


def test_an_orphans_abort_that_cannot_be_written_is_retried(broker: Broker) -> None:
    log = broker.logs[FIRST]
    log.admit_transaction(99, 4)
    log.send(99, 4)
    broker.restart()
    log.is_offline = True
    broker.recover()
    assert log.markers == []

    log.is_offline = False
    broker.tick(limits.TRANSACTION_RETRY_MS)

    assert log.markers == [Marker(99, 4, False, 0)]


def test_each_failing_abort_is_tried_once_per_turn(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.logs[FIRST]
    for producer_id in (98, 99):
        log.admit_transaction(producer_id, 4)
        log.send(producer_id, 4)
    tried: list[bytes] = []

    def fail(batch: bytes) -> int:
        tried.append(batch)
        raise StorageError("no room")

    monkeypatch.setattr(log, "append_internal", fail)
    broker.restart()
    broker.recover()
    for retry in range(1, 4):
        assert len(tried) == 2 * retry
        broker.tick(limits.TRANSACTION_RETRY_MS)


def test_many_orphans_of_one_log_are_aborted_over_several_turns(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.logs[FIRST]
    for producer_id in range(95, 100):
        log.admit_transaction(producer_id, 4)
        log.send(producer_id, 4)
    broker.restart()
    broker.recover_logs()
    monkeypatch.setattr(limits, "MARKERS_PER_TURN", 2)

    written = []
    for _ in range(3):
        broker.transactions.tick()
        written.append(len(log.markers))

    assert written == [2, 4, 5]


def test_log_lines_for_orphans_are_limited_per_second(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    log = broker.logs[FIRST]
    for producer_id in range(limits.NOTES_PER_SECOND_MAX + 5):
        log.admit_transaction(producer_id, 4)
        log.send(producer_id, 4)

    broker.restart()
    broker.recover()

    lines = [each for each in caplog.messages if "no coordinator knows of it" in each]
    assert len(lines) == limits.NOTES_PER_SECOND_MAX


def test_an_orphan_of_an_evicted_producer_is_aborted(
    broker: Broker,
) -> None:
    log = broker.logs[FIRST]
    log.admit_transaction(99, 4)
    log.send(99, 4)
    log.epochs.clear()

    broker.restart()
    broker.recover()

    assert log.markers == [Marker(99, 0, False, 0)]


def test_undecided_transactions_are_collected_per_producer(
    broker: Broker,
) -> None:
    """They are collected in each turn that looks for orphans."""
    producer = broker.begin(FIRST, SECOND)

    [shard] = broker.transactions.shards()

    assert list(shard.undecided()) == [(producer.producer_id, frozenset((FIRST, SECOND)))]


def test_nothing_is_treated_as_an_orphan_before_all_partitions_are_loaded(broker: Broker) -> None:
    broker.begin(FIRST)
    broker.restart()

    broker.transactions.suspect(FIRST)
    broker.tick()

    assert broker.logs[FIRST].markers == []


# ---- records that cannot be read -----------------------------------------------------------------


def spoilt(name: str) -> bytes:
    """Return a record of an id whose value is of a future version."""
    key, _ = encode(TransactionRecord(name, None))
    return batch_of([(key, b"\0\x63", ())], 0)


UNREADABLE = [
    spoilt("z"),
    batch_of([(b"\0\0\0\x20z", b"", ())], 0),  # the key is truncated
    batch_of([(b"\0", b"", ())], 0),
    batch_of([(None, b"", ())], 0),
]


@pytest.mark.parametrize("record", UNREADABLE)
def test_other_transactional_ids_continue_beside_an_undecodable_record(
    broker: Broker, record: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    producer = broker.begin(FIRST)
    broker.state.append_internal(record)

    broker.restart()
    broker.recover()

    assert broker.end(producer).result().error is NONE
    broker.tick()
    assert broker.logs[FIRST].markers == [Marker(*producer[1:], True, 0)]
    assert "set records aside partition=__transaction_state-0 count=1 offsets=2" in caplog.text


def test_a_transactional_id_with_an_undecodable_last_record_gets_a_new_producer_id(
    broker: Broker,
) -> None:
    before = broker.begin(FIRST)
    broker.state.append_internal(spoilt("x"))

    broker.restart()
    broker.recover()

    assert broker.add(before, FIRST).result() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.init().producer_id != before.producer_id


@pytest.mark.parametrize("record", UNREADABLE)
def test_a_transaction_possibly_decided_by_an_undecodable_record_is_not_aborted(
    broker: Broker, record: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It may have been committed, and acknowledged to its producer."""
    log = broker.logs[FIRST]
    log.admit_transaction(99, 4)
    log.send(99, 4)
    broker.state.append_internal(record)

    broker.restart()
    broker.recover()
    broker.tick(limits.TRANSACTION_RETRY_MS)

    assert log.markers == []
    [line] = [each for each in caplog.messages if "transaction left open" in each]
    assert "topic=t partition=0 producer_id=99 first_offset=0" in line
    assert "kafka-transactions.sh abort --topic t --partition 0 --start-offset 0" in line


def test_a_record_of_an_unknown_kind_does_not_protect_orphans(broker: Broker) -> None:
    log = broker.logs[FIRST]
    log.admit_transaction(99, 4)
    log.send(99, 4)
    broker.state.append_internal(batch_of([(b"\0\x63", b"", ())], 0))

    broker.restart()
    broker.recover()

    assert log.markers == [Marker(99, 4, False, 0)]
