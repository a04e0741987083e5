"""Both connectors over TLS, logged in by SCRAM, with the least ACLs that they run with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from broker.model.errors import ConfigError
from tests.compatibility.java import spark_connector
from tests.compatibility.programs import UnavailableError
from tests.pipeline.queries import Query
from tests.support.application_acls import application_acls, removals
from tests.support.locked_broker import LISTENER, LockedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

ROWS = 100
STOCK, OURS = "kafka", "polylog"
NAMES = {STOCK: "Spark's Kafka", OURS: "Spark, this project's"}
SINK, SINK_RIGHTS = "Spark, this project's sink, exactly once", 6
Connect = Callable[..., dict[str, str]]


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBroker]:
    """Start the broker."""
    broker = LockedBroker(tmp_path_factory.mktemp("locked"))
    broker.start()
    yield broker
    broker.stop()
    broker.check()


@pytest.fixture
def connect(locked: LockedBroker) -> Connect:
    """Return the options of a new user with the ACLs of applications, perhaps without one."""

    def connect(
        user: str, *applications: str, without: int | None = None, **names: str
    ) -> dict[str, str]:
        acls = [
            each
            for name in applications
            for each in application_acls(name, f"User:{user}", **names)
        ]
        if without is not None:
            del acls[without]
        password = locked.create_user(user, acls)
        security = locked.java_properties(user, password)
        given = {"bootstrap.servers": locked.of_listener[LISTENER], **security}
        return {f"kafka.{name}": text for name, text in given.items()}

    return connect


@pytest.fixture(params=[STOCK, OURS])
def source(request: pytest.FixtureRequest, spark: "SparkSession") -> str:
    """Return the format of a connector, which the session has."""
    format_name: str = request.param
    if format_name == STOCK:
        try:
            spark_connector.find()
        except UnavailableError as error:
            pytest.skip(str(error))
    return format_name


def rows(spark: "SparkSession", count: int = ROWS) -> "DataFrame":
    """Return rows to write."""
    return spark.range(count).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS value")


def values(frame: "DataFrame") -> list[int]:
    """Return the values of a topic, sorted."""
    return sorted(int(bytes(row["value"])) for row in frame.select("value").collect())


@pytest.mark.slow("runs a query of Spark for each connector, and some that are refused")
def test_a_connector_writes_and_reads_with_the_least_rights(
    locked: LockedBroker,
    connect: Connect,
    spark: "SparkSession",
    source: str,
    topic: str,
    tmp_path: Path,
) -> None:
    locked.create_topics(topic, partitions=2)
    reader = connect(f"{topic}-r", f"{NAMES[source]} source", input=topic)
    writer = connect(f"{topic}-w", f"{NAMES[source]} sink", output=topic)

    rows(spark).write.format(source).options(**writer, topic=topic).mode("append").save()
    frame = spark.read.format(source).options(**reader, subscribe=topic).load()
    assert values(frame) == [*range(ROWS)]
    query = Query(spark, reader | {"subscribe": topic}, tmp_path)
    query.run(source=source)
    assert len(query.places()) == ROWS
    # Neither may do what the other does.
    with pytest.raises(Exception, match=r"(?i)authoriz"):
        rows(spark).write.format(source).options(**reader, topic=topic).mode("append").save()
    with pytest.raises(Exception, match=r"(?i)authoriz"):
        spark.read.format(source).options(**writer, subscribe=topic).load().collect()


def test_the_exactly_once_sink_writes_with_the_least_rights(
    locked: LockedBroker, connect: Connect, spark: "SparkSession", topic: str
) -> None:
    locked.create_topics(topic, partitions=2)
    given = connect(f"{topic}-x", SINK, **sink_names(topic)) | sink_options(topic)
    reader = connect(f"{topic}-r", f"{NAMES[OURS]} source", input=topic)

    for _ in range(2):  # the second is recognized and writes nothing
        rows(spark).repartition(2).write.format(OURS).options(**given).mode("append").save()

    committed = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    assert values(spark.read.format(OURS).options(**reader, **committed).load()) == [*range(ROWS)]


@pytest.mark.slow("runs a query of Spark that is refused")
def test_the_exactly_once_sink_stops_without_any_of_its_rights(
    locked: LockedBroker,
    connect: Connect,
    spark: "SparkSession",
    topic: str,
    choices: Random,
    pytestconfig: pytest.Config,
) -> None:
    for place in removals(SINK_RIGHTS, choices, pytestconfig):
        name = f"{topic}-{place}"
        locked.create_topics(name, partitions=2)
        given = connect(f"{name}-x", SINK, without=place, **sink_names(name))
        given |= sink_options(name)

        with pytest.raises(Exception, match=r"(?i)authoriz"):
            rows(spark).write.format(OURS).options(**given).mode("append").save()

        reader = connect(f"{name}-r", f"{NAMES[OURS]} source", input=name)
        committed = {"subscribe": name, "kafka.isolation.level": "read_committed"}
        assert values(spark.read.format(OURS).options(**reader, **committed).load()) == []


def sink_names(topic: str) -> dict[str, str]:
    """Return the names of a job that writes to a topic."""
    return {"output": topic, "writeId": f"{topic}-job", "markerTopic": f"{topic}-markers"}


def sink_options(topic: str) -> dict[str, str]:
    """Return the options of such a job."""
    names = sink_names(topic)
    del names["output"]
    return {"topic": topic, "delivery": "exactly-once", "tasks": "2", **names}


@contextmanager
def log_of(spark: "SparkSession") -> Iterator[Callable[[], str]]:
    """Yield what returns the lines that Spark's JVM has logged since, of the level DEBUG too."""
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    core = log4j.core
    lines = jvm.java.io.StringWriter()
    layout = core.layout.PatternLayout.createDefaultLayout()
    root = log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
    name = "the lines of a test"
    appender = core.appender.WriterAppender.createAppender(layout, None, lines, name, False, False)
    appender.start()
    root.addAppender(appender, log4j.Level.DEBUG, None)
    spark.sparkContext.setLogLevel("DEBUG")
    try:
        yield lines.toString
    finally:
        spark.sparkContext.setLogLevel("WARN")
        root.removeAppender(name)
        appender.stop()


def test_no_password_is_in_plans_errors_or_logs(
    locked: LockedBroker,
    connect: Connect,
    spark: "SparkSession",
    topic: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    locked.create_topics(topic)
    given = connect(f"{topic}-r", f"{NAMES[OURS]} source", input=topic) | {"subscribe": topic}
    line = "kafka.sasl.jaas.config"
    wrong = given | {line: given[line].replace("secret of", "secret for")}
    broken = given | {line: "the secret of no module"}
    said: list[object] = []

    with log_of(spark) as logged:
        frame = spark.read.format(OURS).options(**given).load()
        frame.explain(extended=True)
        frame.collect()
        Query(spark, given, tmp_path).run()
        for options, expected in ((wrong, "refuses"), (broken, "JAAS")):
            with pytest.raises(Exception, match=expected) as refused:
                spark.read.format(OURS).options(**options).load().collect()
            said.append(refused.value)
        said.append(logged())

    assert "Parsing command" in logged()  # which DEBUG only has
    said += [*capfd.readouterr(), locked.stderr(), locked.stdout()]
    said += [each.read_bytes() for each in (tmp_path / "checkpoint").rglob("*") if each.is_file()]
    assert not [each for each in map(str, said) if "the secret" in each]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"kafka.security.protocol": "SSLL"}, "expected one of PLAINTEXT, SSL"),
        ({"kafka.ssl.truststore.type": "JKS"}, "expected PEM"),
        ({"kafka.sasl.mechanism": "GSSAPI"}, "expected one of PLAIN, SCRAM"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_before_anything_is_connected(
    spark: "SparkSession", changed: dict[str, str], expected: str
) -> None:
    given = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "subscribe": "t",
    }
    with pytest.raises(Exception, match=expected) as refused:
        spark.read.format(OURS).options(**given | changed).load().collect()
    assert isinstance(refused.value, ConfigError) or "ConfigError" in str(refused.value)
