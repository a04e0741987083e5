"""Reads to Spark's noop sink: our source, the ceiling, Spark's own source, files."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.spark.rows import KAFKA, OURS, PARTITIONS, TUNED, Environment, Row, simple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OFFSET = "offset bigint"


def rows(environment: Environment, snapshot: Path) -> Iterator[Row]:
    """Yield a row for each read; a snapshot has our broker's files."""

    def row(name: str, topic: str, frame: Callable[[], "DataFrame"], broker: str = OURS) -> Row:
        def job() -> None:
            frame().write.format("noop").mode("overwrite").save()

        return Row(name, environment.records[topic], simple(job), broker)

    def ceiling(topic: str, schema: str | None, size: int) -> "DataFrame":
        reader = environment.spark.read.format("ceiling")
        reader = reader.options(rows=environment.records[topic], tasks=PARTITIONS, size=size)
        return (reader.schema(schema) if schema else reader).load()

    def read(topic: str, schema: str | None = None, **options: str) -> "DataFrame":
        reader = environment.spark.read.format(OURS).options(subscribe=topic, **options)
        return (reader.schema(schema) if schema else reader).load()

    ours, files = environment.options(OURS), {"segments": str(snapshot)}
    yield row("ceiling", "small", lambda: ceiling("small", None, 100))
    yield row("topic", "small", lambda: read("small", **ours))
    yield row("ceiling, offset", "small", lambda: ceiling("small", _OFFSET, 100))
    yield row("topic, offset", "small", lambda: read("small", _OFFSET, **ours))
    yield row("ceiling, 1 KB", "large", lambda: ceiling("large", None, 1000))
    yield row("topic, 1 KB", "large", lambda: read("large", **ours))
    yield row("segments", "small", lambda: read("small", **files))
    yield row("segments, offset", "small", lambda: read("small", _OFFSET, **files))
    yield row("segments, 1 KB", "large", lambda: read("large", **files))
    if not environment.has_stock:
        return
    yield row("stock, 1 KB", "large", lambda: stock(environment, "large", OURS))
    for broker in environment.brokers:
        where = " on Kafka" if broker == KAFKA else ""
        small = partial(stock, environment, "small", broker)
        yield row(f"stock{where}", "small", small, broker)
        yield row(f"stock tuned{where}", "small", partial(small, **TUNED), broker)


def stock(environment: Environment, topic: str, broker: str, **more: str) -> "DataFrame":
    """Return a topic read by Spark's own source."""
    options = environment.options(broker) | {"subscribe": topic} | more
    return environment.spark.read.format(KAFKA).options(**options).load()
