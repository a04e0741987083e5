"""Reads the files of a log without a broker.

A partition is a folder `TOPIC-PARTITION` of segments, written by Kafka or by this broker. It may be
read while its broker is running:

    >>> from broker import segments
    >>> log = segments.open(folder)
    >>> log.topic, log.partition, log.base_offsets
    ('orders', 0, (0, 190, 380))

It is read in chunks of whole batches, numpy arrays for `broker.codec.decode_columns`:

    >>> with segments.open(folder) as log:
    ...     [
    ...         (chunk.base_offset, chunk.next_offset, chunk.data.size)
    ...         for chunk in log.chunks(15_000)
    ...     ]
    [(0, 140, 14714), (140, 190, 5255), (190, 330, 14714), (330, 380, 5255), (380, 500, 12612)]

and a batch is found by an offset or by a time, over all segments:

    >>> log.locate(163)
    Batch(segment=0, position=16816, size=1051, base_offset=160, last_offset=169, max_timestamp=16)
    >>> log.locate_time(25).base_offset
    250
    >>> log.locate(500) is None
    True

Guarantees:

- Chunks end before the first bytes that are no whole batch: the zeros of a preallocated tail, or a
  batch that is being written or was torn by a crash. This is decided by the headers; the CRC of the
  last batch is checked, and the decoder checks those of the others.
- With `end_offset`, the high watermark of a broker or of a snapshot, nothing from there on is
  returned, and a log that ends before it is an error. Without it, a chunk may have records that are
  not yet durable.
- An index is a hint. An entry is used when it matches the batch that it points to; without such an
  entry the headers are read from the start of the segment.
- A view stays valid when the segment is closed or its file removed: the mapping is released with
  the last of its views, and so is the space on the disk.

Limits: chunks are views of the file's pages. A log only grows, except when a recovery or a follower
truncates it, or a tool overwrites its files. Access to a page that was truncated while a view of it
existed ends the process with SIGBUS. The file's size is read before every chunk, so only a later
truncation can cause that; `copy=True` avoids it: it reads into separate memory, which takes about a
millisecond per 8 MiB.

Records that DeleteRecords has removed may still be in the files: `start_offset` excludes them.

numpy is imported when a log is opened, not before.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.segments.file import Batch
from broker.segments.index import OFFSET_ENTRY, TIME_ENTRY
from broker.segments.log import Log
from broker.segments.segment import CHUNK_BYTES, Chunk, End, Segment

if TYPE_CHECKING:
    from os import PathLike

__all__: Final = [
    "CHUNK_BYTES",
    "OFFSET_ENTRY",
    "TIME_ENTRY",
    "Batch",
    "Chunk",
    "End",
    "Log",
    "Segment",
    "open",
]


def open(path: "str | PathLike[str]") -> Log:  # noqa: A001 - broker.segments.open, as gzip.open
    """Open a partition's folder, or one `.log` file as a log of one segment.

    Only names are read. Files are opened when they are needed: a log of a thousand segments needs
    only one descriptor at a time.

    Raises:
        FileNotFoundError: no such folder or file.
        ValueError: no segment in the folder, or a file that is not named `<20 digits>.log`.
        Unsupported: numpy is not installed.
    """
    return Log(Path(path))
