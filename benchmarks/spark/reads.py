"""Reads into Spark's noop sink: our source, the ceiling, Spark's own source, files."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.spark.rows import KAFKA, OURS, PARTITIONS, TUNED, Place, Row, simple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OFFSET = "offset bigint"


def rows(place: Place, snapshot: Path) -> Iterator[Row]:
    """Yield every read; a snapshot holds our broker's files."""

    def row(name: str, topic: str, frame: Callable[[], "DataFrame"], broker: str = OURS) -> Row:
        def job() -> None:
            frame().write.format("noop").mode("overwrite").save()

        return Row(name, place.records[topic], simple(job), broker)

    def ceiling(topic: str, schema: str | None, size: int) -> "DataFrame":
        reader = place.spark.read.format("ceiling")
        reader = reader.options(rows=place.records[topic], tasks=PARTITIONS, size=size)
        return (reader.schema(schema) if schema else reader).load()

    def read(topic: str, schema: str | None = None, **options: str) -> "DataFrame":
        reader = place.spark.read.format(OURS).options(subscribe=topic, **options)
        return (reader.schema(schema) if schema else reader).load()

    ours, files = place.options(OURS), {"segments": str(snapshot)}
    yield row("ceiling", "small", lambda: ceiling("small", None, 100))
    yield row("topic", "small", lambda: read("small", **ours))
    yield row("ceiling, offset", "small", lambda: ceiling("small", _OFFSET, 100))
    yield row("topic, offset", "small", lambda: read("small", _OFFSET, **ours))
    yield row("ceiling, 1 KB", "large", lambda: ceiling("large", None, 1000))
    yield row("topic, 1 KB", "large", lambda: read("large", **ours))
    yield row("segments", "small", lambda: read("small", **files))
    yield row("segments, offset", "small", lambda: read("small", _OFFSET, **files))
    yield row("segments, 1 KB", "large", lambda: read("large", **files))
    if not place.has_stock:
        return
    yield row("stock, 1 KB", "large", lambda: stock(place, "large", OURS))
    for broker in place.brokers:
        where = " on Kafka" if broker == KAFKA else ""
        small = partial(stock, place, "small", broker)
        yield row(f"stock{where}", "small", small, broker)
        yield row(f"stock tuned{where}", "small", partial(small, **TUNED), broker)


def stock(place: Place, topic: str, broker: str, **more: str) -> "DataFrame":
    """Return a topic as Spark's own source reads it."""
    options = place.options(broker) | {"subscribe": topic} | more
    return place.spark.read.format(KAFKA).options(**options).load()
