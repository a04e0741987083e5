"""Records as columns: numbers and spans over one buffer, no object per record.

    columns = decode_columns(fetched)              # bytes of batches or of message sets
    columns.to_arrow(topic="clicks", partition=0)  # a pyarrow.RecordBatch
    columns.to_numpy()["offset"]                   # int64, one per record

Keys and values are not copied: a span is the position and length of one in `columns.data`. The
decoder stands in src/_native/records/column_decoder.pyx. numpy and pyarrow are imported when one
of them is asked for.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from broker._native.records import binary_column
from broker._native.records.column import Column
from broker._native.records.column_decoder import COLUMN_NAMES
from broker._native.records.column_decoder import decode_columns as _decode
from broker.codec.compression import decompress_into
from broker.codec.packages import needed
from broker.model.errors import Corrupt
from broker.model.limits import CODEC_BYTES_MAX

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from typing_extensions import Buffer

_DEFAULT: Final = ("offset", "timestamp", "key", "value")


class Columns:
    """The records of some bytes, as columns of the same length.

    Attributes:
        data: what the spans index: the input, or memory that its batches were unfolded to.
        end: the position in the input behind the last whole batch; what follows was cut short.
    """

    __slots__ = ("_arrays", "_arrow_memory", "_count", "data", "end")

    def __init__(self, count: int, end: int, data: "Buffer", arrays: dict[str, Column]) -> None:
        """Keep what the decoder returned."""
        self._count = count
        self.end = end
        self.data = data
        self._arrays = arrays
        self._arrow_memory: dict[str, dict[str, Column]] = {}

    def __len__(self) -> int:
        """Return the number of records."""
        return self._count

    def __repr__(self) -> str:
        """Return the number of records and the names of the columns."""
        return f"<Columns {self._count} records: {', '.join(self.names)}>"

    @property
    def names(self) -> list[str]:
        """The columns there are.

        offset int64; timestamp int64, ms; timestamp_type int8 (0 create time, 1 log append time,
        -1 none, in magic 0); key_start, key_length, value_start, value_length int32 (length -1:
        null). With headers: header_end int32, and one row per header in header_key_start,
        header_key_length, header_value_start, header_value_length; record i has the headers from
        header_end[i - 1] (0 for the first) to header_end[i].
        """
        return [name for name in self._arrays if name != "unfolded"]

    def column(self, name: str) -> Column:
        """Return one column, a buffer that numpy, pyarrow and memoryview read without a copy.

        Raises:
            KeyError: it was not asked for when the columns were decoded.
        """
        return self._arrays[name]

    def to_numpy(self) -> "dict[str, np.ndarray[Any, Any]]":
        """Return every column as a numpy array over the same memory; see `names` for the dtypes."""
        numpy = needed("numpy", "columns as numpy arrays")
        return {name: numpy.asarray(self._arrays[name]) for name in self.names}

    def to_arrow(self, topic: str | None = None, partition: int | None = None) -> "pa.RecordBatch":
        """Return the records as Spark's Kafka source has them, those columns that were decoded.

        key binary, value binary, topic string, partition int32, offset int64, timestamp
        timestamp[us, UTC], timestampType int32, headers list<struct<key string, value binary>>.
        Without a topic or partition, those two columns are left out. Keys, values and headers are
        copied, because Arrow wants their bytes in one run; offsets are not.

        Raises:
            LimitExceeded: the values have 2 GiB or more in all.
            Corrupt: the name of a header is not UTF-8.
        """
        arrow = needed("pyarrow", "columns as Arrow arrays")
        fields: list[tuple[str, pa.Array]] = []
        if "key_start" in self._arrays:
            fields.append(("key", self._binary("key", arrow.binary())))
        if "value_start" in self._arrays:
            fields.append(("value", self._binary("value", arrow.binary())))
        if topic is not None:
            fields.append(("topic", arrow.repeat(arrow.scalar(topic, arrow.string()), len(self))))
        if partition is not None:
            number = arrow.scalar(partition, arrow.int32())
            fields.append(("partition", arrow.repeat(number, len(self))))
        if "offset" in self._arrays:
            fields.append(("offset", self._numbers("offset", arrow.int64())))
        if "timestamp" in self._arrays:
            fields.append(("timestamp", self._timestamps()))
        if "timestamp_type" in self._arrays:
            kinds = self._numbers("timestamp_type", arrow.int8())
            fields.append(("timestampType", kinds.cast(arrow.int32())))
        if "header_end" in self._arrays:
            fields.append(("headers", self._headers()))
        return arrow.record_batch([array for _, array in fields], [name for name, _ in fields])

    def _numbers(self, name: str, kind: "pa.DataType") -> "pa.Array":
        import pyarrow as pa  # noqa: PLC0415

        column = self._arrays[name]
        return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])

    def _timestamps(self) -> "pa.Array":
        import pyarrow as pa  # noqa: PLC0415

        memory = self._arrow_memory.setdefault("timestamp", {})
        scaled = binary_column.microseconds(self._arrays["timestamp"], memory.get("values"))
        memory["values"] = scaled
        buffers = [None, pa.py_buffer(scaled)]
        return pa.Array.from_buffers(pa.timestamp("us", "UTC"), len(scaled), buffers)

    def _binary(self, name: str, kind: "pa.DataType") -> "pa.Array":
        """Copy what spans point to into one run of bytes."""
        import pyarrow as pa  # noqa: PLC0415

        start, length = self._arrays[f"{name}_start"], self._arrays[f"{name}_length"]
        memory = self._arrow_memory.setdefault(name, {})
        offsets, values, validity, nulls = binary_column.gather(self.data, start, length, memory)
        memory["offsets"], memory["values"] = offsets, values
        if validity is not None:
            memory["validity"] = validity
        present = None if validity is None else pa.py_buffer(validity)
        buffers = [present, pa.py_buffer(offsets), pa.py_buffer(values)]
        return pa.Array.from_buffers(kind, len(start), buffers, nulls)

    def _headers(self) -> "pa.Array":
        import pyarrow as pa  # noqa: PLC0415

        names = self._binary("header_key", pa.string())
        try:
            names.validate(full=True)
        except pa.ArrowInvalid:
            raise Corrupt("the name of a header is not UTF-8") from None
        values = self._binary("header_value", pa.binary())
        each = pa.StructArray.from_arrays([names, values], ["key", "value"])
        ends = self._numbers("header_end", pa.int32())
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        return pa.ListArray.from_arrays(offsets, each, type=pa.list_(pa.field("element", each.type)))

    def memory(self) -> dict[str, Column]:
        """Return what `reuse` takes over: every array that nobody looks at any more."""
        return self._arrays


def decode_columns(
    buf: "Buffer",
    *,
    columns: Collection[str] = _DEFAULT,
    check_crc: bool = True,
    min_offset: int | None = None,
    max_offset: int | None = None,
    min_timestamp: int | None = None,
    max_timestamp: int | None = None,
    key_filter: bytes | Iterable[bytes] | None = None,
    aborted: Iterable[tuple[int, int]] | None = None,
    reuse: Columns | None = None,
    bytes_max: int = CODEC_BYTES_MAX,
) -> Columns:
    """Return the records of a run of batches or message sets as columns.

    Args:
        buf: whole batches, as a segment or the records of a fetch response hold them; at most
            2 GiB, a last one that is cut short is left out (see `Columns.end`).
        columns: any of offset, timestamp, timestamp_type, key, value and headers.
        check_crc: whether the CRC of each batch that is read must fit.
        min_offset: leave out records before this one.
        max_offset: leave out records behind this one.
        min_timestamp: leave out older records, ms.
        max_timestamp: leave out newer records, ms.
        key_filter: bytes: keep keys that begin with them; several: keep keys that are one of them.
        aborted: (producer id, first offset) of each aborted transaction, as a fetch response has
            them; their records are left out. None keeps them (read_uncommitted).
        reuse: an older result whose memory may be taken over. Arrays that somebody still looks
            at are left to them. The older result must not be used any more.
        bytes_max: how many bytes compressed batches may unfold to in all.

    Control batches are left out. Memory is bounded by the bytes: at most some five times theirs,
    or `bytes_max`.

    Raises:
        Corrupt: a length, count or CRC does not fit; the message has the position.
        Unsupported: a compression that does not exist, or whose package is not installed.
        LimitExceeded: 2 GiB or more at once, or more unfolded than `bytes_max`.
        ValueError: no such column.
    """
    count, end, data, arrays = _decode(
        buf,
        columns,
        decompress_into,
        bytes_max=bytes_max,
        check_crc=check_crc,
        min_offset=min_offset,
        max_offset=max_offset,
        min_timestamp=min_timestamp,
        max_timestamp=max_timestamp,
        key_filter=key_filter,
        aborted=aborted,
        reuse=None if reuse is None else reuse._arrays,
    )
    result = Columns(count, end, data, arrays)
    if reuse is not None:
        result._arrow_memory = reuse._arrow_memory
    return result
