"""The data source of the format "polylog": creates its readers and writers.

Spark pickles the data source and creates a reader from it for every plan, so it holds nothing but
the options.
"""

from collections.abc import Callable, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from broker.pipeline.options import Use, parse, table_options, tunes_worker
from broker.pipeline.schema import columns_of, ddl, default_columns
from broker.pipeline.source.settings import settings_of
from broker.pipeline.source.table import has_location, options_of, options_of_new, with_options
from broker.pipeline.versions import require_pyspark
from broker.pipeline.worker import TaskCode

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter

_SEGMENTS = "segments"


class PolylogDataSource(TaskCode, DataSource):
    """Topics of a broker, or with the option `segments` the files of its logs."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Create the data source with its options."""
        super().__init__(options)
        self._given = dict(options.items())
        self.tunes_worker = has_location(self._given) and tunes_worker(self._given)

    @classmethod
    def name(cls) -> str:
        """Return the name for format(...)."""
        return "polylog"

    def schema(self) -> str | StructType:
        """Return the columns of a read without .schema(...).

        Raises:
            ConfigError: invalid options; checked here, so that load() already reports them.
        """
        table = options_of_new(self._given)
        if table is not None:
            return with_options(_schema(_Given(table, is_table=True)), table)
        return _schema(_Given(self._given, is_table=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch with the columns of the schema."""
        given = self._of(schema)
        if given.reads_segments:
            segments: Callable[..., DataSourceReader] = _named("segments.reader", "SegmentReader")
            return segments(given.of(Use.SEGMENTS), schema)
        settings = settings_of(given.of(Use.READ), Use.READ)
        if settings.has_pushdown:
            require_pyspark("pushdown", (4, 1))
            kind: Callable[..., DataSourceReader] = _named("source.pushdown", "PushdownBatchReader")
        else:
            kind = _named("source.batch", "BatchReader")
        return kind(settings, columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the reader of a stream with the columns of the schema."""
        require_pyspark("reading a stream", (4, 2))
        given = self._of(schema)
        kind: Callable[..., DataSourceStreamReader] = _named("source.stream", "StreamReader")
        return kind(settings_of(given.of(Use.STREAM), Use.STREAM), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":  # noqa: FBT001
        """Return the writer of a batch."""
        kind: Callable[..., DataSourceWriter] = _named("sink.writer", "PolylogWriter")
        return kind(self._of(schema).of(Use.WRITE), schema, overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> "DataSourceStreamWriter":
        """Return the writer of a stream."""
        require_pyspark("writing a stream", (4, 1))
        kind: Callable[..., DataSourceStreamWriter] = _named("sink.stream", "PolylogStreamWriter")
        return kind(self._of(schema).of(Use.STREAM_WRITE), schema, overwrite)

    def _of(self, schema: StructType) -> "_Given":
        table = options_of(schema, self._given)
        given = _Given(self._given if table is None else table, is_table=table is not None)
        self.tunes_worker = tunes_worker(given.options)
        return given


class _Given(NamedTuple):
    """Options, and whether they belong to a table, which has one set for all uses."""

    options: dict[str, str]
    is_table: bool

    @property
    def reads_segments(self) -> bool:
        return any(each.lower() == _SEGMENTS for each in self.options)

    def of(self, use: Use) -> dict[str, str]:
        """Return the options for one use."""
        return table_options(self.options, use) if self.is_table else self.options


def _schema(given: _Given) -> str:
    if given.reads_segments:
        columns: Callable[..., str] = _named("segments.reader", "default_schema")
        return columns(given.of(Use.SEGMENTS))
    use = Use.READ | Use.STREAM
    values = parse(given.of(use), use)
    return ddl(values["columns"] or default_columns(has_headers=values["includeHeaders"]))


def _named(module: str, name: str) -> Any:  # noqa: ANN401 - typed where it is called
    """Import a class on first use, so that a task imports only what it needs."""
    return getattr(import_module(f"broker.pipeline.{module}"), name)
