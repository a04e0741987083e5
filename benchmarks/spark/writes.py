"""Rows that Spark makes at next to no cost, into topics: our sink and Spark's own."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.end_to_end.targets import BenchmarkError
from benchmarks.spark import filling
from benchmarks.spark.rows import KAFKA, OURS, PARTITIONS, Job, Place, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VALUE: Final = bytes(range(32, 132))
_BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_ANY: Final = str(2**31 - 1)


class _Sink(NamedTuple):
    name: str
    kind: str
    broker: str = OURS
    has_keys: bool = False
    is_exactly_once: bool = False
    is_by_rows: bool = False  # Spark makes batches of so many rows, whatever their bytes


def rows(place: Place) -> Iterator[Row]:
    """Yield every sink; all write the same rows into as many partitions."""
    has_kafka = KAFKA in place.brokers
    sinks = [
        _Sink("sink", OURS),
        _Sink("sink exactly-once", OURS, is_exactly_once=True),
        _Sink("sink, keys", OURS, has_keys=True),
        _Sink("sink, by rows", OURS, is_by_rows=True),
    ]
    if has_kafka:
        sinks += [_Sink("sink on Kafka", OURS, KAFKA)]
    if place.has_stock:
        sinks += [_Sink("stock sink", KAFKA), _Sink("stock sink, keys", KAFKA, has_keys=True)]
    if place.has_stock and has_kafka:
        sinks += [_Sink("stock sink on Kafka", KAFKA, KAFKA)]
    for each in sinks:
        yield Row(each.name, place.records["small"], partial(_ready, place, each), each.broker)


@contextmanager
def _ready(place: Place, sink: _Sink) -> Iterator[Job]:
    name, records = f"written-{uuid.uuid4().hex}", place.records["small"]
    address = place.address(sink.broker)
    filling.make(address, name, PARTITIONS)
    options = place.options(sink.broker) | {"topic": name}
    if sink.is_exactly_once:
        options |= {"delivery": "exactly-once", "writeId": name, "tasks": str(PARTITIONS)}
    frame = _frame(place, records, has_keys=sink.has_keys)

    def job() -> None:
        frame.write.format(sink.kind).options(**options).mode("append").save()

    if sink.is_by_rows:
        place.spark.conf.set(_BATCH_BYTES, _ANY)
    try:
        yield job
        found = filling.written(address, name, PARTITIONS)
        ends = PARTITIONS * PARTITIONS if sink.is_exactly_once else 0  # of each task, everywhere
        if not records <= found <= records + ends:
            raise BenchmarkError(f"{sink.name}: wrote {found} of {records} rows")
    finally:
        place.spark.conf.unset(_BATCH_BYTES)
        filling.delete(address, name)


def _frame(place: Place, records: int, *, has_keys: bool) -> "DataFrame":
    from pyspark.sql.functions import lit  # noqa: PLC0415 - PySpark is imported with its session

    numbers = place.spark.range(0, records, 1, PARTITIONS)
    value = lit(_VALUE).alias("value")
    if not has_keys:
        return numbers.select(value)
    return numbers.select(numbers.id.cast("string").cast("binary").alias("key"), value)
