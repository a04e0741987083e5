"""A program with a stream from topic to topic, that kills itself -9 where it is told to.

    python sink_driver.py ADDRESS SOURCE TARGET CHECKPOINT KILL

KILL is "write" (a task has sent half of its rows), "commit" (all tasks have ended, Spark does not
know of it yet), each in batch 1, or "never". The whole group of processes dies at once: driver, JVM
and workers.
"""

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from broker.pipeline.session import session
from broker.pipeline.sink.stream import PolylogStreamWriter
from broker.pipeline.source.polylog import PolylogDataSource

BATCH_OFFSETS = "2000"
DRIVER = "SINK_DRIVER_PID"


class KillingWriter(PolylogStreamWriter):
    """The sink, until it is time."""

    kill = "never"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        is_it = context.getLocalProperty("streaming.sql.batchId") == "1"
        if self.kill == "write" and is_it and context.partitionId() == 1:
            iterator = dying(iterator)
        return super().write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if self.kill == "commit" and batchId == 1:
            die()
        super().commit(messages, batchId)


def dying(batches: Iterator[Any]) -> Iterator[Any]:
    """Half of the rows, and the time that it takes to send them."""
    first = next(batches)
    for start in range(0, first.num_rows // 2, 50):
        yield first.slice(start, 50)
    die()


def die() -> None:
    """Kill the driver and its JVM, then the workers: their daemon has made a group of its own."""
    os.killpg(os.getpgid(int(os.environ[DRIVER])), signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)


class KillingSource(PolylogDataSource):
    """The format, with that sink."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> KillingWriter:  # noqa: N802
        given = dict(self.options)
        kill = given.pop("kill")
        writer = KillingWriter(given, schema, overwrite)
        writer.kill = kill
        return writer


def main(address: str, source: str, target: str, checkpoint: str, kill: str) -> None:
    os.environ[DRIVER] = str(os.getpid())  # workers inherit it
    spark = session("local[2]", options={"spark.ui.showConsoleProgress": "false"})
    spark.dataSource.register(KillingSource)
    query = (
        spark.readStream.format("polylog")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", BATCH_OFFSETS)
        .load()
        .select("key", "value")
        .writeStream.format("polylog")
        .option("kafka.bootstrap.servers", address)
        .option("topic", target)
        .option("delivery", "exactly-once")
        .option("maxRowsPerSecondPerTask", "2000")
        .option("kill", kill)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
