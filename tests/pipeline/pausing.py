"""A source whose tasks stop after their first batch of rows until the test releases them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from broker.pipeline.options import Use
from broker.pipeline.schema import columns_of
from broker.pipeline.source.batch import BatchReader
from broker.pipeline.source.polylog import PolylogDataSource
from broker.pipeline.source.settings import settings_of
from broker.pipeline.source.stream import StreamReader
from tests.support.broker_process import BrokerProcess, wait_until

_OPTION = "pause"


class PausingSource(PolylogDataSource):
    """format("pausing"), option `pause` names a folder."""

    def __init__(self, options: dict[str, str]) -> None:
        """Keep the options, except our own."""
        given = dict(options)
        self._folder = Path(given.pop(_OPTION))
        super().__init__(given)

    @classmethod
    def name(cls) -> str:
        return "pausing"

    def reader(self, schema: StructType) -> DataSourceReader:
        reader = _Batch(settings_of(self._given, Use.READ), columns_of(schema))
        reader.folder = self._folder
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        reader = _Stream(settings_of(self._given, Use.STREAM), columns_of(schema))
        reader.folder = self._folder
        return reader


class _Batch(BatchReader):
    folder: Path

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from _paused(super().read(partition), self.folder)


class _Stream(StreamReader):
    folder: Path

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from _paused(super().read(partition), self.folder)


def _paused(batches: Iterator[Any], folder: Path) -> Iterator[Any]:
    for number, batch in enumerate(batches):
        yield batch
        if number == 0:
            (folder / "reached").touch()
            wait_until((folder / "go on").exists, "the test releases the task")


def restart_meanwhile(broker: BrokerProcess, folder: Path) -> None:
    """Kill the broker -9 when a task has stopped, start it again, and release the task."""
    wait_until((folder / "reached").exists, "a task has read some rows")
    broker.kill()
    broker.start()
    (folder / "go on").touch()
