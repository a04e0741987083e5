"""Records of an Arrow table, read in place: only columns that need another type are copied.

The columns have the names of Spark's Kafka sink and source. Each chunk is a source of its own.
This module imports pyarrow, so others import it only inside of the functions that get a table.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

import pyarrow as pa
from pyarrow import types

from broker._native.records.column_source import ColumnSource

_UNITS_PER_MS: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_SIZES: Final = {"i": 4, "q": 8}
# Types with offsets into one contiguous buffer, and types that are cast to binary first.
_PLAIN: Final = (types.is_binary, types.is_string, types.is_large_binary, types.is_large_string)
_CASTABLE: Final = (
    types.is_binary_view,
    types.is_string_view,
    types.is_fixed_size_binary,
    types.is_null,
)


def column_sources(table: Any) -> Iterator[ColumnSource]:  # noqa: ANN401 - any Arrow table
    """Yield the rows of a RecordBatch, a Table or another library's frame.

    Raises:
        TypeError: a column has a type that its part of a record cannot have.
        ValueError: there is no column named value.
    """
    for batch in _batches(table):
        if batch.num_rows:
            yield _column_source(batch)


def content_sources(column: Any) -> Iterator[ColumnSource]:  # noqa: ANN401 - any Arrow array
    """Yield the "key" columns of the chunks of an Array, ChunkedArray or another library's series.

    Raises:
        TypeError: the column has neither bytes nor strings.
    """
    # pyarrow's own objects are used as they are: Arrow's C interface does not have buffer sizes.
    if isinstance(column, pa.Array):
        chunks = [column]
    elif isinstance(column, pa.ChunkedArray):
        chunks = column.chunks
    elif hasattr(column, "__arrow_c_stream__"):
        chunks = pa.chunked_array(column).chunks
    else:
        chunks = [pa.array(column)]
    for chunk in chunks:
        source = ColumnSource(len(chunk))
        _put_content(source, "key", chunk)
        yield source


def _batches(table: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
    if isinstance(table, pa.RecordBatch):
        yield table
    elif isinstance(table, pa.Table):
        yield from table.to_batches()
    elif hasattr(table, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(table)
    else:
        yield pa.record_batch(table)


def _column_source(batch: pa.RecordBatch) -> ColumnSource:
    source = ColumnSource(batch.num_rows)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if "value" not in columns:
        raise ValueError(f"no column named value, only {', '.join(columns) or 'none at all'}")
    for name in ("key", "value"):
        if name in columns:
            _put_content(source, name, columns[name])
    if "timestamp" in columns:
        _put_timestamps(source, columns["timestamp"])
    if "headers" in columns:
        _put_headers(source, columns["headers"])
    if "offset" in columns:
        _put_offsets(source, columns["offset"])
    return source


def _put_content(source: ColumnSource, name: str, array: pa.Array) -> None:
    is_dictionary = types.is_dictionary(array.type)
    kind = array.type.value_type if is_dictionary else array.type
    if is_dictionary or not any(is_plain(kind) for is_plain in _PLAIN):
        if not any(is_castable(kind) for is_castable in (*_PLAIN, *_CASTABLE)):
            raise TypeError(f"{name}: expected a column of binary or string, got {array.type}")
        array = array.cast(pa.binary())
    is_large = types.is_large_binary(array.type) or types.is_large_string(array.type)
    validity, ends, data = array.buffers()
    source.ends(
        name,
        data,
        _numbers(ends, "q" if is_large else "i", array.offset, len(array) + 1),
        validity=validity,
        validity_first=array.offset,
    )


def _put_headers(source: ColumnSource, array: pa.Array) -> None:
    kind = array.type
    if types.is_null(kind):
        return
    is_large = types.is_large_list(kind)
    if types.is_map(kind):
        keys, values = array.keys, array.items
    elif (is_large or types.is_list(kind)) and types.is_struct(kind.value_type):
        # flatten() gives a null struct a null key, which the encoder refuses.
        fields = dict(zip(kind.value_type.names, array.values.flatten(), strict=True))
        keys, values = fields.get("key"), fields.get("value")
    else:
        keys = values = None
    if keys is None or values is None:
        raise TypeError(f"headers: expected a list of struct<key, value> or a map, got {kind}")
    _put_content(source, "header_key", keys)
    _put_content(source, "header_value", values)
    validity, ends, *_ = array.buffers()
    source.header_lists(
        _numbers(ends, "q" if is_large else "i", array.offset, len(array) + 1),
        validity=validity,
        validity_first=array.offset,
    )


def _put_timestamps(source: ColumnSource, array: pa.Array) -> None:
    units = 1
    if types.is_timestamp(array.type):
        if array.type.unit == "s":
            array = array.cast(pa.timestamp("ms", array.type.tz))
        units = _UNITS_PER_MS[array.type.unit]
    elif not types.is_int64(array.type):
        raise TypeError(f"timestamp: expected timestamps or int64 ms, got {array.type}")
    validity, values = array.buffers()
    source.timestamps(
        _numbers(values, "q", array.offset, len(array)),
        units=units,
        validity=validity,
        validity_first=array.offset,
    )


def _put_offsets(source: ColumnSource, array: pa.Array) -> None:
    if not types.is_int64(array.type) or array.null_count:
        raise TypeError(f"offset: expected int64 without nulls, got {array.type}")
    source.offsets(_numbers(array.buffers()[1], "q", array.offset, len(array)))


def _numbers(
    buffer: pa.Buffer | None, kind: Literal["i", "q"], first: int, count: int
) -> "memoryview[int]":
    """Return a part of an array of int32 (i) or int64 (q).

    An array without rows may have no buffer, not even for its one offset; zeros stand in for it. A
    buffer that is too short for other reasons gives a shorter array, which ColumnSource refuses.
    """
    size = _SIZES[kind]
    if buffer is None or buffer.size == 0:
        return memoryview(bytes(size * min(count, 1))).cast(kind)
    own = memoryview(buffer)[size * first : size * (first + count)]
    return own[: len(own) // size * size].cast(kind)
