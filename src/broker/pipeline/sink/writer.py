"""The sink of batch jobs: df.write.format("polylog").mode("append").

The tasks do all the work, see task.py. Nothing remains to be done when all tasks have ended, and
nothing is undone when one has failed: the next attempts of the others find what they have
committed.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from broker.model.errors import ConfigError, MarkerMismatch, PeerError
from broker.pipeline.sink.columns import check_columns
from broker.pipeline.sink.identity import batch_of
from broker.pipeline.sink.options import SinkOptions
from broker.pipeline.sink.task import (
    check_brokers,
    write_at_least_once,
    write_exactly_once,
)
from broker.pipeline.worker import TaskCode, begin_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class Sink(TaskCode):
    """The common part of batch jobs and streams, with checked options and columns."""

    def __init__(
        self,
        options: Mapping[str, str],
        schema: "StructType",
        *,
        overwrites: bool,
        is_stream: bool,
    ) -> None:
        """Check everything that can be checked without a broker.

        Raises:
            ConfigError: an option is wrong, or the job would overwrite.
            SchemaMismatch: a column is wrong.
        """
        if overwrites and not is_stream:  # in a stream it means output mode complete
            raise ConfigError("a topic cannot be overwritten: use mode append")
        self.options = SinkOptions.of(options, is_stream=is_stream)
        self.tunes_worker = self.options.tunes_worker
        self.columns = {each.name: each.dataType.simpleString() for each in schema.fields}
        self.is_stream = is_stream
        check_columns(
            self.columns, self.options.topic, ignores_extra=self.options.ignores_extra_columns
        )
        if self.options.is_exactly_once and not is_stream:
            batch_of(self.options, self.columns, lambda _: None, is_stream=False)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Write the rows of the current task."""
        context = TaskContext.get()
        if context is None:
            raise PeerError("Spark has not set a task context")
        if self.options.tunes_worker:
            begin_task()
        task = context.partitionId()
        if self.options.is_exactly_once:
            batch = batch_of(
                self.options, self.columns, context.getLocalProperty, is_stream=self.is_stream
            )
            write_exactly_once(self.options, batch, task, iterator)
        else:
            write_at_least_once(self.options, task, iterator)
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: ARG002, N803
        """Check the number of tasks; their transactions are committed already.

        Nothing is to be done when a job fails: the next attempts of tasks find what is committed.

        Raises:
            MarkerMismatch: the option tasks has another number.
        """
        if self.options.is_exactly_once and self.options.tasks not in {None, len(messages)}:
            raise MarkerMismatch(
                f"the batch had {len(messages)} tasks, option tasks says {self.options.tasks}: use"
                f" .repartition({self.options.tasks}), or leave the option out"
            )


class PolylogWriter(Sink, DataSourceArrowWriter):
    """The sink of a batch job."""

    def __init__(self, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> None:  # noqa: FBT001
        """Check options, columns and brokers before the job starts.

        Raises:
            ConfigError, SchemaMismatch: as Sink.
            RequestError: there is no such topic.
            Unreachable: no broker answers.
        """
        super().__init__(options, schema, overwrites=overwrite, is_stream=False)
        check_brokers(self.options)
