"""Tables of Spark's catalog: CREATE TABLE … USING polylog, SELECT, INSERT INTO."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.rows import some
from tests.support.broker_process import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

Fill = Callable[..., None]


@pytest.fixture
def table(
    spark: "SparkSession", broker: Broker, topic: str, tmp_path: Path
) -> Iterator[Callable[..., str]]:
    """Return a function that creates tables of the test's topic, each with its own name."""
    made: list[str] = []

    def make(listed: str = "", properties: str = "", **more: str) -> str:
        name = f"t{len(made)}"
        given = {"kafka.bootstrap.servers": broker.address, "subscribe": topic} | more
        options = ", ".join(f"'{key}' '{value}'" for key, value in given.items())
        spark.sql(
            f"CREATE TABLE {name} {listed} USING polylog OPTIONS ({options})"
            f" LOCATION '{tmp_path / name}' COMMENT 'clicks' {properties}"
        )
        made.append(name)
        return name

    yield make
    for each in made:
        spark.sql(f"DROP TABLE {each}")


def test_a_table_is_a_topic_to_read_and_write(
    spark: "SparkSession", topic: str, fill: Fill, table: Callable[..., str]
) -> None:
    fill(topic, some(10), partitions=3)
    name = table(properties="TBLPROPERTIES ('mine' = '1')")
    before_ms = time.time_ns() // 1_000_000

    spark.sql(f"INSERT INTO {name} (key, value) VALUES (X'6B', X'6E6577')")

    assert spark.sql(f"SELECT * FROM {name}").count() == 11
    [row] = spark.sql(f"SELECT * FROM {name} WHERE value = X'6E6577'").collect()
    assert (bytes(row["key"]), row["topic"]) == (b"k", topic)
    assert row["timestamp"].timestamp() * 1000 >= before_ms


def test_a_statement_can_have_its_own_options(
    spark: "SparkSession", topic: str, fill: Fill, table: Callable[..., str]
) -> None:
    fill(topic, some(10, 1), partitions=1)
    name = table(startingOffsets="earliest")

    ends = f"SELECT * FROM {name} WITH ('endingOffsets' = '{{\"{topic}\": {{\"0\": 4}}}}')"
    assert spark.sql(ends).count() == 4


def test_a_table_is_created_with_the_columns_of_its_options(
    spark: "SparkSession", topic: str, fill: Fill, table: Callable[..., str]
) -> None:
    fill(topic, some(3, 1), partitions=1)
    name = table(columns="key,value", maxOffsetsPerTrigger="10", delivery="at-least-once")

    assert spark.table(name).columns == ["key", "value"]
    spark.sql(f"INSERT INTO {name} SELECT * FROM {name}")
    assert spark.table(name).count() == 6


def test_a_table_is_read_as_a_stream(
    spark: "SparkSession", topic: str, fill: Fill, table: Callable[..., str], tmp_path: Path
) -> None:
    fill(topic, some(5, 1), partitions=1)
    name = table(startingOffsets="earliest")
    counts: list[int] = []

    query = (
        spark.readStream.table(name)
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(lambda frame, _: counts.append(frame.count()))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert sum(counts) == 5


def test_a_table_cannot_be_overwritten(
    spark: "SparkSession", topic: str, fill: Fill, table: Callable[..., str]
) -> None:
    fill(topic, partitions=1)

    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        spark.sql(f"INSERT OVERWRITE {table(columns='value')} VALUES (X'61')")


def test_an_invalid_option_is_reported_when_a_table_is_created(table: Callable[..., str]) -> None:
    with pytest.raises(Exception, match="there is no option 'startingofset'; did you mean"):
        table(startingOfset="earliest")


def test_a_table_with_listed_columns_reports_that_spark_kept_no_options(
    spark: "SparkSession", topic: str, fill: Fill, table: Callable[..., Any], broker: Broker
) -> None:
    fill(topic, some(2, 1), partitions=1)
    name = table("(key BINARY, value BINARY)")

    with pytest.raises(Exception, match=r"CREATE TABLE had no list of columns"):
        spark.table(name).collect()
    given = f"'kafka.bootstrap.servers' = '{broker.address}', 'subscribe' = '{topic}'"
    assert spark.sql(f"SELECT * FROM {name} WITH ({given})").count() == 2
