"""The interface of a stream's reader to Spark, against a scripted broker."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from broker import codec
from broker.codec import Fields
from broker.model.errors import RequestError
from broker.pipeline.options import Use
from broker.pipeline.source.offsets import TopicOffsets, from_json
from broker.pipeline.source.settings import settings_of
from broker.pipeline.source.stream import StreamReader
from broker.pipeline.source.topics import DataLoss
from tests.support.manual_clock import ManualClock
from tests.support.scripted_broker import ScriptedBroker, metadata_of, scripted_broker

ID, OTHER_ID = "0123456789abcdef" * 2, "fedcba9876543210" * 2
ALL = ReadAllAvailable()


class Topic:
    """Topic t of a broker: its id, and the ends of its two partitions."""

    def __init__(self) -> None:
        self.topic_id = ID
        self.exists = True
        self.log_offsets = {0: (0, 100), 1: (0, 300)}
        self.broker: ScriptedBroker
        self.clock = ManualClock()

    def answer(self, api: str, _version: int, body: Fields) -> Fields:
        if api == "Metadata":
            topics = {"t": self.topic_id} if self.exists else {"t": ""}
            error = 0 if self.exists else 3
            return metadata_of(self.broker.address, topics, len(self.log_offsets), error)
        if api == "Fetch":
            return self._fetched(body)
        parts = [
            {
                "partition_index": each["partition_index"],
                "offset": self.log_offsets[each["partition_index"]][each["timestamp"] == -1],
            }
            for each in body["topics"][0]["partitions"]
        ]
        return {"topics": [{"name": "t", "partitions": parts}]}

    def _fetched(self, body: Fields) -> Fields:
        part = body["topics"][0]["partitions"][0]
        offset = part["fetch_offset"]
        records = b"".join(codec.encode([bytes(930)] * 10, base_offset=offset))
        fields = {"partition_index": part["partition"], "records": records}
        return {"responses": [{"topic_id": bytes(16), "partitions": [fields]}]}

    def reader(self, **options: str) -> StreamReader:
        given = {"kafka.bootstrap.servers": str(self.broker.address), "subscribe": "t"}
        if {"assign", "subscribePattern"} & options.keys():
            del given["subscribe"]
        given |= {"kafka.default.api.timeout.ms": "1"} | options
        return StreamReader(settings_of(given, Use.STREAM), ("offset",), self.clock)


@pytest.fixture
def topic() -> Iterator[Topic]:
    topic = Topic()
    with scripted_broker(topic.answer) as topic.broker:
        yield topic


def at(topic_id: str = ID, **offsets: int) -> dict[str, Any]:
    """Return the JSON of offsets of partitions p0, p1, ..."""
    numbers = {each[1:]: offset for each, offset in offsets.items()}
    return {"version": 1, "topics": {"t": {"id": topic_id, "partitions": numbers}}}


def ranges(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
    """Return partition, start and end of the tasks' ranges."""
    return [
        (each.partition, each.start, each.end)
        for task in reader.partitions(start, end)
        for each in task.value
    ]


def test_a_new_query_begins_at_the_configured_offsets(topic: Topic) -> None:
    assert topic.reader().initialOffset() == at(p0=100, p1=300)
    assert topic.reader(startingOffsets="earliest").initialOffset() == at(p0=0, p1=0)
    offsets = '{"t": {"0": 7, "1": -1}}'
    assert topic.reader(startingOffsets=offsets).initialOffset() == at(p0=7, p1=300)


def test_a_start_that_no_longer_exists_is_data_loss(topic: Topic) -> None:
    offsets = '{"t": {"0": 101, "1": 0}}'

    with pytest.raises(DataLoss, match="t-0: expected offset 101, there are 0 to 100"):
        topic.reader(startingOffsets=offsets).initialOffset()
    reader = topic.reader(startingOffsets=offsets, failOnDataLoss="false")
    assert reader.initialOffset() == at(p0=100, p1=0)


def test_a_trigger_reads_everything_available(topic: Topic) -> None:
    reader = topic.reader()
    end = reader.latestOffset(at(p0=10, p1=20), ALL)

    assert end == at(p0=100, p1=300)
    assert ranges(reader, at(p0=10, p1=20), end) == [(0, 10, 100), (1, 20, 300)]


def test_without_new_records_the_start_is_returned(topic: Topic) -> None:
    stock = {"t": {"1": 300, "0": 100}}

    assert topic.reader().latestOffset(stock, ALL) is stock


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ALL),
        ({"maxOffsetsPerTrigger": "80"}, ReadMaxRows(80)),
        ({"maxBytesPerTrigger": "80"}, ReadMaxBytes(80)),
        ({"minOffsetsPerTrigger": "80"}, ReadMinRows(80)),
        ({"minOffsetsPerTrigger": "8", "maxOffsetsPerTrigger": "80"}, ReadMaxRows(80)),
    ],
)
def test_the_limit_is_reported_to_spark(
    topic: Topic, options: dict[str, str], limit: ReadLimit
) -> None:
    assert topic.reader(**options).getDefaultReadLimit() == limit


def test_a_limit_of_rows_is_kept_unless_spark_reads_all_available(topic: Topic) -> None:
    reader = topic.reader(maxOffsetsPerTrigger="80")

    assert reader.latestOffset(at(p0=0, p1=0), ReadMaxRows(80)) == at(p0=20, p1=60)
    assert reader.latestOffset(at(p0=0, p1=0), ALL) == at(p0=100, p1=300)
    assert reader.reportLatestOffset() == at(p0=100, p1=300)


def test_a_limit_of_bytes_is_kept_by_the_size_of_the_next_records(topic: Topic) -> None:
    reader = topic.reader(maxBytesPerTrigger="40000")  # of some 950 bytes each

    offsets = from_json(reader.latestOffset(at(p0=0, p1=0), ReadMaxBytes(40_000)))["t"].offsets
    assert offsets == {0: 10, 1: 31}


def test_a_few_records_wait_for_more_up_to_the_delay(topic: Topic) -> None:
    reader = topic.reader(minOffsetsPerTrigger="50", maxTriggerDelay="1m")
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(at(p0=0, p1=0), limit)
    assert end == at(p0=100, p1=300)

    topic.log_offsets[0] = (0, 149)
    assert reader.latestOffset(end, limit) is end
    topic.clock.advance(59_999)
    assert reader.latestOffset(end, limit) is end
    topic.clock.advance(1)
    later = reader.latestOffset(end, limit)
    assert later == at(p0=149, p1=300)
    topic.log_offsets[0] = (0, 199)
    assert reader.latestOffset(later, limit) == at(p0=199, p1=300)


def test_available_now_ends_with_the_records_present_at_its_start(topic: Topic) -> None:
    reader = topic.reader(maxOffsetsPerTrigger="200", minOffsetsPerTrigger="150")
    reader.prepareForTriggerAvailableNow()
    topic.log_offsets = {0: (0, 500), 1: (0, 500), 2: (0, 500)}
    limit = reader.getDefaultReadLimit()

    middle = reader.latestOffset(at(p0=0, p1=0), limit)
    assert middle == at(p0=50, p1=150, p2=0)
    end = reader.latestOffset(middle, limit)
    assert end == at(p0=100, p1=300, p2=0)
    assert reader.latestOffset(end, limit) is end


def test_a_new_partition_is_read_from_its_beginning(topic: Topic) -> None:
    reader = topic.reader()
    topic.log_offsets[2] = (40, 50)
    end = reader.latestOffset(at(p0=100, p1=300), ALL)

    assert end == at(p0=100, p1=300, p2=50)
    assert ranges(reader, at(p0=100, p1=300), end) == [(2, 40, 50)]


def test_a_recreated_topic_is_data_loss_or_read_from_its_beginning(
    topic: Topic,
) -> None:
    topic.topic_id = OTHER_ID
    start = at(p0=90, p1=20)

    with pytest.raises(DataLoss, match=f"recreated: its id was {ID}, now it is {OTHER_ID}"):
        topic.reader().latestOffset(start, ALL)
    reader = topic.reader(failOnDataLoss="false")
    end = reader.latestOffset(start, ALL)
    assert end == at(OTHER_ID, p0=100, p1=300)
    assert ranges(reader, start, end) == [(0, 0, 100), (1, 0, 300)]


@pytest.mark.parametrize("start", [at(p0=101, p1=20), {"t": {"0": 101, "1": 20}}])
def test_a_log_that_ends_before_the_read_offset_is_data_loss(
    topic: Topic, start: dict[str, Any]
) -> None:
    with pytest.raises(DataLoss, match="t-0: expected offset 101, the log ends at 100"):
        topic.reader().latestOffset(start, ALL)
    reader = topic.reader(failOnDataLoss="false")
    end = reader.latestOffset(start, ALL)
    assert end == at(p0=100, p1=300)
    assert ranges(reader, start, end) == [(1, 20, 300)]


def test_records_deleted_by_retention_are_data_loss_or_skipped(topic: Topic) -> None:
    topic.log_offsets[0] = (50, 100)
    start, end = at(p0=10, p1=300), at(p0=100, p1=300)

    with pytest.raises(DataLoss, match="t-0: expected offset 10, there are 50 to 100"):
        topic.reader().partitions(start, end)
    assert ranges(topic.reader(failOnDataLoss="false"), start, end) == [(0, 50, 100)]


def test_a_missing_partition_is_data_loss_or_forgotten(topic: Topic) -> None:
    del topic.log_offsets[1]
    start = at(p0=10, p1=300)

    with pytest.raises(DataLoss, match="t-1 was deleted"):
        topic.reader().latestOffset(start, ALL)
    assert topic.reader(failOnDataLoss="false").latestOffset(start, ALL) == at(p0=100)


def test_offsets_of_sparks_own_source_get_the_topic_id_with_the_next_trigger(
    topic: Topic,
) -> None:
    end = topic.reader().latestOffset({"t": {"0": 10, "1": 300}}, ALL)

    assert from_json(end) == {"t": TopicOffsets(ID, {0: 100, 1: 300})}


def test_equal_offsets_give_no_tasks(topic: Topic) -> None:
    assert topic.reader().partitions(at(p0=1, p1=2), at(p0=1, p1=2)) == []


LENIENT = {"failOnDataLoss": "false"}


def test_a_planned_batch_of_a_deleted_topic_is_data_loss_or_skipped(
    topic: Topic,
) -> None:
    topic.exists = False
    start, end = at(p0=10, p1=20), at(p0=100, p1=300)

    with pytest.raises(DataLoss, match="topic t was deleted"):
        topic.reader().partitions(start, end)
    reader = topic.reader(**LENIENT)
    assert ranges(reader, start, end) == []
    following = reader.latestOffset(end, ALL)
    assert from_json(following) == {}
    assert ranges(reader, end, following) == []
    topic.exists = True
    assert ranges(reader, following, reader.latestOffset(following, ALL)) == [
        (0, 0, 100),
        (1, 0, 300),
    ]


def test_a_planned_batch_of_a_recreated_or_smaller_topic_is_data_loss_or_skipped(
    topic: Topic,
) -> None:
    start, end = at(p0=10, p1=20), at(p0=100, p1=300)

    del topic.log_offsets[1]
    with pytest.raises(DataLoss, match="t-1 was deleted"):
        topic.reader().partitions(start, end)
    assert ranges(topic.reader(**LENIENT), start, end) == [(0, 10, 100)]
    topic.topic_id = OTHER_ID
    with pytest.raises(DataLoss, match="recreated"):
        topic.reader().partitions(start, end)
    assert ranges(topic.reader(**LENIENT), start, end) == []


@pytest.mark.parametrize(
    "starting",
    [
        {},
        {"startingOffsets": '{"t": {"0": 7, "1": -1}}'},
        {"startingOffsetsByTimestamp": '{"t": {"0": 7, "1": 7}}'},
        {"startingTimestamp": "7"},
        {"assign": '{"t": [0]}'},
    ],
)
def test_a_first_planned_batch_is_skipped_too(topic: Topic, starting: dict[str, str]) -> None:
    topic.exists = False
    reader = topic.reader(**LENIENT, **starting)

    start = reader.initialOffset()
    assert from_json(start) == {}
    assert ranges(reader, start, at(p0=100, p1=300)) == []
    with pytest.raises(RequestError, match="no topic named 't'"):
        topic.reader(**starting).initialOffset()


def test_the_error_for_a_deleted_topic_does_not_mention_checkpoints_or_retention(
    topic: Topic,
) -> None:
    topic.exists = False

    losses = r"t-0 was deleted; t-1 was deleted\. With the option"
    with pytest.raises(DataLoss, match=losses) as raised:
        topic.reader().latestOffset(at(p0=10, p1=20), ALL)
    assert "checkpoint" not in str(raised.value)
    assert "etention" not in str(raised.value)


def test_a_pattern_without_a_matching_topic_waits_for_one(topic: Topic) -> None:
    reader = topic.reader(subscribePattern="^u")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start

    found = topic.reader(subscribePattern="t$").latestOffset(start, ALL)
    assert found == at(p0=100, p1=300)
    assert ranges(reader, start, found) == [(0, 0, 100), (1, 0, 300)]
