"""The state of one query, from the records of the marker topic."""

import pytest

from broker import codec
from broker.codec.control_records import Marker, encode_marker
from broker.model.errors import MarkerMismatch
from broker.pipeline.sink.identity import Batch
from broker.pipeline.sink.markers import Done, QueryLog, done_record, plan_record

BATCH = Batch("q", 7, 2, "aa")
NEXT = BATCH._replace(number=8)
DONE = Done(BATCH, 0, 100, "ff")


def planned(batch: Batch) -> bytes:
    [data] = codec.encode([plan_record(batch)])
    return data


def written(done: Done, producer_id: int = 9) -> bytes:
    [data] = codec.encode(
        [done_record(done)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    return data


def ended(*, is_committed: bool, producer_id: int = 9) -> bytes:
    return encode_marker(
        Marker(producer_id, 0, is_committed=is_committed, coordinator_epoch=0), timestamp_ms=0
    )


def log_of(*batches: bytes) -> QueryLog:
    log = QueryLog("q")
    log.feed(b"".join(batches))
    return log


def test_an_empty_topic_has_no_begun_batch() -> None:
    log = log_of()

    assert not log.is_begun(BATCH)
    assert log.written(BATCH, 0) is None


def test_a_batch_is_begun_once_its_plan_is_written() -> None:
    assert log_of(planned(BATCH)).is_begun(BATCH)
    assert not log_of(planned(BATCH)).is_begun(NEXT)


@pytest.mark.parametrize(
    "other", [BATCH._replace(tasks=3), BATCH._replace(plan="bb"), BATCH._replace(tasks=None)]
)
def test_a_batch_planned_differently_than_it_was_begun_is_refused(other: Batch) -> None:
    with pytest.raises(MarkerMismatch, match=r"was started with .*local\[N\], spark.master"):
        log_of(planned(other)).is_begun(BATCH)


def test_of_two_plans_for_a_batch_the_first_one_counts() -> None:
    log = log_of(planned(BATCH), planned(BATCH._replace(tasks=3)))

    assert log.is_begun(BATCH)


def test_a_batch_before_a_later_one_is_refused() -> None:
    with pytest.raises(MarkerMismatch, match="checkpoint is older"):
        log_of(planned(BATCH), planned(NEXT)).is_begun(BATCH)


def test_a_task_has_written_when_its_transaction_is_committed() -> None:
    log = log_of(written(DONE), ended(is_committed=True))

    assert log.written(BATCH, 0) == DONE
    assert log.written(BATCH, 1) is None
    assert log.written(NEXT, 0) is None


def test_a_task_whose_transaction_is_aborted_or_open_has_not_written() -> None:
    assert log_of(written(DONE), ended(is_committed=False)).written(BATCH, 0) is None
    assert log_of(written(DONE)).written(BATCH, 0) is None


def test_a_task_is_open_until_its_transaction_has_ended() -> None:
    log = log_of(written(DONE))

    assert log.is_open(0)
    assert not log.is_open(1)
    log.feed(ended(is_committed=True))
    assert not log.is_open(0)


def test_an_open_transaction_of_another_task_hides_nothing() -> None:
    other = written(DONE._replace(task=1), producer_id=5)

    log = log_of(other, written(DONE), ended(is_committed=True))

    assert log.written(BATCH, 0) == DONE
    log.feed(ended(is_committed=True, producer_id=5))
    assert log.written(BATCH, 1) == DONE._replace(task=1)


@pytest.mark.parametrize("other", [BATCH._replace(tasks=3), NEXT])
def test_a_marker_of_another_plan_or_a_later_batch_is_refused(other: Batch) -> None:
    log = log_of(written(DONE._replace(batch=other)), ended(is_committed=True))

    with pytest.raises(MarkerMismatch, match="task 0"):
        log.written(BATCH, 0)


def test_other_queries_in_the_same_partition_are_ignored() -> None:
    log = log_of(planned(NEXT._replace(query="other")), planned(BATCH))

    assert log.is_begun(BATCH)


@pytest.mark.parametrize(
    "record",
    [(b"clicks", b"{}"), (b'["q"]', b"7"), (b'["q"]', b'{"version": 2}'), (None, b""), (b"7", b"")],
)
def test_a_topic_with_other_records_is_refused(record: tuple[bytes | None, bytes]) -> None:
    with pytest.raises(MarkerMismatch, match="use a topic only for markers"):
        log_of(*codec.encode([record]))
