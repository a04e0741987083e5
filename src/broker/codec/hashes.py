"""Checksums and hashes of one value, or of a whole column at a few nanoseconds per row.

    murmur2(b"key")                                  # int
    partition_column(table["key"], 12)               # int32 per row, from an Arrow column
    xxh3_64_column(Spans.of(columns, "value"))       # uint64 per row, from decode_columns

A column of values is one of three:

- Spans: starts and lengths over one buffer;
- a pyarrow Array or ChunkedArray of binary or string, or another library's series with the Arrow
  PyCapsule interface, read in place, slices included; strings are hashed as UTF-8;
- any iterable of bytes-like objects, None for null. Slower, because every row is an object.

The result is a read-only `Column`: `numpy.asarray(column)` and `memoryview(column)` share its
memory. numpy is not imported, pyarrow only for an Arrow column. For the XXH3 of a single value use
the `xxhash` package: its `xxh3_64_intdigest` returns the same numbers.
"""

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from broker._native.kernel.checksum import crc32, crc32c
from broker._native.records.column import Column
from broker._native.records.column_source import ColumnSource
from broker._native.records.hash_columns import (
    MURMUR2,
    PARTITION,
    XXH3_64,
    hash_objects,
    hash_sources,
    murmur2,
    partition,
)
from broker.codec.packages import import_optional

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

    from broker.codec.columns import Columns

__all__ = [
    "Spans",
    "crc32",
    "crc32c",
    "murmur2",
    "murmur2_column",
    "partition",
    "partition_column",
    "xxh3_64_column",
]


class Spans(NamedTuple):
    """A column of values in one buffer, each given by its position and length.

    Attributes:
        data: the bytes that the spans point into.
        start: int32, shape (n,): the position of a value's first byte.
        length: int32, shape (n,): its length in bytes; -1 is null, and its start is ignored.

    Example:
        >>> from array import array
        >>> keys = Spans(b"onetwo", array("i", [0, 3, 0]), array("i", [3, 3, -1]))
        >>> memoryview(murmur2_column(keys)).tolist() == [murmur2(b"one"), murmur2(b"two"), -1]
        True
    """

    data: "Buffer"
    start: "Buffer"
    length: "Buffer"

    @classmethod
    def of(cls, columns: "Columns", name: str) -> "Spans":
        """Return the spans of a decoded column: "key", "value", "header_key" or "header_value".

        Raises:
            KeyError: the column was not decoded.
        """
        start, length = columns.column(f"{name}_start"), columns.column(f"{name}_length")
        return cls(columns.data, start, length)


class ArrowColumn(Protocol):
    """A column with the Arrow PyCapsule interface: pyarrow, pandas, Polars, ..."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return its chunks."""


Values: TypeAlias = "Spans | ArrowColumn | Iterable[Buffer | None]"


def murmur2_column(keys: Values) -> Column:
    """Return the murmur2 hash of every key, as `murmur2` does of one: int32, shape (n,); null: -1.

    Raises:
        ValueError: a span or Arrow offset outside of its data, or arrays of different lengths.
        TypeError: neither a column of bytes nor an iterable of bytes or None.
        Unsupported: an Arrow column, and pyarrow is not installed.

    Example:
        >>> memoryview(murmur2_column([b"abc", None])).tolist()
        [479470107, -1]
    """
    return _hashes(MURMUR2, keys)


def partition_column(keys: Values, partitions: int) -> Column:
    """Return the partition of every key, as `partition` does of one: int32, shape (n,).

    The partition of a null key is -1: as in Kafka's producer, the sender may choose one. It should
    stay with one partition until a batch is full.

    Raises:
        ValueError: fewer than 1 or more than 2**31 - 1 partitions, or as `murmur2_column`.
        TypeError, Unsupported: as `murmur2_column`.

    Example:
        >>> memoryview(partition_column([b"abc", b"", None], 12)).tolist()
        [3, 9, -1]
    """
    return _hashes(PARTITION, keys, partitions)


def xxh3_64_column(values: Values) -> Column:
    """Return XXH3 (64 bits, seed 0) of every value: uint64, shape (n,); null: 0.

    The same numbers as `xxhash.xxh3_64_intdigest(value)`. A value may hash to 0 as well: only
    lengths or the validity of the values tell which rows are null.

    Raises:
        ValueError, TypeError, Unsupported: as `murmur2_column`.

    Example:
        >>> [f"{value:016x}" for value in memoryview(xxh3_64_column([b"abc", b"", None]))]
        ['78af5f94892f3950', '2d06800538d394c2', '0000000000000000']
    """
    return _hashes(XXH3_64, values)


def _hashes(kind: int, values: Values, partitions: int = 1) -> Column:
    if isinstance(values, Spans):
        return hash_sources(kind, (_span_source(values),), partitions)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        import_optional("pyarrow", "hashes of Arrow columns")
        from broker.codec import arrow_source  # noqa: PLC0415 - half a second, only for Arrow input

        return hash_sources(kind, tuple(arrow_source.content_sources(values)), partitions)
    return hash_objects(kind, values, partitions)


def _span_source(spans: Spans) -> ColumnSource:
    source = ColumnSource(len(memoryview(spans.length)))
    source.spans("key", spans.data, spans.start, spans.length)
    return source
