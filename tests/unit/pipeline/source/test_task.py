"""A task whose range is not, or is no longer, as it was planned."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from broker import codec
from broker.client.fetch import Range
from broker.codec import Fields
from broker.model.errors import RequestError
from broker.pipeline.decoding import Selection
from broker.pipeline.options import Use
from broker.pipeline.source.settings import settings_of
from broker.pipeline.source.task import read_task
from broker.pipeline.source.topics import DataLoss
from tests.support.scripted_broker import ScriptedBroker, metadata_of, scripted_broker

ID, OTHER_ID = "0123456789abcdef" * 2, "fedcba9876543210" * 2
ALL = Range("t", ID, 0, 0, 30)


class Log:
    """One partition of batches of ten, from `begin` to `end`, which a test changes."""

    def __init__(self) -> None:
        self.begin, self.end = 0, 30
        self.topic_id, self.next_id = ID, ID  # the second from the first Fetch on
        self.error_at: dict[int, int] = {}
        self.broker: ScriptedBroker

    def answer(self, api: str, _version: int, body: Fields) -> Fields:
        if api == "Metadata":
            gone = 0 if self.topic_id else 3
            return metadata_of(self.broker.address, {"t": self.topic_id}, error_code=gone)
        if api == "ListOffsets":
            wanted = body["topics"][0]["partitions"][0]["timestamp"]
            part = {"partition_index": 0, "offset": self.end if wanted == -1 else self.begin}
            return {"topics": [{"name": "t", "partitions": [part]}]}
        self.topic_id = self.next_id
        offset = body["topics"][0]["partitions"][0]["fetch_offset"]
        base = offset // 10 * 10
        error = self.error_at.get(base, 0)
        if not self.begin <= offset <= self.end:
            error = error or 1
        records = b"" if error else b"".join(codec.encode([b"v"] * 10, base_offset=base))
        found: Fields = {"partition_index": 0, "error_code": error, "records": records}
        return {"responses": [{"topic_id": bytes(16), "partitions": [found]}]}

    def read(self, part: Range = ALL, **options: str) -> list[int]:
        return [each for batch in self.batches(part, **options) for each in batch]

    def batches(self, part: Range = ALL, **options: str) -> Iterator[Any]:
        given = {"kafka.bootstrap.servers": str(self.broker.address), "subscribe": "t"}
        given |= {"kafka.default.api.timeout.ms": "1"} | options
        selection = Selection(("offset",))
        for batch in read_task(settings_of(given, Use.READ), (part,), selection):
            yield batch.column("offset").to_pylist()


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    with scripted_broker(log.answer) as log.broker:
        yield log


def test_a_range_is_read_exactly(log: Log) -> None:
    assert log.read() == list(range(30))
    assert log.read(ALL._replace(start=5, end=23)) == list(range(5, 23))


def test_records_deleted_by_retention_since_the_plan_are_data_loss(log: Log) -> None:
    log.begin = 13

    with pytest.raises(DataLoss, match=r"t-0 at offset 0: .*OFFSET_OUT_OF_RANGE"):
        log.read()
    assert log.read(failOnDataLoss="false") == list(range(13, 30))


def test_a_log_truncated_since_the_plan_is_data_loss(log: Log) -> None:
    log.end = 15
    start = ALL._replace(start=20)

    with pytest.raises(DataLoss, match="t-0 at offset 20"):
        log.read(start)
    assert log.read(start, failOnDataLoss="false") == []


def test_a_whole_range_may_be_missing(log: Log) -> None:
    log.begin = log.end = 90

    assert log.read(failOnDataLoss="false") == []


def test_a_topic_recreated_since_the_plan_is_not_read_instead(log: Log) -> None:
    log.next_id, log.error_at = OTHER_ID, {0: 100}

    with pytest.raises(DataLoss, match="deleted and created again"):
        log.read()
    assert log.read(failOnDataLoss="false") == []


@pytest.mark.parametrize("next_id", [OTHER_ID, ""], ids=["created again", "deleted"])
def test_nothing_is_read_after_lost_records_of_a_topic_that_is_gone(log: Log, next_id: str) -> None:
    log.begin, log.next_id = 13, next_id

    assert log.read(failOnDataLoss="false") == []
    assert len(log.broker.of("Fetch")) == 1


def test_records_lost_in_the_middle_are_reported_with_their_offset(log: Log) -> None:
    log.error_at = {20: 1}
    found: list[int] = []

    with pytest.raises(DataLoss, match="t-0 at offset 20"):
        found.extend(each for batch in log.batches() for each in batch)
    assert log.read(failOnDataLoss="false") == list(range(20))


def test_an_error_other_than_data_loss_is_never_skipped(log: Log) -> None:
    log.error_at = {10: 29}

    with pytest.raises(RequestError, match="not authorized"):
        log.read(failOnDataLoss="false")


def test_a_reader_closed_early_leaves_no_thread(log: Log) -> None:
    batches = log.batches()
    assert next(batches) == list(range(10))
    assert any("polylog-prefetch" in each.name for each in threading.enumerate())
    del batches

    assert not any("polylog-prefetch" in each.name for each in threading.enumerate())


def test_a_range_of_one_chunk_needs_no_thread(log: Log) -> None:
    batches = log.batches(ALL._replace(end=10))
    next(batches)

    assert not any("polylog-prefetch" in each.name for each in threading.enumerate())
