"""Cheap generated rows written to topics: our sink and Spark's own."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.end_to_end.targets import BenchmarkError
from benchmarks.spark import filling
from benchmarks.spark.rows import KAFKA, OURS, PARTITIONS, Environment, Job, Row

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
    is_by_rows: bool = False  # Spark's batches are limited by rows only


def rows(environment: Environment) -> Iterator[Row]:
    """Yield a row for each sink; all write the same rows to the same number of partitions."""
    has_kafka = KAFKA in environment.brokers
    sinks = [
        _Sink("sink", OURS),
        _Sink("sink exactly-once", OURS, is_exactly_once=True),
        _Sink("sink, keys", OURS, has_keys=True),
        _Sink("sink, by rows", OURS, is_by_rows=True),
    ]
    if has_kafka:
        sinks += [_Sink("sink on Kafka", OURS, KAFKA)]
    if environment.has_stock:
        sinks += [_Sink("stock sink", KAFKA), _Sink("stock sink, keys", KAFKA, has_keys=True)]
    if environment.has_stock and has_kafka:
        sinks += [_Sink("stock sink on Kafka", KAFKA, KAFKA)]
    for each in sinks:
        yield Row(
            each.name, environment.records["small"], partial(_ready, environment, each), each.broker
        )


@contextmanager
def _ready(environment: Environment, sink: _Sink) -> Iterator[Job]:
    name, records = f"written-{uuid.uuid4().hex}", environment.records["small"]
    address = environment.address(sink.broker)
    filling.make(address, name, PARTITIONS)
    options = environment.options(sink.broker) | {"topic": name}
    if sink.is_exactly_once:
        options |= {"delivery": "exactly-once", "writeId": name, "tasks": str(PARTITIONS)}
    frame = _frame(environment, records, has_keys=sink.has_keys)

    def job() -> None:
        frame.write.format(sink.kind).options(**options).mode("append").save()

    if sink.is_by_rows:
        environment.spark.conf.set(_BATCH_BYTES, _ANY)
    try:
        yield job
        found = filling.written(address, name, PARTITIONS)
        ends = (
            PARTITIONS * PARTITIONS if sink.is_exactly_once else 0
        )  # a control record of each task in each partition
        if not records <= found <= records + ends:
            raise BenchmarkError(f"{sink.name}: wrote {found} of {records} rows")
    finally:
        environment.spark.conf.unset(_BATCH_BYTES)
        filling.delete(address, name)


def _frame(environment: Environment, records: int, *, has_keys: bool) -> "DataFrame":
    from pyspark.sql.functions import lit  # noqa: PLC0415 - PySpark is imported with its session

    numbers = environment.spark.range(0, records, 1, PARTITIONS)
    value = lit(_VALUE).alias("value")
    if not has_keys:
        return numbers.select(value)
    return numbers.select(numbers.id.cast("string").cast("binary").alias("key"), value)
