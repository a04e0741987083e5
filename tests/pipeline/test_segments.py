"""format("polylog") with the option segments, compared with what librdkafka reads."""

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from broker.pipeline.jobs import snapshot
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

StartBroker = Callable[..., BrokerProcess]
Row = tuple[Any, ...]
PARTITIONS = 2


def fill(broker: BrokerProcess, topic: str, count: int = 3_000) -> None:
    """Write records of every kind: compressed or not, aborted, with headers, without a key."""
    some = random.Random(topic.rpartition("-")[0])
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, PARTITIONS, segment_bytes="65536")
    kinds = ["none", "gzip", "lz4", "snappy", "zstd"]
    for number, kind in enumerate(kinds):
        options: dict[str, Any] = {"compression.type": kind, "linger.ms": 5}
        if number % 2:
            options |= {"transactional.id": f"{topic}-{number}"}
        producer = Producer({"bootstrap.servers": broker.address, **options})
        if number % 2:
            producer.init_transactions(20)
        for part in range(4):
            if number % 2:
                producer.begin_transaction()
            for each in range(count // 20):
                key = None if each % 5 == 0 else b"key %d" % some.randrange(50)
                value = None if each % 7 == 0 else some.randbytes(some.randrange(120))
                headers: Any = [("trace", b"%d" % each), ("empty", None)] if each % 3 == 0 else None
                producer.produce(topic, value, key, each % PARTITIONS, headers=headers)
            if number % 2 == 0:
                assert producer.flush(20) == 0
            elif part % 2:
                producer.abort_transaction(20)
            else:
                producer.commit_transaction(20)


def oracle(broker: BrokerProcess, topic: str, isolation: str = "read_committed") -> list[Row]:
    """Return (partition, offset, timestamp ms, key, value, headers) of every record."""
    options = {
        "bootstrap.servers": broker.address,
        "group.id": "oracle",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    rows: list[Row] = []
    with closing(Consumer(options)) as consumer:
        consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        ended: set[int | None] = set()
        while len(ended) < PARTITIONS:
            message = consumer.poll(20)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
                continue
            rows.append(
                (
                    message.partition(),
                    message.offset(),
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                    message.headers(),
                )
            )
    return sorted(rows, key=lambda row: row[:2])


def rows_of(frame: "DataFrame") -> list[Row]:
    """Return the same of a data frame."""
    found = frame.selectExpr(
        "partition", "offset", "unix_millis(timestamp) AS ms", "key", "value", "headers"
    ).collect()
    return sorted(
        (
            (
                row.partition,
                row.offset,
                row.ms,
                None if row.key is None else bytes(row.key),
                None if row.value is None else bytes(row.value),
                None
                if row.headers is None
                else [
                    (each.key, None if each.value is None else bytes(each.value))
                    for each in row.headers
                ],
            )
            for row in found
        ),
        key=lambda row: row[:2],
    )


def reading(spark: "SparkSession", folder: Path, **options: str) -> "DataFrame":
    return (
        spark.read.format("polylog")
        .option("segments", str(folder))
        .options(**{"bytesPerTask": "65536", **options})
        .load()
    )


@pytest.fixture
def taken(start_broker: StartBroker, tmp_path: Path, topic: str) -> tuple[BrokerProcess, Path]:
    """Return a broker with the topic and a snapshot of it."""
    broker = start_broker()
    fill(broker, topic)
    assert snapshot.create(tmp_path / "snapshot", broker.data_dir, broker.address).is_well
    return broker, tmp_path / "snapshot"


def test_a_snapshot_has_the_rows_that_librdkafka_reads(
    spark: "SparkSession", taken: tuple[BrokerProcess, Path], topic: str
) -> None:
    broker, folder = taken

    committed = reading(spark, folder, includeHeaders="true")
    levels = {"kafka.isolation.level": "read_uncommitted", "includeHeaders": "true"}
    everything = reading(spark, folder, **levels)

    assert rows_of(committed) == oracle(broker, topic)
    assert rows_of(everything) == oracle(broker, topic, "read_uncommitted")
    assert committed.rdd.getNumPartitions() > PARTITIONS
    assert committed.first().topic == topic  # type: ignore[union-attr]


def test_columns_can_be_selected_and_headers_counted(
    spark: "SparkSession", taken: tuple[BrokerProcess, Path], topic: str
) -> None:
    broker, folder = taken
    expected = oracle(broker, topic)

    counted = (
        spark.read.format("polylog")
        .option("segments", str(folder))
        .schema("partition int")
        .load()
        .groupBy("partition")
        .count()
        .collect()
    )
    keyed = reading(spark, folder, columns="offset,key", keyPrefix="key 1")

    assert {row.partition: row[1] for row in counted} == {
        each: sum(row[0] == each for row in expected) for each in range(PARTITIONS)
    }
    assert keyed.columns == ["offset", "key"]
    assert keyed.count() == sum((row[3] or b"").startswith(b"key 1") for row in expected)


def test_a_data_directory_is_read_up_to_its_active_segments_and_after_a_stop_to_the_end(
    spark: "SparkSession", taken: tuple[BrokerProcess, Path], topic: str
) -> None:
    broker, _ = taken
    expected = oracle(broker, topic)

    running = rows_of(reading(spark, broker.data_dir, subscribe=topic, includeHeaders="true"))
    broker.stop()
    stopped = rows_of(reading(spark, broker.data_dir, subscribe=topic, includeHeaders="true"))

    assert stopped == expected
    assert 0 < len(running) < len(expected)
    assert set(map(repr, running)) < set(map(repr, expected))


def harm(folder: Path) -> None:
    """Flip a byte in the middle of a segment."""
    file = max(folder.glob("*-0/*.log"), key=lambda each: each.stat().st_size)
    content = bytearray(file.read_bytes())
    content[30_000] ^= 0xFF
    file.unlink()  # a link: the broker's file must not change
    file.write_bytes(content)


def test_damage_fails_the_job_and_names_the_file(
    spark: "SparkSession", taken: tuple[BrokerProcess, Path]
) -> None:
    _, folder = taken
    harm(folder)

    with pytest.raises(Exception, match=r"\.log: .* are lost; option onCorrupt=row"):
        reading(spark, folder).collect()


def test_damage_is_returned_as_a_row_on_request(
    spark: "SparkSession", taken: tuple[BrokerProcess, Path], topic: str
) -> None:
    broker, folder = taken
    expected = oracle(broker, topic)
    harm(folder)

    frame = reading(spark, folder, onCorrupt="row", includeHeaders="true")
    damages = frame.where("error IS NOT NULL").collect()
    rows = rows_of(frame.where("error IS NULL"))

    assert frame.columns[-1] == "error"
    assert len(damages) == 1
    assert damages[0].topic == topic
    assert damages[0].partition == 0
    assert "are lost" in damages[0].error
    lost = [row for row in expected if row not in rows]
    assert lost
    assert lost[0][:2] == (0, damages[0].offset)
    assert rows == [row for row in expected if row not in lost]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"onCorupt": "row"}, "did you mean onCorrupt"),
        ({"onCorrupt": "ignore"}, "expected fail or row"),
        ({"startingOffsets": "latest"}, "startingOffsets: only for"),
        ({"subscribe": "nosuch"}, "no closed segment of 'nosuch'"),
        ({"bytesPerTask": "10"}, "10 bytes per task"),
        ({"columns": "values"}, "no column 'values'"),
    ],
)
def test_invalid_options_are_refused_before_a_task_runs(
    spark: "SparkSession", tmp_path: Path, options: dict[str, str], words: str
) -> None:
    from tests.support.segment_files import write_ascending  # noqa: PLC0415

    write_ascending(tmp_path)

    with pytest.raises(Exception, match=words):
        reading(spark, tmp_path, **options).collect()


def test_a_folder_without_logs_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"has no manifest\.json"):
        reading(spark, tmp_path).collect()


def test_a_schema_without_the_error_column_is_refused_if_errors_are_returned_as_rows(
    spark: "SparkSession", tmp_path: Path
) -> None:
    read = spark.read.format("polylog").option("segments", str(tmp_path))

    with pytest.raises(Exception, match="go together"):
        read.option("onCorrupt", "row").schema("offset bigint").load().collect()
