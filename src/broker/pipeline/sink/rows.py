"""Divides rows of Spark by the partitions that they are written to.

A row goes to the partition in its partition column; if that is null or missing, to the partition of
its key, as in Kafka's clients. Rows without a key stay together: a piece of about half a record
batch goes to one partition, the next piece to the next one. If rows have a key, partition or topic
column, a piece is as large as a request, so that each partition gets a batch of a reasonable size.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from broker import codec
from broker.client.metadata import Partition
from broker.model.errors import SchemaMismatch

_CONTENT: Final = ("key", "value", "headers", "timestamp")
_ROUTING_COLUMNS: Final = frozenset({"key", "partition", "topic"})  # by which rows are distributed
_UINT16_MAX: Final = np.iinfo(np.uint16).max
_KEY_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


# Rows that are sent together, in the batches passed by Spark; none is empty.
Chunk = list[pa.RecordBatch]


class Part(NamedTuple):
    """The rows of a chunk for one partition, in order."""

    partition: Partition
    rows: pa.RecordBatch


class Partitioner:
    """Assigns rows to partitions."""

    def __init__(
        self, topic: str | None, partitions_of: Callable[[str], int], first_partition: int
    ) -> None:
        """Create a partitioner.

        Args:
            topic: of all rows; None: that of their column.
            partitions_of: returns the number of partitions of a topic.
            first_partition: the first partition of rows without a key, modulo the number of
                partitions.
        """
        self._topic = topic
        self._partitions_of = partitions_of
        self._next_partition = first_partition

    def pieces(self, chunk: Chunk, bytes_max: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk in pieces for `split`; small batches of Spark are joined.

        Args:
            chunk: as `chunks` yields it.
            bytes_max: the size of a piece for one partition.
        """
        if _ROUTING_COLUMNS & set(chunk[0].schema.names):
            yield _joined(chunk)
            return
        waiting: list[pa.RecordBatch] = []
        for batch in chunk:
            if waiting and sum(each.nbytes for each in waiting) + batch.nbytes > bytes_max:
                yield _joined(waiting)
                waiting = []
            count = -(-batch.nbytes // bytes_max)
            if count > 1:
                yield from _pieces(batch, -(-batch.num_rows // count))
            else:
                waiting.append(batch)
        if waiting:
            yield _joined(waiting)

    def split(self, chunk: pa.RecordBatch) -> Iterator[Part]:
        """Yield the rows of a piece by partition.

        Raises:
            SchemaMismatch: a row has no topic, or a partition that its topic does not have.
            RequestError: there is no such topic.
        """
        content = chunk.select([name for name in _CONTENT if name in chunk.schema.names])
        self._next_partition += 1
        if self._topic is not None:
            yield from self._split(self._topic, chunk, content)
            return
        topics = chunk.column("topic")
        if topics.null_count:
            raise SchemaMismatch(
                f"{topics.null_count} rows have no topic, and there is no option topic"
            )
        names = topics.unique().to_pylist()
        if len(names) == 1:
            yield from self._split(names[0], chunk, content)
            return
        for name in names:
            mask = pc.equal(topics, name)
            yield from self._split(name, chunk.filter(mask), content.filter(mask))

    def _split(self, topic: str, chunk: pa.RecordBatch, content: pa.RecordBatch) -> Iterator[Part]:
        count = self._partitions_of(topic)
        if not _ROUTING_COLUMNS & set(chunk.schema.names):
            yield Part((topic, self._next_partition % count), content)
            return
        numbers = self._numbers(topic, chunk, count)
        if count == 1:
            yield Part((topic, 0), content)
            return
        # numpy sorts 16-bit numbers by radix sort.
        narrow = numbers.astype(np.uint16) if count <= _UINT16_MAX else numbers
        order = np.argsort(narrow, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=count))
        sorted_rows = content.take(pa.array(order))
        start = 0
        for number, end in enumerate(ends.tolist()):
            if end > start:
                yield Part((topic, number), sorted_rows.slice(start, end - start))
            start = end

    def _numbers(
        self, topic: str, chunk: pa.RecordBatch, count: int
    ) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        names = chunk.schema.names
        if "key" in names:
            hashed = codec.partition_column(chunk.column("key"), count)
            numbers = np.asarray(hashed).copy()
            numbers[numbers < 0] = self._next_partition % count
        else:
            numbers = np.full(chunk.num_rows, self._next_partition % count, np.int32)
        if "partition" in names:
            column = chunk.column("partition")
            wanted = column.fill_null(-1).to_numpy(zero_copy_only=False)
            is_wrong = (wanted >= count) | ((wanted < 0) & column.is_valid().to_numpy(False))
            if is_wrong.any():
                raise SchemaMismatch(
                    f"a row has partition {wanted[is_wrong][0]}, but topic {topic!r} has"
                    f" {count}: 0 to {count - 1}"
                )
            numbers = np.where(wanted >= 0, wanted, numbers).astype(np.int32)
        return numbers


class Digest:
    """The number of rows, and a hash of their keys and values that ignores their order."""

    def __init__(self) -> None:
        """Create a digest of no rows."""
        self.rows = 0
        self._sum = 0

    def add(self, chunk: pa.RecordBatch) -> None:
        """Add rows."""
        self.rows += chunk.num_rows
        hashes = np.asarray(codec.xxh3_64_column(chunk.column("value")))
        if "key" in chunk.schema.names:
            keys = np.asarray(codec.xxh3_64_column(chunk.column("key")))
            hashes = hashes ^ (keys * _KEY_FACTOR)  # wraps around, as sums do
        self._sum = (self._sum + int(hashes.sum(dtype=np.uint64))) % (1 << 64)

    def hexdigest(self) -> str:
        """Return the hash of the rows added so far."""
        return f"{self._sum:016x}"


def chunks(
    batches: Iterator[pa.RecordBatch], *, bytes_max: int, rows_max: int | None
) -> Iterator[Chunk]:
    """Combine batches of Spark to chunks of the size of a request; none is empty.

    Args:
        batches: rows.
        bytes_max: the size at which a chunk ends.
        rows_max: the number of rows at which a chunk ends; None: no limit.
    """
    waiting: list[pa.RecordBatch] = []
    size = rows = 0
    for whole in batches:
        for batch in _pieces(whole, rows_max):
            waiting.append(batch)
            size += batch.nbytes
            rows += batch.num_rows
            if size >= bytes_max or (rows_max is not None and rows >= rows_max):
                yield waiting
                waiting, size, rows = [], 0, 0
    if waiting:
        yield waiting


def _pieces(batch: pa.RecordBatch, rows_max: int | None) -> Iterator[pa.RecordBatch]:
    step = rows_max or max(batch.num_rows, 1)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
