"""One task of an archive: writes a range of offsets to Parquet files by the record's day (UTC).

    date=2026-11-22/part-00003-00000000000000012345-<hex>.parquet

A record without a timestamp (null) has the date 1969-12-31. Names sort by partition and first
offset, and records are in the order of their offsets within a file. When a task returns its files,
the files and their directory entries are durable, so a commit may name them.
"""

import datetime as dt
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from broker._native.kernel import file_ops
from broker.client.fetch import Range, fetch
from broker.client.metadata import Cluster
from broker.pipeline.decoding import Decoder, Selection
from broker.pipeline.limits import ARCHIVE_FILES_OPEN
from broker.pipeline.schema import ALL_COLUMNS, arrow_schema, ddl

# The rows that a task returns to the driver, as a schema of Spark: an ArchivedFile each.
COLUMNS: Final = (
    "path string, date string, rows bigint, size bigint, partition int, first_offset bigint,"
    " last_offset bigint"
)
_DAY_US: Final = 86_400_000_000
_NO_TIMESTAMP_US: Final = -1_000
_EPOCH: Final = dt.date(1970, 1, 1)
SCHEMA: Final = arrow_schema(ddl(ALL_COLUMNS))
PARQUET: Final = {
    "compression": "zstd",
    "use_dictionary": ["topic", "partition", "timestampType"],
}
_SELECTION: Final = Selection(tuple(ALL_COLUMNS))


class ArchivedFile(NamedTuple):
    """A complete file; path is relative, date in ISO format, size in bytes."""

    path: str
    date: str
    rows: int
    size: int
    partition: int
    first_offset: int
    last_offset: int


class _OpenFile:
    """A file that is being written."""

    def __init__(self, folder: Path, date: str, partition: int, first_offset: int) -> None:
        name = f"part-{partition:05}-{first_offset:020}-{uuid.uuid4().hex}.parquet"
        path = f"date={date}/{name}"
        self._file = ArchivedFile(path, date, 0, 0, partition, first_offset, first_offset)
        self._target = folder / path
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._stream = pa.OSFile(str(self._target), "wb")
        self._writer = pq.ParquetWriter(self._stream, SCHEMA, **PARQUET)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append records."""
        self._writer.write_batch(batch)
        self._file = self._file._replace(
            rows=self._file.rows + batch.num_rows, last_offset=batch.column("offset")[-1].as_py()
        )

    @property
    def size(self) -> int:
        """The bytes written so far."""
        return int(self._stream.tell())

    def close(self) -> ArchivedFile:
        """Finish the file and sync it to the disk.

        Raises:
            StorageError: the disk has failed.
        """
        self._writer.close()
        size = self.size
        self._stream.close()
        file_ops.sync_file(self._target)
        return self._file._replace(size=size)


class FileWriter:
    """Writes the files of one range."""

    def __init__(self, folder: Path, file_bytes: int) -> None:
        """Create a writer for a folder; a file is closed when it has file_bytes."""
        self._folder = folder
        self._file_bytes = file_bytes
        self._open: dict[str, _OpenFile] = {}  # by date, the one used last at the end
        self._closed: list[ArchivedFile] = []

    def write(self, cluster: Cluster, part: Range) -> pa.RecordBatch:
        """Write a range; return a row per file with the columns COLUMNS.

        Raises:
            RequestError, Unreachable, PeerError: an error, no answer, or an invalid answer of the
                broker.
            CodecError: the batches are damaged.
            StorageError: the disk has failed.
        """
        decoder = Decoder(part.topic, part.partition, _SELECTION)
        for chunk in fetch(cluster, part, is_committed=True):
            for batch in decoder.batches(chunk.data, chunk.start, part.end, chunk.aborted):
                self._add(batch, part.partition)
        for date in list(self._open):
            self._close(date)
        sync_folders(self._folder, [each.path for each in self._closed])
        rows = [each._asdict() for each in self._closed]
        return pa.RecordBatch.from_pylist(rows, arrow_schema(COLUMNS))

    def _add(self, batch: pa.RecordBatch, partition: int) -> None:
        times = batch.column("timestamp").cast(pa.int64()).fill_null(_NO_TIMESTAMP_US).to_numpy()
        days = times // _DAY_US
        for day in np.unique(days).tolist():
            rows = batch if (days == day).all() else batch.filter(pa.array(days == day))
            date = (_EPOCH + dt.timedelta(days=day)).isoformat()
            first = rows.column("offset")[0].as_py()
            file = self._open.pop(date, None) or self._new(date, partition, first)
            self._open[date] = file
            file.write(rows)
            if file.size >= self._file_bytes:
                self._close(date)

    def _new(self, date: str, partition: int, first_offset: int) -> _OpenFile:
        if len(self._open) >= ARCHIVE_FILES_OPEN:
            self._close(next(iter(self._open)))
        return _OpenFile(self._folder, date, partition, first_offset)

    def _close(self, date: str) -> None:
        self._closed.append(self._open.pop(date).close())


def sync_folders(folder: Path, paths: Iterable[str]) -> None:
    """Sync the folders of files, whose paths are relative to a folder.

    Raises:
        StorageError: the disk has failed.
    """
    parents = {(folder / each).parent for each in paths}
    for each in (*sorted(parents), *([folder] if parents else ())):
        file_ops.sync_folder(each)
