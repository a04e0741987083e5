"""A stream over topics: limits, restarts, and topics that change meanwhile."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tests.pipeline.pausing import PausingSource, restart_meanwhile
from tests.pipeline.queries import Query
from tests.pipeline.rows import produce_small_batches
from tests.support.broker_process import BrokerProcess, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.rows import Row

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]


@pytest.fixture
def query(spark: "SparkSession", options: dict[str, str], tmp_path: Path) -> Query:
    return Query(spark, options, tmp_path)


Fill = Callable[..., None]


def grow(fill: Fill, topic: str, count: int, partitions: int | None = None) -> None:
    """Produce that many records to each of three partitions."""
    rows: list[Row] = [(each % 3, None, bytes(100), [], 1) for each in range(3 * count)]
    fill(topic, rows, partitions=partitions)


def all_of(partitions: Iterable[int], offsets: Iterable[int]) -> list[tuple[int, int]]:
    offsets = list(offsets)
    return [(partition, offset) for partition in partitions for offset in offsets]


def test_a_restarted_query_continues_where_it_ended(topic: str, fill: Fill, query: Query) -> None:
    grow(fill, topic, 10, partitions=3)
    query.run()
    grow(fill, topic, 5)
    query.run()

    assert query.places() == all_of(range(3), range(15))


def test_a_query_begins_at_the_end_by_default(topic: str, fill: Fill, query: Query) -> None:
    grow(fill, topic, 10, partitions=3)
    query.run(startingOffsets="latest")
    grow(fill, topic, 5)
    query.run(startingOffsets="latest")

    assert query.places() == all_of(range(3), range(10, 15))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"subscribe": "nowhere"}, "no topic named 'nowhere'"),
        ({"endingOffsets": "latest"}, "option endingOffsets: only for read"),
    ],
)
def test_an_unreadable_topic_ends_a_query_before_its_first_batch(
    topic: str, fill: Fill, query: Query, more: dict[str, str], message: str
) -> None:
    grow(fill, topic, 1, partitions=3)

    with pytest.raises(Exception, match=message):
        query.run(**more)

    assert not list((query.checkpoint / "offsets").glob("[0-9]*"))


def test_a_trigger_has_at_most_the_given_number_of_rows(
    topic: str, fill: Fill, query: Query
) -> None:
    grow(fill, topic, 100, partitions=3)

    sizes = query.run(maxOffsetsPerTrigger="90")

    assert max(sizes) <= 93
    assert len(sizes) >= 4
    assert query.places() == all_of(range(3), range(100))


def test_a_trigger_has_approximately_the_given_number_of_bytes(
    topic: str, fill: Fill, query: Query
) -> None:
    grow(fill, topic, 1000, partitions=3)

    sizes = [each for each in query.run(maxBytesPerTrigger="100000") if each]

    assert 500 < max(sizes) < 1500  # of 100 bytes each and what a record takes beside
    assert query.places() == all_of(range(3), range(1000))


def test_a_few_records_wait_for_more_or_for_the_delay(topic: str, fill: Fill, query: Query) -> None:
    grow(fill, topic, 10, partitions=3)
    running = query.start(available_now=False, minOffsetsPerTrigger="1000", maxTriggerDelay="1h")

    def read() -> list[int]:
        return [each["numInputRows"] for each in running.recentProgress if each["numInputRows"]]

    wait_until(lambda: read() == [30], "the first trigger, which waits for nothing", 60)
    grow(fill, topic, 300)
    grow(fill, topic, 300)
    wait_until(lambda: sum(read()) >= 1000, "rows", 60)
    running.stop()

    assert min(read()[1:]) >= 1000


def test_a_running_query_reads_new_records_and_new_partitions(
    broker: Any, topic: str, fill: Fill, query: Query
) -> None:
    grow(fill, topic, 10, partitions=3)
    running = query.start(available_now=False)
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(10)
    fill(topic, [(3, None, b"new", [], 1)] * 7)
    wait_until(
        lambda: sum(each["numInputRows"] for each in running.recentProgress) >= 37, "rows", 60
    )
    running.stop()

    assert query.places() == [*all_of(range(3), range(10)), *all_of([3], range(7))]


def test_a_query_resumes_from_the_checkpoint_of_sparks_own_source(
    topic: str, fill: Fill, query: Query
) -> None:
    grow(fill, topic, 10, partitions=3)
    query.run()
    # The offsets that Spark's own source has written in place of ours.
    offsets = query.checkpoint / "offsets"
    [file] = [each for each in offsets.iterdir() if each.name == "0"]
    head = file.read_text().splitlines()[:-1]
    stock = json.dumps({topic: {"0": 10, "1": 4, "2": 10}}, separators=(",", ":"))
    file.write_text("\n".join([*head, stock]))
    for checksum in offsets.glob(".*.crc"):
        checksum.unlink()
    grow(fill, topic, 2)
    query.run()

    again = [(1, each) for each in range(4, 10)]
    assert query.places() == sorted([*all_of(range(3), range(12)), *again])
    assert query.offsets()["topics"][topic]["partitions"] == {"0": 12, "1": 12, "2": 12}
    assert len(query.offsets()["topics"][topic]["id"]) == 32


@pytest.mark.parametrize("size", [5, 20])
def test_a_recreated_topic_is_detected(
    topic: str, fill: Fill, delete: Callable[[str], None], query: Query, size: int
) -> None:
    grow(fill, topic, 10, partitions=3)
    query.run()
    delete(topic)
    grow(fill, topic, size, partitions=3)

    with pytest.raises(Exception, match=f"topic {topic} was deleted and recreated: its id was"):
        query.run()
    query.run(failOnDataLoss="false")
    assert query.places() == sorted([*all_of(range(3), range(10)), *all_of(range(3), range(size))])


def test_a_deleted_topic_is_detected(
    topic: str, fill: Fill, delete: Callable[[str], None], query: Query
) -> None:
    grow(fill, f"{topic}-stays", 10, partitions=3)
    grow(fill, topic, 10, partitions=3)
    both = f"{topic},{topic}-stays"
    query.run(subscribe=both)
    delete(topic)

    with pytest.raises(Exception, match=f"{topic}-0 was deleted"):
        query.run(subscribe=both)
    query.run(subscribe=both, failOnDataLoss="false")
    assert len(query.places()) == 60


def test_a_batch_planned_before_its_topic_was_deleted_is_skipped(
    topic: str, fill: Fill, delete: Callable[[str], None], query: Query
) -> None:
    grow(fill, topic, 10, partitions=3)
    query.run(startingOffsets="earliest")
    last = max(int(each.name) for each in (query.checkpoint / "commits").glob("[0-9]*"))
    for each in (query.checkpoint / "commits").glob("*"):
        each.unlink()  # as if the query had died in its first batch
    for number in range(1, last + 1):
        for each in (query.checkpoint / "offsets").glob(f"*{number}*"):
            each.unlink()
    delete(topic)

    with pytest.raises(Exception, match=f"no topic named '{topic}'"):
        query.run()
    query.run(failOnDataLoss="false")
    grow(fill, topic, 2, partitions=3)
    query.run(failOnDataLoss="false")
    assert len(query.places()) == 36  # what the first run had written still exists


def test_a_checkpoint_of_another_topic_is_an_error(topic: str, fill: Fill, query: Query) -> None:
    grow(fill, topic, 10, partitions=3)
    grow(fill, f"{topic}-2", 10, partitions=3)
    query.run()

    with pytest.raises(Exception, match=f"the checkpoint is of topics {topic}, the query reads"):
        query.run(subscribe=f"{topic}-2")


def test_records_deleted_by_retention_are_detected(
    broker: Any, topic: str, fill: Fill, query: Query
) -> None:
    grow(fill, topic, 10, partitions=3)
    query.run(maxOffsetsPerTrigger="12", startingOffsets="earliest")
    grow(fill, topic, 20)
    admin = AdminClient({"bootstrap.servers": broker.address})
    for each in admin.delete_records([TopicPartition(topic, 1, 15)]).values():
        each.result(10)

    with pytest.raises(Exception, match=f"{topic}-1: expected offset 10, there are 15 to 30"):
        query.run()
    query.run(failOnDataLoss="false")
    assert query.places() == [
        *all_of([0], range(30)),
        *all_of([1], [*range(10), *range(15, 30)]),
        *all_of([2], range(30)),
    ]


def test_a_query_waits_for_a_restarting_broker(
    spark: "SparkSession",
    topic: str,
    start_broker: Callable[..., BrokerProcess],
    tmp_path: Path,
) -> None:
    broker = start_broker()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": broker.address})
        for _ in range(50):
            producer.produce(topic, bytes(100))
        assert producer.flush(20) == 0

    produce()
    options = {"kafka.bootstrap.servers": broker.address, "subscribe": topic}
    query = Query(spark, options, tmp_path)
    running = query.start(available_now=False)

    def rows() -> int:
        return sum(each["numInputRows"] for each in running.recentProgress)

    wait_until(lambda: rows() == 50, "rows", 60)
    broker.kill()
    broker.start()
    produce()
    wait_until(lambda: rows() == 100 or not running.isActive, "rows after the restart", 60)
    running.stop()

    assert len(query.places()) == len(set(query.places())) == 100


def test_a_broker_killed_during_a_batch_loses_and_duplicates_no_row(
    spark: "SparkSession",
    topic: str,
    start_broker: Callable[..., BrokerProcess],
    tmp_path: Path,
) -> None:
    broker = start_broker()
    produce_small_batches(broker.address, topic, 2_000)
    spark.dataSource.register(PausingSource)
    options = {"kafka.bootstrap.servers": broker.address, "subscribe": topic}
    options |= {"kafka.max.partition.fetch.bytes": "10000", "pause": str(tmp_path)}
    query = Query(spark, options, tmp_path)

    running = query.start(available_now=True, source="pausing")
    restart_meanwhile(broker, tmp_path)
    assert running.awaitTermination(60)

    assert query.places() == all_of([0], range(2_000))
