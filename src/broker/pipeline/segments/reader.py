"""`spark.read.format("polylog").option("segments", DIR)`: the files of logs as a table.

    schema      the columns of a topic; with onCorrupt=row also `error string`, which is null except
                in a row for a range of unreadable offsets: its offset is the first of them
    partitions  a piece of a log each (planning.py)
    read        chunks → Arrow batches, or the error that ends the job (scan.py)

If only the columns topic and partition are read, rows are counted by batch headers: records and
CRCs are not read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from broker.model.errors import ConfigError, Corrupt
from broker.model.limits import PIPELINE_BATCH_ROWS, SCAN_CHUNK_BYTES
from broker.pipeline.decoding import Decoder, Selection
from broker.pipeline.options import Use, parse
from broker.pipeline.schema import (
    ALL_COLUMNS,
    OF_PARTITION,
    arrow_schema,
    columns_of,
    ddl,
    default_columns,
)
from broker.pipeline.segments import scan
from broker.pipeline.segments.planning import Piece, opened, pieces, stored_partitions
from broker.pipeline.segments.scan import Damage, ScanRange
from broker.pipeline.worker import begin_task
from broker.segments import Chunk, Log

if TYPE_CHECKING:
    import pyarrow as pa

ERROR: Final = "error"


class _Settings(NamedTuple):
    """The parsed options."""

    folder: Path
    topics: tuple[str, ...] | None
    pattern: re.Pattern[str] | None
    columns: tuple[str, ...]  # of a read without .schema(...)
    key_prefix: bytes | None
    is_committed: bool
    has_error_rows: bool
    bytes_per_task: int
    tunes_worker: bool

    def wants(self, topic: str) -> bool:
        """Return whether a topic is read."""
        if self.topics is not None:
            return topic in self.topics
        if self.pattern is not None:
            return self.pattern.search(topic) is not None
        return not topic.startswith("__")


def default_schema(given: Mapping[str, str]) -> str:
    """Return the columns of a read without .schema(...); raise ConfigError for bad options."""
    settings = _settings(given)
    error = f", {ERROR} string" if settings.has_error_rows else ""
    return ddl(settings.columns) + error


class SegmentReader(DataSourceReader):
    """Reads the files of a snapshot or of a data directory."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Check the options; nothing is opened yet.

        Raises:
            ConfigError: an invalid option or column.
        """
        self._settings = _settings(options)
        self._names = tuple(each.name for each in schema.fields)
        self._columns = columns_of([each for each in schema.fields if each.name != ERROR])
        if self._settings.has_error_rows != (ERROR in self._names):
            raise ConfigError(
                f"option onCorrupt=row and the column `{ERROR} string` go together: give both or"
                " neither"
            )

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks: pieces of logs, in order.

        Raises:
            ConfigError: the folder has no logs, or not all of the named topics.
            Corrupt: a manifest or an index of aborted transactions is damaged.
        """
        settings = self._settings
        found = stored_partitions(settings.folder, settings.wants)
        missing = set(settings.topics or ()) - {each.topic for each in found}
        if missing:
            raise ConfigError(
                f"{settings.folder}: no closed segment of {', '.join(map(repr, sorted(missing)))}"
            )
        return [
            InputPartition(piece)
            for each in found
            for piece in pieces(each, settings.bytes_per_task, is_committed=settings.is_committed)
        ]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the records of a piece.

        Raises:
            Corrupt: a batch is damaged, and onCorrupt is fail.
            SegmentGone: retention has deleted the segment.
        """
        piece: Piece | None = partition.value
        if piece is None:
            return  # Spark plans an empty partition if there is no task
        if self._settings.tunes_worker:
            begin_task()
        wanted = ScanRange(piece.start_offset, piece.end_offset, piece.aborted, piece.ends)
        selection = Selection(self._columns, keys=self._settings.key_prefix)
        decoder = Decoder(piece.topic, piece.partition, selection)
        with opened(Path(piece.folder)) as log:
            for each in self._found(log, piece, wanted, decoder):
                is_damage = isinstance(each, Damage)
                yield self._damaged(piece, each) if is_damage else self._with_error(each)

    def _found(
        self, log: Log, piece: Piece, wanted: ScanRange, decoder: Decoder
    ) -> "Iterator[pa.RecordBatch | Damage]":
        for chunk in scan.chunks(log, wanted, SCAN_CHUNK_BYTES):
            if isinstance(chunk, Damage):
                yield chunk
            elif (count := self._count(chunk, wanted)) is not None:
                yield from self._counted(piece, count)
            else:
                yield from scan.rows(log, chunk, wanted, decoder)

    def _count(self, chunk: Chunk, wanted: ScanRange) -> int | None:
        """Return the number of rows of a chunk by its headers; None: records must be read."""
        if self._settings.key_prefix is not None or not OF_PARTITION.issuperset(self._columns):
            return None
        return scan.count_by_headers(chunk, wanted)

    def _counted(self, piece: Piece, count: int) -> "Iterator[pa.RecordBatch]":
        """Yield a number of rows of columns that are equal in all records."""
        import pyarrow as pa  # noqa: PLC0415 - the driver does not need it

        schema = arrow_schema(ddl(self._columns))
        values = {"topic": piece.topic, "partition": piece.partition}
        while count > 0:
            some = min(count, PIPELINE_BATCH_ROWS)
            arrays = [pa.repeat(pa.scalar(values[each.name], each.type), some) for each in schema]
            yield pa.record_batch(arrays, schema=schema)
            count -= some

    def _with_error(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """Add a column of null errors if it is in the schema."""
        if ERROR not in self._names:
            return batch
        import pyarrow as pa  # noqa: PLC0415

        return batch.add_column(
            self._names.index(ERROR), ERROR, pa.nulls(batch.num_rows, pa.string())
        )

    def _damaged(self, piece: Piece, damage: Damage) -> "pa.RecordBatch":
        """Return the error row of a damaged range, or raise Corrupt."""
        where = f"{piece.folder}/{damage.segment:020}.log"
        if not self._settings.has_error_rows:
            raise Corrupt(
                f"{where}: {damage.reason}, offsets {damage.offset} to {damage.next_offset - 1} are"
                " lost; option onCorrupt=row reads the others",
                damage.position,
            )
        import pyarrow as pa  # noqa: PLC0415

        text = (
            f"{where} at byte {damage.position}: {damage.reason}; offsets {damage.offset} to"
            f" {damage.next_offset - 1} are lost"
        )
        row = {
            "topic": piece.topic,
            "partition": piece.partition,
            "offset": damage.offset,
            ERROR: text,
        }
        types = ALL_COLUMNS | {ERROR: "string"}
        schema = arrow_schema(", ".join(f"{name} {types[name]}" for name in self._names))
        return pa.RecordBatch.from_pylist([row], schema)


def _settings(given: Mapping[str, str]) -> _Settings:
    values = parse(given, Use.SEGMENTS)
    if values["subscribe"] is not None and values["subscribePattern"] is not None:
        raise ConfigError("options subscribe and subscribePattern: give one of them")
    pattern, prefix = values["subscribePattern"], values["keyPrefix"]
    return _Settings(
        Path(values["segments"]),
        values["subscribe"],
        pattern,
        values["columns"] or default_columns(has_headers=values["includeHeaders"]),
        None if prefix is None else prefix.encode(),
        values["kafka.isolation.level"] != "read_uncommitted",
        values["onCorrupt"] == "row",
        values["bytesPerTask"],
        values["tuneWorkers"],
    )
