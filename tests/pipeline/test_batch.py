"""A batch read of topics, compared byte for byte with what librdkafka reads."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from broker.codec import encode
from broker.pipeline.schema import COLUMNS, HEADERS
from tests.pipeline.pausing import PausingSource, restart_meanwhile
from tests.pipeline.rows import (
    FIRST_MS,
    collected,
    commit_and_abort_in_turns,
    consumed,
    places,
    produce_small_batches,
    some,
)
from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess
from tests.support.wire_client import WireClient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

Read = Callable[..., "DataFrame"]


@pytest.fixture
def read(spark: "SparkSession", options: dict[str, str]) -> Read:
    """Return a frame of the test's topic, with more options."""

    def read(schema: str | None = None, **more: str | None) -> "DataFrame":
        reader = spark.read.format("polylog")
        for name, value in (options | {k.replace("__", "."): v for k, v in more.items()}).items():
            if value is not None:
                reader = reader.option(name, value)
        return (reader.schema(schema) if schema else reader).load()

    return read


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_byte_for_byte_what_librdkafka_reads(
    broker: Broker, topic: str, fill: Callable[..., None], read: Read, compression: str
) -> None:
    fill(topic, some(3000), partitions=3, **{"compression.type": compression})

    rows = collected(read(includeHeaders="true"))

    assert rows == consumed(broker.address, topic)
    assert len(rows) == 3000


def test_a_topic_of_many_chunks_is_read_whole(
    broker: Broker, topic: str, fill: Callable[..., None], read: Read
) -> None:
    fill(topic, some(3000, 1, 3000), partitions=1)

    rows = collected(read(includeHeaders="true", kafka__fetch__max__bytes="100000"))

    assert rows == consumed(broker.address, topic)


def test_the_schema_is_that_of_sparks_kafka_source(topic: str, fill: Any, read: Read) -> None:
    fill(topic, partitions=1)

    assert dict(read().dtypes) == COLUMNS
    assert dict(read(includeHeaders="true").dtypes) == COLUMNS | HEADERS
    assert all(each.nullable for each in read().schema.fields)


def test_an_empty_topic_has_no_rows(topic: str, fill: Any, read: Read) -> None:
    fill(topic, partitions=2)

    assert read().collect() == []


def test_columns_are_chosen_by_schema_or_by_option(topic: str, fill: Any, read: Read) -> None:
    fill(topic, some(10), partitions=3)

    by_schema = read("offset bigint, key binary")
    by_option = read(columns="offset,key")
    assert by_schema.columns == by_option.columns == ["offset", "key"]
    assert Counter(by_schema.collect()) == Counter(by_option.collect())
    assert read(columns="topic").distinct().collect()[0]["topic"] == topic


def test_a_read_begins_and_ends_at_the_given_offsets(topic: str, fill: Any, read: Read) -> None:
    fill(topic, some(30), partitions=3)
    starting = json.dumps({topic: {"0": 4, "1": -2, "2": 9}})
    ending = json.dumps({topic: {"0": 6, "1": 1, "2": -1}})

    assert places(read(startingOffsets=starting, endingOffsets=ending)) == {
        0: [4, 5],
        1: [0],
        2: [9],
    }


def test_a_read_begins_and_ends_at_the_given_times(topic: str, fill: Any, read: Read) -> None:
    fill(topic, some(30), partitions=3)

    def by_time(**more: str) -> dict[int, list[int]]:
        return places(read(**more))

    whole = {"startingTimestamp": str(FIRST_MS + 9), "endingTimestamp": str(FIRST_MS + 15)}
    assert by_time(**whole) == {0: [3, 4], 1: [3, 4], 2: [3, 4]}
    starting = json.dumps({topic: {"0": FIRST_MS + 27, "1": FIRST_MS + 28, "2": FIRST_MS + 29}})
    ending = json.dumps({topic: {"0": FIRST_MS + 27, "1": FIRST_MS + 99, "2": FIRST_MS + 99}})
    assert by_time(startingOffsetsByTimestamp=starting) == {0: [9], 1: [9], 2: [9]}
    assert by_time(startingOffsetsByTimestamp=starting, endingOffsetsByTimestamp=ending) == {
        1: [9],
        2: [9],
    }
    with pytest.raises(Exception, match=f"{topic}-0: starts at offset 3 and ends at offset 1;"):
        by_time(startingTimestamp=str(FIRST_MS + 9), endingTimestamp=str(FIRST_MS + 3))


def test_a_start_time_after_every_record_is_an_error_unless_latest_is_allowed(
    topic: str, fill: Any, read: Read
) -> None:
    fill(topic, some(3), partitions=3)
    late = str(FIRST_MS + 99)

    with pytest.raises(Exception, match=f"{topic}-0, .*: no record has the starting timestamp"):
        read(startingTimestamp=late).collect()
    assert read(startingTimestamp=late, startingOffsetsByTimestampStrategy="latest").collect() == []


def test_topics_are_found_by_pattern_and_by_assignment(topic: str, fill: Any, read: Read) -> None:
    for name in ("one", "two"):
        fill(f"{topic}-{name}", some(6), partitions=3)
    fill(f"other-{topic}-one", some(6), partitions=3)

    matched = read(subscribe=None, subscribePattern=f"^{topic}-(one|two|three)")
    assigned = read(subscribe=None, assign=json.dumps({f"{topic}-one": [2, 0]}))
    assert matched.count() == 12
    assert places(assigned) == {0: [0, 1], 2: [0, 1]}
    searched = read(subscribe=None, subscribePattern=rf"^{topic}-\p{{Lower}}")
    assert {row["topic"] for row in searched.collect()} == {f"{topic}-one", f"{topic}-two"}
    assert read(subscribe=None, subscribePattern=f"^{topic}-nowhere").collect() == []
    both = read(subscribe=f"{topic}-one, {topic}-two")
    assert {row["topic"] for row in both.collect()} == {f"{topic}-one", f"{topic}-two"}


@pytest.mark.parametrize(
    ("more", "tasks"),
    [
        ({}, 3),
        ({"minPartitions": "6"}, 6),
        ({"minPartitions": "2"}, 3),
        ({"maxRecordsPerPartition": "30"}, 12),
    ],
)
def test_a_read_has_the_requested_number_of_tasks(
    topic: str, fill: Any, read: Read, more: dict[str, str], tasks: int
) -> None:
    fill(topic, some(300), partitions=3)
    frame = read(**more)

    assert frame.rdd.getNumPartitions() == tasks
    assert places(frame) == {each: list(range(100)) for each in range(3)}


@pytest.mark.parametrize(
    ("condition", "is_kept_by_spark"),
    [
        ("offset >= 10 AND offset < 20 AND partition = 1", False),
        ("partition IN (0, 2) AND offset = 5", False),
        (f"timestamp > timestamp_millis({FIRST_MS + 100})", False),
        (f"timestamp <= timestamp_micros({FIRST_MS * 1000 + 10_500})", True),  # drops nulls
        (f"timestamp = timestamp_millis({FIRST_MS + 7})", False),
        ("key = X'6B65792034' OR offset = 1", True),
        ("length(value) > 50 AND offset < 40", True),
        ("topic = 'nothing'", False),
    ],
)
def test_a_pushed_down_filter_gives_the_same_rows(
    topic: str, fill: Any, read: Read, condition: str, is_kept_by_spark: bool
) -> None:
    fill(topic, some(300), partitions=3)
    pushed = read(pushdown="true").where(condition)

    assert places(pushed) == places(read().where(condition))
    plan = pushed._jdf.queryExecution().executedPlan().toString()
    assert ("Filter (" in plan) == is_kept_by_spark, plan


def test_keys_are_chosen_by_filter_or_by_prefix(topic: str, fill: Any, read: Read) -> None:
    fill(topic, some(300), partitions=3)

    [row] = read(pushdown="true").where("key = X'6B65792034'").collect()
    assert bytes(row["key"]) == b"key 4"
    prefixed = read(keyPrefix="key 4")
    assert {bytes(row["key"])[:5] for row in prefixed.collect()} == {b"key 4"}
    assert prefixed.count() == read().where("startswith(key, X'6B65792034')").count() == 8


def test_aborted_transactions_are_read_only_with_read_uncommitted(
    broker: Broker, topic: str, fill: Any, read: Read
) -> None:
    fill(topic, partitions=1)
    commit_and_abort_in_turns(broker.address, topic, transactions=6, records=50)

    for isolation, count in (("read_committed", 150), ("read_uncommitted", 300)):
        rows = collected(read(includeHeaders="true", kafka__isolation__level=isolation))
        assert rows == consumed(broker.address, topic, isolation)
        assert len(rows) == count


def test_a_read_that_spark_ends_early_does_not_affect_the_next_one(
    topic: str, fill: Any, read: Read
) -> None:
    fill(topic, some(6000, 1, 3000), partitions=1)

    assert len(read(kafka__fetch__max__bytes="70000").limit(3).collect()) == 3
    assert read().count() == 6000


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"subscibe": "x"}, "there is no option 'subscibe'; did you mean subscribe?"),
        ({"columns": "ofset"}, "there is no column 'ofset'"),
        ({"assign": '{"a": [0]}'}, "exactly one of the options .* got subscribe and assign"),
        ({"subscribe": "nowhere"}, "127.0.0.1:.*: there is no topic named 'nowhere'"),
        (
            {"subscribe": None, "subscribePattern": r"\p{InGreek}"},
            "expected a regular expression .*InGreek",
        ),
        ({"subscribe": None, "assign": '{"%s": [0, 9]}'}, "has partitions 0 to 2, not .9."),
        ({"startingOffsets": "latest"}, "a batch cannot begin at latest"),
        ({"endingOffsets": "earliest"}, "a batch cannot end at earliest"),
        ({"startingOffsets": '{"%s": {"0": 1}}'}, "missing: .*-1, .*-2; not read: none"),
        ({"startingOffsets": '{"%s": {"0": 99, "1": 0, "2": 0}}'}, "expected offset 99, there are"),
        ({"endingOffsets": '{"%s": {"0": 99, "1": 0, "2": 0}}'}, "expected offset 99, there are"),
        (
            {
                "startingOffsets": '{"%s": {"0": 7, "1": 99, "2": 1}}',
                "endingOffsets": '{"%s": {"0": 3, "1": 98, "2": 1}}',
            },
            (
                "cannot end before it starts: .*-0: starts at offset 7 and ends at offset 3;"
                " .*-1: starts at offset 99 and ends at offset 98"
            ),
        ),
        ({"maxOffsetsPerTrigger": "5"}, "option maxOffsetsPerTrigger: only for stream"),
    ],
)
def test_an_unreadable_topic_is_reported_before_a_job_starts(
    topic: str, fill: Any, read: Read, spark: "SparkSession", more: dict[str, Any], message: str
) -> None:
    fill(topic, some(30), partitions=3)
    given = {name: value and value.replace("%s", topic) for name, value in more.items()}
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup()

    with pytest.raises(Exception, match=message):
        read(**given).collect()
    assert spark.sparkContext.statusTracker().getJobIdsForGroup() == jobs


def test_a_schema_that_does_not_fit_is_reported(topic: str, fill: Any, read: Read) -> None:
    fill(topic, partitions=1)

    with pytest.raises(Exception, match="column offset: expected type bigint, got int"):
        read("offset int").collect()


def test_without_fail_on_data_loss_a_read_returns_what_is_left(
    topic: str, fill: Any, read: Read
) -> None:
    fill(topic, some(30), partitions=3)
    starting = json.dumps({topic: {"0": 99, "1": 8, "2": 10}})

    assert places(read(startingOffsets=starting, failOnDataLoss="false")) == {1: [8, 9]}


def test_an_unreachable_broker_is_named(read: Read, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    assert broker.stop() == 0

    with pytest.raises(Exception, match=f"no broker at {broker.address}"):
        read(
            kafka__bootstrap__servers=broker.address, kafka__default__api__timeout__ms="200"
        ).collect()


def test_a_broker_killed_during_a_read_loses_and_duplicates_no_row(
    spark: "SparkSession", topic: str, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = start_broker()
    produce_small_batches(broker.address, topic, 2_000)
    spark.dataSource.register(PausingSource)
    options = {"kafka.bootstrap.servers": broker.address, "subscribe": topic}
    options |= {"kafka.max.partition.fetch.bytes": "10000", "pause": str(tmp_path)}
    restarting = threading.Thread(target=restart_meanwhile, args=(broker, tmp_path))
    restarting.start()

    found = collected(spark.read.format("pausing").options(**options, includeHeaders="true").load())
    restarting.join(60)

    assert found == consumed(broker.address, topic)
    assert len(found) == 2_000


def test_a_start_moved_by_retention_beyond_the_end_is_data_loss(
    broker: Broker, topic: str, fill: Any, read: Read
) -> None:
    fill(topic, some(30, 1), partitions=1)
    admin = AdminClient({"bootstrap.servers": broker.address})
    for each in admin.delete_records([TopicPartition(topic, 0, 15)]).values():
        each.result(10)
    ends = json.dumps({topic: {"0": 10}})

    with pytest.raises(Exception, match=f"{topic}-0: expected offset 10, there are 15 to 30"):
        read(endingOffsets=ends).collect()
    assert read(endingOffsets=ends, failOnDataLoss="false").collect() == []


@pytest.mark.parametrize(
    ("condition", "offsets"),
    [
        (f"timestamp < timestamp_millis({FIRST_MS + 1})", [1]),
        (f"timestamp >= timestamp_millis({FIRST_MS + 1})", [2]),
        ("timestamp IS NULL", [0]),
        ("timestamp IS NOT NULL", [1, 2]),
        ("timestamp <=> timestamp_millis(-1)", []),
    ],
)
@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_a_record_without_a_timestamp_is_null_for_filters_too(
    broker: Broker,
    topic: str,
    fill: Any,
    read: Read,
    condition: str,
    offsets: list[int],
    pushdown: str,
) -> None:
    fill(topic, partitions=1)
    times = [-1, FIRST_MS, FIRST_MS + 1]
    with WireClient(broker.address) as client:
        [batch] = encode([(None, b"v", [], each) for each in times])
        assert wire_requests.produce(client, topic, batch) == (0, 0)

    assert places(read(pushdown=pushdown).where(condition)) == ({0: offsets} if offsets else {})


def test_timestamps_are_those_of_the_records(topic: str, fill: Any, read: Read) -> None:
    fill(topic, [(0, None, b"v", [], FIRST_MS + 123)], partitions=1)

    [row] = read().collect()
    assert row["timestamp"].astimezone(UTC) == datetime.fromtimestamp(FIRST_MS / 1000, UTC).replace(
        microsecond=123_000
    )
