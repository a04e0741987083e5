"""A Spark session for all tests, and topics filled by a client that is not ours."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker import pipeline
from broker.model.errors import Unsupported
from broker.pipeline.java import find_java
from tests.compatibility.java import spark_connector
from tests.compatibility.programs import UnavailableError
from tests.pipeline.java_classes import java_options
from tests.pipeline.rows import Row
from tests.support.broker_process import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR_TESTS = {"test_secured.py", "test_stock_connector.py"}


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["SparkSession"]:
    """A local session that knows the format, shared by all tests; it has its own tables.

    With the jars of Spark's own connector, where its tests are among those that run: jars cannot be
    added to a JVM that runs.
    """
    tables = tmp_path_factory.mktemp("tables")
    options = {"spark.sql.warehouse.dir": str(tables)}
    if any(each.path.name in CONNECTOR_TESTS for each in request.session.items):
        with suppress(UnavailableError):
            options["spark.jars"] = ",".join(map(str, spark_connector.find()))
    session = start_spark(**options)
    yield session
    session.stop()


def start_spark(**options: str) -> "SparkSession":
    """A local session for tests, with more settings; skips if none is available."""
    pytest.importorskip("pyspark")
    try:
        find_java()
    except Unsupported as error:
        pytest.skip(str(error))
    return local_session(java_options(), **options)


def local_session(java: Sequence[str], **options: str) -> "SparkSession":
    """A local session with these options of its JVM."""
    session = pipeline.session(
        "local[2]",
        options={
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.showConsoleProgress": "false",
            "spark.python.daemon.module": "tests.pipeline.warm_daemon",
            "spark.sql.python.filterPushdown.enabled": "true",
            "spark.driver.extraJavaOptions": " ".join(java),
        }
        | options,
    )
    pipeline.register(session)
    return session


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> Callable[[Sequence[str], int], list[str]]:
    """Select where the runs of a drill die: some in the suite, more by `--job-kills`."""
    asked: int | None = request.config.getoption("--job-kills")
    return lambda places, in_suite: list(islice(cycle(places), asked or in_suite))


@pytest.fixture
def fill(broker: Broker) -> Callable[..., None]:
    """Create a topic, if it does not exist, and produce rows to it."""
    admin = AdminClient({"bootstrap.servers": broker.address})

    def fill(
        topic: str, rows: Iterable[Row] = (), *, partitions: int | None = None, **settings: Any
    ) -> None:
        if partitions is not None:
            new = NewTopic(topic, num_partitions=partitions, replication_factor=1)
            admin.create_topics([new])[topic].result(10)
        # One request per partition at a time keeps the order; a pause lets batches fill.
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5, **settings})
        for partition, key, value, headers, timestamp in rows:
            producer.produce(topic, value, key, partition, headers=headers, timestamp=timestamp)
            producer.poll(0)
        assert producer.flush(20) == 0

    return fill


@pytest.fixture
def delete(broker: Broker) -> Callable[[str], None]:
    """Delete a topic."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    return lambda topic: admin.delete_topics([topic])[topic].result(10)


@pytest.fixture
def options(broker: Broker, topic: str) -> dict[str, str]:
    """Return the options of a read of the test's topic."""
    return {"kafka.bootstrap.servers": broker.address, "subscribe": topic}
