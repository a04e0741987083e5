"""A program on a cluster of two executors, of which one dies in a read and one in a write.

    python -m tests.pipeline.cluster_driver ADDRESS SOURCE TARGET FOLDER

The first task that comes so far kills -9 the executor that it runs in, and leaves a file in FOLDER
that says so: `read` when half of its records are read, `written` when half of its rows are sent. It
prints the partition and offset of each record that it has read, as JSON.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from broker import pipeline
from broker.pipeline.options import Use
from broker.pipeline.schema import columns_of
from broker.pipeline.sink.writer import PolylogWriter
from broker.pipeline.source.batch import BatchReader
from broker.pipeline.source.polylog import PolylogDataSource
from broker.pipeline.source.settings import settings_of
from tests.pipeline.java_classes import java_options

MASTER = "local-cluster[2,1,1024]"
ROWS = 4_000
_OPTION = "folder"
_PIECE_ROWS = 50


class DyingSource(PolylogDataSource):
    """format("dying"): topics; the option `folder` says where killed executors are recorded."""

    def __init__(self, options: dict[str, str]) -> None:
        """Keep the options, except our own."""
        given = dict(options)
        self._folder = Path(given.pop(_OPTION))
        super().__init__(given)

    @classmethod
    def name(cls) -> str:
        return "dying"

    def reader(self, schema: StructType) -> DataSourceReader:
        reader = _Reader(settings_of(self._given, Use.READ), columns_of(schema))
        reader.death = self._folder / "read"
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        writer = _Writer(self._given, schema, overwrite)
        writer.death = self._folder / "written"
        return writer


class _Reader(BatchReader):
    death: Path

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            yield from _dying(batch, self.death)


class _Writer(PolylogWriter):
    death: Path

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 1:
            iterator = (piece for batch in iterator for piece in _dying(batch, self.death))
        return super().write(iterator)


def _dying(batch: Any, death: Path) -> Iterator[Any]:
    """Yield the rows of a batch in parts; after half of them, the first executor there dies."""
    half = batch.num_rows // 2
    for start in range(0, half, _PIECE_ROWS):
        yield batch.slice(start, min(_PIECE_ROWS, half - start))
    try:
        death.touch(exist_ok=False)
    except FileExistsError:
        yield batch.slice(half)
        return
    _kill_executor()


def _kill_executor() -> None:
    """Kill the JVM, which is the parent of our daemon, then the daemon and its workers."""
    status = Path("/proc", str(os.getppid()), "stat").read_text()
    jvm = int(status.rpartition(")")[2].split()[1])
    os.kill(jvm, signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)


def main(address: str, source: str, target: str, folder: str) -> None:
    spark = pipeline.session(
        MASTER,
        options={
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": " ".join(java_options()),
            "spark.driver.host": "127.0.0.1",
            "spark.executor.extraJavaOptions": " ".join(java_options()),
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        },
    )
    spark.dataSource.register(DyingSource)
    options = {"kafka.bootstrap.servers": address, _OPTION: folder}
    rows = spark.read.format("dying").options(**options, subscribe=source).load()
    print(json.dumps([[row.partition, row.offset] for row in rows.collect()]), flush=True)
    (
        spark.range(0, ROWS, 1, 2)
        .selectExpr("binary(concat('k', id)) AS key", "binary(concat('v', id)) AS value")
        .write.format("dying")
        .mode("append")
        .options(**options, topic=target, delivery="exactly-once", writeId=target)
        .option("maxRowsPerSecondPerTask", "2000")  # so that the first half is sent
        .save()
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
