"""A partition's log: what is found by a timestamp and by a leader epoch."""

import pytest

from tests.oracles.record_batch_oracle import Header, Record
from tests.support.native_log import Logs, batches, placed, records

BATCH = records(1)  # of one record: 76 bytes
BATCH_BASE = 10  # of the statuses of batches in AppendStatus
ROOM_FOR_TWO = 2 * len(BATCH)


# ---- by time (KIP-79, KIP-734) ----------------------------------------------------------------


def test_a_timestamp_finds_the_first_record_at_or_after_it(logs: Logs) -> None:
    log = logs.create()
    for timestamp in (100, 300, 200, 300):
        log.append(records(2, timestamp=timestamp))
    logs.sync(log)

    assert log.find_timestamp(0) == (0, 100)
    assert log.find_timestamp(101) == (2, 300)
    assert log.find_timestamp(300) == (2, 300)
    assert log.find_timestamp(301) is None


def test_a_timestamp_finds_a_record_within_a_batch(logs: Logs) -> None:
    parts = [Record(10 * place, place, None, b"", []) for place in range(5)]
    head = Header(last_offset_delta=4, base_timestamp=100, max_timestamp=140, record_count=5)
    log = logs.create()
    log.append(records(timestamp=50))
    log.append(head.encode(b"".join(part.encode() for part in parts)))
    logs.sync(log)

    assert [log.find_timestamp(time) for time in (50, 51, 100, 101, 131, 140)] == [
        (0, 50),
        (1, 100),
        (1, 100),
        (2, 110),
        (5, 140),
        (5, 140),
    ]


def test_the_maximum_timestamp_finds_the_first_record_that_has_it(logs: Logs) -> None:
    log = logs.create()
    assert log.find_max_timestamp() is None
    for timestamp in (100, 300, 200, 300):
        log.append(records(2, timestamp=timestamp))
    logs.sync(log)

    assert log.find_max_timestamp() == (2, 300)


def test_the_maximum_timestamp_is_that_of_a_visible_record(logs: Logs) -> None:
    log = logs.create()
    log.append(records(timestamp=100))
    logs.sync(log)
    log.append(records(timestamp=200))
    logs.turn.end()

    assert log.find_max_timestamp() == (0, 100)
    assert log.find_timestamp(150) is None
    logs.sync(log)
    assert log.find_max_timestamp() == (1, 200)


def test_a_batch_that_cannot_be_decompressed_is_found_by_its_maximum_timestamp(logs: Logs) -> None:
    log = logs.create()
    log.append(records(2, timestamp=100))
    log.append(records(2, timestamp=200, codec=1))
    logs.sync(log)

    assert log.find_timestamp(150) == (2, 200)


def test_the_time_at_an_offset_is_that_of_its_batch(logs: Logs) -> None:
    log = logs.create(segment_bytes_max=ROOM_FOR_TWO)
    for timestamp in (100, 300, 200):
        log.append(records(timestamp=timestamp))
    logs.sync(log)
    assert log.segment_count > 1

    assert [log.time_at(offset) for offset in range(-1, 4)] == [100, 100, 300, 200, -1]
    log.move_log_start(2)
    assert log.time_at(0) == 200


def test_the_time_at_an_offset_within_a_batch_is_that_of_its_first_record(logs: Logs) -> None:
    parts = [Record(10 * place, place, None, b"", []) for place in range(5)]
    head = Header(last_offset_delta=4, base_timestamp=100, max_timestamp=140, record_count=5)
    log = logs.create()
    log.append(head.encode(b"".join(part.encode() for part in parts)))
    logs.sync(log)

    assert log.time_at(3) == 100


def test_the_time_at_an_offset_of_a_log_with_append_times_is_when_it_was_appended(
    logs: Logs,
) -> None:
    stamped = Header(
        attributes=8, last_offset_delta=0, base_timestamp=100, max_timestamp=140, record_count=1
    )
    log = logs.create()
    log.append(stamped.encode(Record(0, 0, None, b"", []).encode()))
    logs.sync(log)

    assert log.time_at(0) == 140


def test_the_time_of_what_is_not_visible_yet_is_unknown(logs: Logs) -> None:
    log = logs.create()
    log.append(records(timestamp=100))

    assert log.time_at(0) == -1
    log.take_offline("as a test wants")
    assert log.time_at(0) == -1


# ---- by epoch (KIP-320) -----------------------------------------------------------------------


def test_an_epoch_ends_where_the_next_one_begins(logs: Logs) -> None:
    log = logs.create()
    log.append(records(3))
    log.start_epoch(2)
    log.append(records(2))
    log.start_epoch(5)
    log.append(BATCH)

    assert [log.epoch_end(epoch) for epoch in range(-1, 7)] == [
        (-1, -1),
        (0, 3),
        (0, 3),
        (2, 5),
        (2, 5),
        (2, 5),
        (5, 6),
        (-1, -1),
    ]


def test_an_epoch_whose_records_are_all_deleted_ends_at_the_log_start_offset(logs: Logs) -> None:
    """A group that committed the end of such an epoch continues there, as with Kafka."""
    log = logs.create()
    log.append(records(3))
    log.start_epoch(2)
    log.append(records(2))
    logs.sync(log)

    log.move_log_start(4)

    assert [log.epoch_end(epoch) for epoch in (-1, 0, 1, 2)] == [(-1, -1), (0, 4), (1, 4), (2, 5)]


def test_a_batch_is_stored_under_the_epoch_of_its_append(logs: Logs) -> None:
    log = logs.create()
    log.append(BATCH)
    log.start_epoch(4)
    log.append(BATCH)
    logs.sync(log)

    assert batches(log.read(0, 1000)) == [placed(BATCH, 0), placed(BATCH, 1, 4)]


@pytest.mark.parametrize("epoch", [-1, 0, 3])
def test_an_epoch_must_be_above_the_previous_one(logs: Logs, epoch: int) -> None:
    log = logs.create()
    log.start_epoch(3)

    with pytest.raises(ValueError, match="not above"):
        log.start_epoch(epoch)
