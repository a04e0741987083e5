"""A program with a stream from topic to topic, that kills itself -9 where it is told to.

    python -m tests.pipeline.sink_driver ADDRESS SOURCE TARGET CHECKPOINT PLACE BATCH

PLACE is "write" (a task has sent half of its rows) or "commit" (all tasks have ended, Spark does
not know of it yet), of the batch with this number.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from broker.pipeline.sink.stream import PolylogStreamWriter
from broker.pipeline.source.polylog import PolylogDataSource
from tests.pipeline.conftest import start_spark
from tests.pipeline.killing import die, remember_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PLACES = ("write", "commit")
BATCH_OFFSETS = 2_000


class KillingWriter(PolylogStreamWriter):
    """The unchanged sink, before the time to die."""

    place = ""
    batch = -1

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        is_it = context.getLocalProperty("streaming.sql.batchId") == str(self.batch)
        if self.place == "write" and is_it and context.partitionId() == 1:
            iterator = dying(iterator)
        return super().write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: N803
        if self.place == "commit" and batchId == self.batch:
            die()
        super().commit(messages, batchId)


def dying(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield half of the rows, and wait until they are sent."""
    first = next(batches)
    for start in range(0, first.num_rows // 2, 50):
        yield first.slice(start, 50)
    die()


class KillingSource(PolylogDataSource):
    """The format with that sink."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> KillingWriter:  # noqa: N802
        given = dict(self.options)
        place, batch = given.pop("place"), int(given.pop("batch"))
        writer = KillingWriter(given, schema, overwrite)
        writer.place, writer.batch = place, batch
        return writer


def start(
    spark: "SparkSession", address: str, source: str, target: str, checkpoint: str, **more: str
) -> "StreamingQuery":
    """Start the stream, from its checkpoint if there is one; it ends with the available records."""
    return (
        spark.readStream.format("polylog")
        .option("kafka.bootstrap.servers", address)
        .option("minPartitions", "2")  # one of two tasks dies
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(BATCH_OFFSETS))
        .load()
        .select("key", "value")
        .writeStream.format("polylog")
        .option("kafka.bootstrap.servers", address)
        .option("topic", target)
        .option("delivery", "exactly-once")
        .option("maxRowsPerSecondPerTask", "2000")
        .option("checkpointLocation", checkpoint)
        .options(**more)
        .trigger(availableNow=True)
        .start()
    )


def main(*arguments: str) -> None:
    remember_driver()
    spark = start_spark()
    spark.dataSource.register(KillingSource)
    *places, place, batch = arguments
    query = start(spark, *places, place=place, batch=batch)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
