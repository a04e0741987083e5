"""The sink of streams: df.writeStream.format("polylog").option("checkpointLocation", …)."""

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from broker.pipeline.sink.task import check_brokers
from broker.pipeline.sink.writer import Sink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# Spark creates a writer again to commit a batch, which needs no broker.
_COMMITS: Final = "pyspark.sql.worker.python_streaming_sink_runner"


class PolylogStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a stream."""

    def __init__(
        self,
        options: Mapping[str, str],
        schema: "StructType",
        overwrite: bool,  # noqa: FBT001
    ) -> None:
        """Check options, columns and brokers before the query starts; as PolylogWriter."""
        self._sink = Sink(options, schema, overwrites=overwrite, is_stream=True)
        if _COMMITS not in sys.modules:
            check_brokers(self._sink.options)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Write the rows of a task."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Check the number of tasks; their transactions are committed already."""
        self._sink.check_count(len(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: the next attempts of tasks find what is committed."""
