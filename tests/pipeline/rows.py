"""Rows to fill topics with, and how librdkafka and Spark read them."""

from contextlib import closing
from datetime import UTC
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.broker_process import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIRST_MS = 1_700_000_000_000
# The produced record: its partition, key, value and headers, and its timestamp in ms.
Row = tuple[int, bytes | None, bytes | None, list[tuple[str, str | bytes | None]], int]


def some(count: int, partitions: int = 3, value_size: int = 100) -> list[Row]:
    """Rows with and without keys, values and headers."""
    rows: list[Row] = []
    for each in range(count):
        headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % each), ("empty", b"")]
        rows.append(
            (
                each % partitions,
                b"key %d" % each if each % 3 else None,
                bytes([each % 256]) * (each % value_size) if each % 7 else None,
                headers[: each % 3],
                FIRST_MS + each,
            )
        )
    return rows


def produce_small_batches(address: str, topic: str, count: int) -> None:
    """Produce to a topic of one partition, so that a read of it takes many requests."""
    producer = Producer({"bootstrap.servers": address, "batch.num.messages": 50})
    for each in range(count):
        producer.produce(topic, b"%d" % each * 20, partition=0)
        producer.poll(0)
    assert producer.flush(20) == 0


def commit_and_abort_in_turns(address: str, topic: str, transactions: int, records: int) -> None:
    """Write transactions to partition 0; the first is committed, the second aborted, and so on."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": topic})
    producer.init_transactions(20)
    for turn in range(transactions):
        producer.begin_transaction()
        for each in range(records):
            producer.produce(topic, b"%d-%d" % (turn, each), partition=0)
        producer.flush(20)
        (producer.abort_transaction if turn % 2 else producer.commit_transaction)(20)


def consumed(address: str, topic: str, isolation: str = "read_uncommitted") -> list[Any]:
    """Return what librdkafka reads of a topic, in the order of partitions and offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "oracle",
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    rows, left = [], set(partitions)

    def is_at_the_end() -> bool:
        # It waits for that many, however few there are.
        for message in consumer.consume(1000, 0.1):
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(message.partition())
                continue
            kind, timestamp = message.timestamp()
            rows.append(
                (
                    message.key(),
                    message.value(),
                    message.topic(),
                    message.partition(),
                    message.offset(),
                    timestamp,
                    kind - 1,
                    message.headers(),
                )
            )
        return not left

    with closing(consumer):
        wait_until(is_at_the_end, f"all of {topic} is read", 60)
    return sorted(rows, key=lambda row: row[3:5])


def collected(frame: "DataFrame") -> list[Any]:
    """Return the rows of a frame with all columns, in the form of `consumed`."""
    return sorted(
        (
            (
                None if row["key"] is None else bytes(row["key"]),
                None if row["value"] is None else bytes(row["value"]),
                row["topic"],
                row["partition"],
                row["offset"],
                round(row["timestamp"].astimezone(UTC).timestamp() * 1000),
                row["timestampType"],
                None
                if row["headers"] is None
                else [(each["key"], bytes(each["value"])) for each in row["headers"]],
            )
            for row in frame.collect()
        ),
        key=lambda row: row[3:5],
    )


def places(frame: "DataFrame") -> dict[int, list[int]]:
    """Return the offsets of a frame by partition, ascending."""
    found: dict[int, list[int]] = {}
    for row in frame.select("partition", "offset").collect():
        found.setdefault(row["partition"], []).append(row["offset"])
    return {each: sorted(offsets) for each, offsets in sorted(found.items())}
