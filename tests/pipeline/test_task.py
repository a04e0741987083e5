"""Tasks of the sink against a real broker, without Spark."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from broker.client.admin import create_topic
from broker.client.metadata import Cluster
from broker.client.produce import Producer
from broker.client.transactions import Transactions
from broker.model.address import parse_address
from broker.model.errors import (
    ConfigError,
    ErrorCode,
    LimitExceeded,
    MarkerMismatch,
    RequestError,
    SchemaMismatch,
)
from broker.pipeline.sink.identity import Batch
from broker.pipeline.sink.marker_topic import prepare
from broker.pipeline.sink.options import SinkOptions
from broker.pipeline.sink.task import (
    Outcome,
    check_brokers,
    write_at_least_once,
    write_exactly_once,
)
from tests.pipeline.reading import read_committed
from tests.support.broker_process import Broker

pytestmark = pytest.mark.client

Options = Callable[..., SinkOptions]


@pytest.fixture
def cluster(broker: Broker) -> Cluster:
    return Cluster([parse_address(broker.address)])


@pytest.fixture
def options(broker: Broker, cluster: Cluster, topic: str) -> Options:
    """Options of a sink to the test's topic of three partitions, whose markers can be kept."""
    create_topic(cluster, topic, 3)

    def options(**more: str) -> SinkOptions:
        given = {
            "kafka.bootstrap.servers": broker.address,
            "topic": topic,
            "delivery": "exactly-once",
            "writeId": topic,
        }
        found = SinkOptions.of(given | more, is_stream=False)
        check_brokers(found)
        return found

    return options


def rows(*values: bytes | None) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def placed(value: bytes, partition: int) -> pa.RecordBatch:
    return pa.record_batch({"value": [value], "partition": pa.array([partition], pa.int32())})


def batch_of(topic: str, number: int = 0, tasks: int | None = 2, plan: str = "aa") -> Batch:
    return Batch(topic, number, tasks, plan)


def values(broker: Broker, topic: str) -> Counter[Any]:
    return Counter(each.value for each in read_committed(broker.address, topic))


def test_a_finished_task_is_skipped_when_it_is_run_again(
    broker: Broker, options: Options, topic: str
) -> None:
    batch = batch_of(topic)

    assert write_exactly_once(options(), batch, 0, iter([rows(b"a", b"b")])) == Outcome(2, False)
    assert write_exactly_once(options(), batch, 0, iter([rows(b"a", b"b")])) == Outcome(2, True)
    assert write_exactly_once(options(), batch, 1, iter([rows(b"c")])) == Outcome(1, False)

    assert values(broker, topic) == Counter([b"a", b"b", b"c"])


def test_the_next_batch_of_a_task_is_written(broker: Broker, options: Options, topic: str) -> None:
    for number in range(3):
        write_exactly_once(options(), batch_of(topic, number), 0, iter([rows(b"a")]))

    assert values(broker, topic) == Counter({b"a": 3})


@pytest.mark.parametrize(
    "other", [{"tasks": 3}, {"plan": "bb"}, {"number": 1, "plan": "bb"}, {"tasks": None}]
)
def test_a_task_of_another_plan_writes_nothing(
    broker: Broker, options: Options, topic: str, other: dict[str, Any]
) -> None:
    write_exactly_once(options(), batch_of(topic, 1), 0, iter([rows(b"a")]))

    with pytest.raises(MarkerMismatch):
        write_exactly_once(options(), batch_of(topic, **{"number": 1} | other), 1, iter([rows()]))
    with pytest.raises(MarkerMismatch):
        write_exactly_once(
            options(), batch_of(topic, **{"number": 1} | other), 1, iter([rows(b"b")])
        )

    assert values(broker, topic) == Counter([b"a"])


def test_a_task_beyond_the_planned_number_writes_nothing(
    broker: Broker, options: Options, topic: str
) -> None:
    with pytest.raises(MarkerMismatch, match="this is task 2"):
        write_exactly_once(options(), batch_of(topic), 2, iter([rows(b"a")]))

    assert values(broker, topic) == Counter()


@pytest.mark.parametrize("again", [rows(b"a", b"c"), rows(b"a"), rows()])
def test_where_tasks_are_not_counted_changed_rows_are_detected(
    broker: Broker, options: Options, topic: str, again: pa.RecordBatch
) -> None:
    batch = batch_of(topic, tasks=None)
    write_exactly_once(options(), batch, 0, iter([rows(b"a", b"b")]))

    with pytest.raises(MarkerMismatch, match="has written 2 rows"):
        write_exactly_once(options(), batch, 0, iter([again]))
    assert write_exactly_once(options(), batch, 0, iter([rows(b"b", b"a")])).was_done

    assert values(broker, topic) == Counter([b"a", b"b"])


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (placed(b"b", 9), SchemaMismatch),
        (placed(b"x" * 2_000_000, 0), LimitExceeded),
    ],
)
def test_a_row_that_cannot_be_written_aborts_its_task(
    broker: Broker, options: Options, topic: str, bad: pa.RecordBatch, error: type[Exception]
) -> None:
    slow = options(maxRowsPerSecondPerTask="1000")  # so the first rows are sent separately

    with pytest.raises(error):
        write_exactly_once(slow, batch_of(topic), 0, iter([*[placed(b"a", 1)] * 300, bad]))

    assert values(broker, topic) == Counter()  # at once: it was aborted and did not time out


def test_an_abandoned_attempt_can_write_nothing_more(
    broker: Broker, cluster: Cluster, options: Options, topic: str
) -> None:
    zombie = Transactions(cluster, f"{topic}-0", 60_000)
    producer = Producer(cluster, zombie.producer, zombie.transactional_id)
    zombie.add([(topic, 0)])
    producer.send({(topic, 0): producer.encode((topic, 0), rows(b"early"))})

    write_exactly_once(options(), batch_of(topic), 0, iter([rows(b"a")]))

    with pytest.raises(RequestError) as caught:
        producer.send({(topic, 0): producer.encode((topic, 0), rows(b"late"))})
    assert caught.value.code in {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
    with pytest.raises(RequestError):
        zombie.end(is_committed=True)
    assert values(broker, topic) == Counter([b"a"])


def test_with_at_least_once_rows_of_a_repeated_task_are_written_again(
    broker: Broker, options: Options, topic: str
) -> None:
    for _ in range(2):
        assert write_at_least_once(options(), 0, iter([rows(b"a"), rows(b"b")])).rows == 2

    assert values(broker, topic) == Counter([b"a", b"b"] * 2)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_requested(
    broker: Broker, options: Options, topic: str, compression: str
) -> None:
    wanted = options(**{"kafka.compression.type": compression})

    write_at_least_once(wanted, 0, iter([rows(*[b"a" * 100] * 50)]))

    assert values(broker, topic) == Counter({b"a" * 100: 50})


def test_a_marker_topic_with_retention_is_refused(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, 1, {"cleanup.policy": "delete"})

    with pytest.raises(ConfigError, match=r"cleanup\.policy=delete"):
        prepare(cluster, topic)


def test_a_deleted_marker_topic_is_not_recreated_by_a_task(options: Options, topic: str) -> None:
    gone = options()._replace(marker_topic=f"{topic}-gone")

    with pytest.raises(RequestError, match="no topic named"):
        write_exactly_once(gone, batch_of(topic), 0, iter([rows(b"a")]))
