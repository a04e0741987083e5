"""Rows written by Spark, read by librdkafka."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker import codec
from broker.client.admin import create_topic
from broker.client.metadata import Cluster
from broker.model.address import parse_address
from tests.pipeline import sink_driver
from tests.pipeline.killing import TIMEOUT_S, run_until_killed
from tests.pipeline.reading import read_committed
from tests.support.broker_process import Broker, BrokerProcess, wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.client

FIRST_MS = 1_700_000_000_000
DRILL_TIMEOUT_S = 20 * TIMEOUT_S  # of any number of kills
Write = Callable[..., None]


@pytest.fixture
def write(broker: Broker, topic: str) -> Write:
    """Append a frame to the test's topic."""

    def write(frame: "DataFrame", **more: str) -> None:
        options = {"kafka.bootstrap.servers": broker.address, "topic": topic}
        frame.write.format("polylog").mode("append").options(**options | more).save()

    return write


def numbered(spark: "SparkSession", count: int, tasks: int) -> "DataFrame":
    """Return rows with different keys and values."""
    return spark.range(0, count, 1, tasks).selectExpr(
        "binary(concat('k', id)) AS key", "binary(concat('v', id)) AS value"
    )


def expected(count: int) -> Counter[tuple[bytes, bytes]]:
    return Counter((b"k%d" % each, b"v%d" % each) for each in range(count))


def contents(address: str, topic: str, *, is_settled: bool = True) -> Counter[Any]:
    found = read_committed(address, topic, is_settled=is_settled)
    return Counter((each.key, each.value) for each in found)


def test_a_row_is_written_as_a_record_byte_for_byte(
    spark: "SparkSession", broker: Broker, fill: Callable[..., None], topic: str, write: Write
) -> None:
    fill(topic, partitions=5)
    rows = [
        (None, b"\x00\xff", None, None, FIRST_MS),
        (b"k", None, [("a", b"1"), ("a", None)], None, FIRST_MS + 1),
        (b"", b"", [], None, FIRST_MS + 2),
        (b"k", b"v", None, 4, FIRST_MS + 3),
    ]
    frame = spark.createDataFrame(
        rows,
        "key binary, value binary, headers array<struct<key: string, value: binary>>,"
        " partition int, ms bigint",
    ).selectExpr("key", "value", "headers", "partition", "timestamp_millis(ms) AS timestamp")

    write(frame.coalesce(1))

    found = {each.timestamp: each for each in read_committed(broker.address, topic)}
    for key, value, headers, partition, timestamp in rows:
        record = found[timestamp]
        assert (record.key, record.value) == (key, value)
        assert record.headers == tuple(headers or ())
        if partition is not None or key is not None:
            keyed = codec.partition(key or b"", 5)
            assert record.partition == (keyed if partition is None else partition)


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ("value AS payload", {}, "no column 'value'|'payload'"),
        ("length(value) AS value", {}, "'value' is int"),
        ("value", {"topic": "nowhere"}, "no topic named 'nowhere'"),
        ("value", {"topik": "t"}, "did you mean topic"),
        ("value", {"delivery": "exactly-once"}, "writeId"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_before_the_job(
    spark: "SparkSession",
    fill: Callable[..., None],
    broker: Broker,
    topic: str,
    write: Write,
    columns: str,
    options: dict[str, str],
    complaint: str,
) -> None:
    fill(topic, partitions=1)

    with pytest.raises(Exception, match=complaint):
        write(numbered(spark, 10, 1).selectExpr(columns), **options)

    assert read_committed(broker.address, topic) == []


def test_a_job_repeated_with_its_write_id_writes_only_what_is_missing(
    spark: "SparkSession", broker: Broker, fill: Callable[..., None], topic: str, write: Write
) -> None:
    fill(topic, partitions=3)
    once = {"delivery": "exactly-once", "writeId": topic}
    frame = numbered(spark, 10_000, 2)

    # Task 1 fails after its first rows: it is aborted, task 0 stays.
    broken = frame.selectExpr(
        "key", "if(key = binary('k9999'), binary(raise_error('broken')), value) AS value"
    )
    with pytest.raises(Exception, match="broken"):
        write(broken, **once)
    there = contents(broker.address, topic)
    assert there <= expected(10_000)
    assert b"k9999" not in {key for key, _ in there}
    write(frame, **once)
    assert contents(broker.address, topic) == expected(10_000)
    write(frame, **once)
    assert contents(broker.address, topic) == expected(10_000)


@pytest.mark.parametrize("tasks", [{}, {"tasks": "2"}])
def test_a_repeated_job_with_another_plan_is_refused(
    spark: "SparkSession",
    broker: Broker,
    fill: Callable[..., None],
    topic: str,
    write: Write,
    tasks: dict[str, str],
) -> None:
    fill(topic, partitions=1)
    once = {"delivery": "exactly-once", "writeId": topic}
    write(numbered(spark, 100, 2), **once, **tasks)

    with pytest.raises(Exception, match="MarkerMismatch"):
        write(numbered(spark, 100, 3), **once, **({"tasks": "3"} if tasks else {}))

    if tasks:
        assert contents(broker.address, topic) == expected(100)


def test_a_broker_killed_during_a_job_loses_and_duplicates_no_record(
    spark: "SparkSession",
    start_broker: Callable[..., BrokerProcess],
    topic: str,
) -> None:
    broker = start_broker()
    create_topic(Cluster([parse_address(broker.address)]), topic, 3)
    options = {
        "kafka.bootstrap.servers": broker.address,
        "topic": topic,
        "delivery": "exactly-once",
        "writeId": topic,
        "maxRowsPerSecondPerTask": "5000",
    }
    log = broker.data_dir / f"{topic}-0"

    def kill() -> None:
        wait_until(
            lambda: sum(each.stat().st_size for each in log.glob("*.log")) > 0,
            "the first records are written",
            60,
        )
        broker.kill()
        broker.start()

    killing = threading.Thread(target=kill)
    killing.start()
    # Sessions belong to threads: the job is this one's.
    numbered(spark, 20_000, 2).write.format("polylog").mode("append").options(**options).save()
    killing.join(60)

    assert len((broker.stderr()).split("all partitions loaded")) > 1  # it was started again
    assert contents(broker.address, topic) == expected(20_000)


@pytest.mark.slow("starts Spark again for each kill")
@pytest.mark.timeout(DRILL_TIMEOUT_S)
def test_a_killed_stream_writes_every_record_once(
    spark: "SparkSession",
    broker: Broker,
    fill: Callable[..., None],
    kills: Callable[[Sequence[str], int], list[str]],
    topic: str,
    tmp_path: Path,
) -> None:
    places = kills(sink_driver.PLACES, 2)
    # A run begins with the batch in which the previous one died, and dies in the next.
    count = (len(places) + 2) * sink_driver.BATCH_OFFSETS
    source, target = f"{topic}-from", f"{topic}-to"
    fill(
        source,
        [(n % 2, b"k%d" % n, b"v%d" % n, [], FIRST_MS + n) for n in range(count)],
        partitions=2,
    )
    fill(target, partitions=3)
    where = broker.address, source, target, str(tmp_path / "checkpoint")

    for batch, place in enumerate(places, start=1):
        run_until_killed(sink_driver, *where, place, batch)
        before = contents(broker.address, target, is_settled=False)
        assert before <= expected(count)
        assert 0 < before.total() < count
    assert sink_driver.start(spark, *where).awaitTermination(TIMEOUT_S)

    assert contents(broker.address, target) == expected(count)
