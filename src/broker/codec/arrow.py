"""Columns as Arrow arrays: the schema of Spark's Kafka source, without copies where possible.

This module imports pyarrow, so others import it only inside of the functions that need Arrow.
"""

from collections.abc import Sized
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from broker._native.records.column import Column, gather, microseconds
from broker.model.errors import Corrupt

if TYPE_CHECKING:
    from typing_extensions import Buffer


class DecodedColumns(Sized, Protocol):
    """The columns of decoded batches, see broker.codec.columns.Columns."""

    data: "Buffer"
    arrays: dict[str, Column]
    arrow_memory: dict[str, dict[str, Column]]


def record_batch(
    columns: DecodedColumns, topic: str | None, partition: int | None
) -> pa.RecordBatch:
    """Return the decoded columns as Arrow, with topic and partition columns if they are given."""
    count = len(columns)
    fields: list[tuple[str, pa.Array]] = []
    if "key_start" in columns.arrays:
        fields.append(("key", _binary(columns, "key", pa.binary())))
    if "value_start" in columns.arrays:
        fields.append(("value", _binary(columns, "value", pa.binary())))
    if topic is not None:
        fields.append(("topic", pa.repeat(pa.scalar(topic, pa.string()), count)))
    if partition is not None:
        fields.append(("partition", pa.repeat(pa.scalar(partition, pa.int32()), count)))
    if "offset" in columns.arrays:
        fields.append(("offset", _numbers(columns, "offset", pa.int64())))
    if "timestamp" in columns.arrays:
        fields.append(("timestamp", _timestamps(columns)))
    if "timestamp_type" in columns.arrays:
        kinds = _numbers(columns, "timestamp_type", pa.int8()).cast(pa.int32())
        fields.append(("timestampType", kinds))
    if "header_end" in columns.arrays:
        fields.append(("headers", _headers(columns)))
    return pa.record_batch([array for _, array in fields], [name for name, _ in fields])


def _numbers(columns: DecodedColumns, name: str, kind: pa.DataType) -> pa.Array:
    column = columns.arrays[name]
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])


def _timestamps(columns: DecodedColumns) -> pa.Array:
    memory = columns.arrow_memory.setdefault("timestamp", {})
    scaled, validity, nulls = microseconds(columns.arrays["timestamp"], memory)
    memory["values"] = scaled
    buffers = [_present(memory, validity), pa.py_buffer(scaled)]
    return pa.Array.from_buffers(pa.timestamp("us", "UTC"), len(scaled), buffers, nulls)


def _binary(columns: DecodedColumns, name: str, kind: pa.DataType) -> pa.Array:
    """Copy the values that spans point to into one contiguous Arrow buffer."""
    start, length = columns.arrays[f"{name}_start"], columns.arrays[f"{name}_length"]
    memory = columns.arrow_memory.setdefault(name, {})
    offsets, values, validity, nulls = gather(columns.data, start, length, memory)
    memory["offsets"], memory["values"] = offsets, values
    buffers = [_present(memory, validity), pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, len(start), buffers, nulls)


def _present(memory: dict[str, Column], validity: Column | None) -> pa.Buffer | None:
    """Keep the bits of rows that are not null, if any is, and return them for Arrow."""
    if validity is None:
        return None
    memory["validity"] = validity
    return pa.py_buffer(validity)


def _headers(columns: DecodedColumns) -> pa.Array:
    names = _binary(columns, "header_key", pa.string())
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raise Corrupt("the name of a header is not UTF-8") from None
    values = _binary(columns, "header_value", pa.binary())
    each = pa.StructArray.from_arrays([names, values], ["key", "value"])
    ends = _numbers(columns, "header_end", pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    kind = pa.list_(pa.field("element", each.type))
    return pa.ListArray.from_arrays(offsets, each, type=kind)
