"""The sink of streams: df.writeStream.format("polylog").option("checkpointLocation", …)."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from broker.pipeline.sink.task import check_brokers
from broker.pipeline.sink.writer import Sink

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Spark creates a writer again to commit a batch, which needs no broker.
_COMMITS: Final = "pyspark.sql.worker.python_streaming_sink_runner"


class PolylogStreamWriter(Sink, DataSourceStreamArrowWriter):
    """The sink of a stream."""

    def __init__(self, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> None:  # noqa: FBT001
        """Check options, columns and brokers before the query starts; as PolylogWriter."""
        super().__init__(options, schema, overwrites=overwrite, is_stream=True)
        if _COMMITS not in sys.modules:
            check_brokers(self.options)
