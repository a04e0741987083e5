"""Spark's own Kafka connector on this broker, unchanged, compared with our source.

Its jars come through Maven: see tests/compatibility/java/spark_connector.py.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.compatibility.java import spark_connector
from tests.compatibility.programs import UnavailableError
from tests.pipeline.queries import Query
from tests.pipeline.rows import (
    FIRST_MS,
    collected,
    commit_and_abort_in_turns,
    consumed,
    places,
    some,
)
from tests.support.broker_process import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

Frame = Callable[..., "DataFrame"]


@pytest.fixture
def spark(spark: "SparkSession") -> "SparkSession":
    """The session, where it has the connector."""
    try:
        spark_connector.find()
    except UnavailableError as error:
        pytest.skip(str(error))
    return spark


@pytest.fixture
def frame(spark: "SparkSession", options: dict[str, str]) -> Frame:
    """Return a frame of the test's topic in one of the formats, with more options."""

    def frame(source: str, **more: str) -> "DataFrame":
        given = options | {name.replace("__", "."): value for name, value in more.items()}
        return spark.read.format(source).options(**given).load()

    return frame


def test_both_connectors_read_the_same_rows_with_the_same_schema(
    broker: Broker, topic: str, fill: Any, frame: Frame
) -> None:
    fill(topic, some(3000), partitions=3)
    stock, ours = (frame(each, includeHeaders="true") for each in ("kafka", "polylog"))

    assert ours.schema == stock.schema
    assert collected(ours) == collected(stock) == consumed(broker.address, topic)


@pytest.mark.parametrize(
    "bounds",
    [
        {"startingTimestamp": str(FIRST_MS + 10), "endingTimestamp": str(FIRST_MS + 200)},
        {
            "startingOffsetsByTimestamp": '{"%s": {"0": %d, "1": %d, "2": %d}}',
            "endingOffsets": '{"%s": {"0": 90, "1": -1, "2": 60}}',
        },
        {"startingOffsets": '{"%s": {"0": 5, "1": -2, "2": 50}}'},
        {"minPartitions": "7"},
        {"minPartitions": "4", "maxRecordsPerPartition": "33"},
    ],
)
def test_bounds_and_partition_counts_mean_the_same_to_both_connectors(
    topic: str, fill: Any, frame: Frame, bounds: dict[str, str]
) -> None:
    fill(topic, some(300), partitions=3)
    times = [FIRST_MS + each for each in (30, 60, 90)]
    given = {
        name: value % (topic, *times[: value.count("%d")]) if "%s" in value else value
        for name, value in bounds.items()
    }
    stock, ours = (frame(each, **given) for each in ("kafka", "polylog"))

    assert places(ours) == places(stock)
    assert ours.rdd.getNumPartitions() == stock.rdd.getNumPartitions()


def test_both_connectors_omit_aborted_records(
    broker: Broker, topic: str, fill: Any, frame: Frame
) -> None:
    fill(topic, partitions=1)
    commit_and_abort_in_turns(broker.address, topic, transactions=4, records=20)
    committed = {"kafka__isolation__level": "read_committed"}
    stock, ours = (frame(each, **committed) for each in ("kafka", "polylog"))

    assert places(ours) == places(stock)
    assert ours.count() == 40


def test_records_written_by_the_stock_sink_are_read_by_this_source(
    spark: "SparkSession", topic: str, fill: Any, options: dict[str, str], frame: Frame
) -> None:
    fill(topic, partitions=3)
    rows = spark.range(1000).selectExpr(
        "CAST(CAST(id AS STRING) AS BINARY) AS key",
        "CAST(CAST(id * 2 AS STRING) AS BINARY) AS value",
        "array(struct('h' AS key, CAST('1' AS BINARY) AS value)) AS headers",
        f"'{topic}' AS topic",
    )
    rows.write.format("kafka").option(
        "kafka.bootstrap.servers", options["kafka.bootstrap.servers"]
    ).option("includeHeaders", "true").save()

    read = frame("polylog", includeHeaders="true").collect()
    assert {bytes(row["key"]): bytes(row["value"]) for row in read} == {
        b"%d" % each: b"%d" % (2 * each) for each in range(1000)
    }
    assert {row["headers"][0]["key"] for row in read} == {"h"}


def test_a_query_of_the_stock_connector_continues_with_this_format(
    spark: "SparkSession", topic: str, fill: Any, options: dict[str, str], tmp_path: Path
) -> None:
    query = Query(spark, options, tmp_path)
    fill(topic, some(300), partitions=3)
    assert query.run(source="kafka", maxOffsetsPerTrigger="100")
    assert query.offsets() == {topic: {"0": 100, "1": 100, "2": 100}}
    fill(topic, some(300))
    query.run()

    assert query.places() == [(part, each) for part in range(3) for each in range(200)]
    assert json.loads(json.dumps(query.offsets()))["version"] == 1
