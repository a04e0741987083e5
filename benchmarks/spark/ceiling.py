"""A data source with Arrow batches from memory and the columns of a topic: an upper bound.

Its tasks adjust the worker as those of our source do, see pipeline/worker.py.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from broker import codec
from broker.pipeline.decoding import Decoder, Selection
from broker.pipeline.schema import COLUMNS, columns_of, ddl
from broker.pipeline.worker import TaskCode, begin_task

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 65_000


class CeilingDataSource(TaskCode, DataSource):
    """Options: rows, tasks and size (of a value, in bytes)."""

    @classmethod
    def name(cls) -> str:
        """Return the name for format(...)."""
        return "ceiling"

    def schema(self) -> str:
        """Return the columns of a topic."""
        return ddl(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns of the schema."""
        rows, tasks, size = (int(self.options[each]) for each in ("rows", "tasks", "size"))
        return _Reader(columns_of(schema), rows, tasks, size)


class _Reader(DataSourceReader):
    def __init__(self, columns: tuple[str, ...], rows: int, tasks: int, size: int) -> None:
        self._columns = columns
        self._rows = rows
        self._tasks = tasks
        self._size = size

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(self._rows // self._tasks)] * self._tasks

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        begin_task()
        rows = min(_ROWS, (8 << 20) // (self._size + 10))
        data = b"".join(codec.encode([bytes(self._size)] * rows))
        decoder = Decoder("ceiling", 0, Selection(self._columns))
        [batch] = decoder.batches(memoryview(data), 0, rows)
        left = partition.value
        while left > 0:
            yield batch.slice(0, left)
            left -= rows
