"""The files of a log, read only: for programs that never start a broker.

A partition is a folder `TOPIC-PARTITION` of segments, Kafka's files as well as ours, and may be
read while its broker goes on writing:

    >>> from broker import segments
    >>> log = segments.open(folder)
    >>> log.topic, log.partition, log.base_offsets
    ('orders', 0, (0, 190, 380))

It is read in chunks of whole batches, numpy arrays that decode_columns of broker.codec takes:

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

What a reader may rely on:

- Chunks end before the first bytes that are no whole batch: the zeros of a reserved tail, a batch
  that is being written or was torn by a crash. The headers say where; the CRC of the last batch is
  checked, those of the others are for the decoder to check.
- With `end_offset`, the high watermark of a broker or of a snapshot, nothing behind it is returned,
  and a log that ends before it is an error. Without it, a chunk may hold records that are not yet
  durable.
- An index is a hint. An entry is believed when it points to the batch that it names; without such
  an entry the headers are read from the start of the segment.
- A view stays valid when the segment is closed or its file removed: the mapping goes with the last
  of its views, and the space on the disk with it.

What remains: chunks are views of the file's own pages. A log only grows, but for what a recovery or
a follower cuts off, and for tools that write over its files. Who touches a page that was cut off
while a view of it was alive ends with SIGBUS. The file's size is looked at before every chunk, so
only a cut after that can do it; `copy=True` rules that out too: it reads into memory of its own,
for about a millisecond per 8 MiB.

What DeleteRecords has hidden may still be in the files: `start_offset` leaves it out.

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

    Only names are read. Files are opened when they are needed: a log of a thousand segments takes
    one descriptor at a time.

    Raises:
        FileNotFoundError: no such folder or file.
        ValueError: no segment in the folder, or a file that is not named `<20 digits>.log`.
        Unsupported: numpy is not installed.
    """
    return Log(Path(path))
