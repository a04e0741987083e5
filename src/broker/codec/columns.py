"""Records as columns: numbers and spans over one buffer, no object per record.

    columns = decode_columns(fetched)              # bytes of batches or of message sets
    columns.to_arrow(topic="clicks", partition=0)  # a pyarrow.RecordBatch
    columns.to_numpy()["offset"]                   # int64, one per record

Keys and values are not copied: a span is the position and length of one in `columns.data`. The
decoder is src/_native/records/column_decoder.pyx. numpy and pyarrow are imported by `to_numpy` and
`to_arrow`.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from broker._native.records.column import Column
from broker._native.records.column_decoder import COLUMN_NAMES
from broker._native.records.column_decoder import decode_columns as _decode
from broker._native.records.record_view import Record, RecordIterator
from broker.codec.compression import decompress_into
from broker.codec.packages import import_optional
from broker.model.errors import CodecError
from broker.model.limits import CODEC_BYTES_MAX, RECORDS_CHUNK_BYTES

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from typing_extensions import Buffer

_DEFAULT: Final = ("offset", "timestamp", "key", "value")


class Columns:
    """Decoded records, as columns of the same length.

    Attributes:
        data: the buffer that spans point into: the input, or memory with the decompressed records.
        end: the position after the last whole batch of the input; a batch cut short may follow.
        arrays: every array by name, see `names`; "decompressed" is `data` if the records were
            decompressed.
        arrow_memory: the buffers of the last to_arrow, by column; `reuse` takes them over.
    """

    __slots__ = ("_count", "arrays", "arrow_memory", "data", "end")

    def __init__(self, count: int, end: int, data: "Buffer", arrays: dict[str, Column]) -> None:
        """Hold the decoder's result."""
        self._count = count
        self.end = end
        self.data = data
        self.arrays = arrays
        self.arrow_memory: dict[str, dict[str, Column]] = {}

    def __len__(self) -> int:
        """Return the number of records."""
        return self._count

    def __repr__(self) -> str:
        """Return the number of records and the names of the columns."""
        return f"<Columns {self._count} records: {', '.join(self.names)}>"

    @property
    def names(self) -> list[str]:
        """The names of the decoded columns.

        offset int64; timestamp int64, ms; timestamp_type int8 (0 create time, 1 log append time,
        -1 none, in magic 0); key_start, key_length, value_start, value_length int32 (length -1:
        null). With headers: header_end int32, and one row per header in header_key_start,
        header_key_length, header_value_start, header_value_length; record i has the headers from
        header_end[i - 1] (0 for the first) to header_end[i].
        """
        return [name for name in self.arrays if name != "decompressed"]

    def column(self, name: str) -> Column:
        """Return one column, a buffer that numpy, pyarrow and memoryview read without a copy.

        Raises:
            KeyError: the column was not decoded.
        """
        return self.arrays[name]

    def to_numpy(self) -> "dict[str, np.ndarray[Any, Any]]":
        """Return every column as a numpy array over the same memory; see `names` for the dtypes."""
        numpy = import_optional("numpy", "columns as numpy arrays")
        return {name: numpy.asarray(self.arrays[name]) for name in self.names}

    def to_arrow(self, topic: str | None = None, partition: int | None = None) -> "pa.RecordBatch":
        """Return the decoded columns with the names and types of Spark's Kafka source.

        key binary, value binary, topic string, partition int32, offset int64, timestamp
        timestamp[us, UTC], timestampType int32, headers list<struct<key string, value binary>>.
        Without a topic or partition, those two columns are left out. Keys, values and headers are
        copied, because Arrow needs their bytes contiguous; offsets are not. A timestamp of -1 (a
        record without a timestamp) is null; `encode` replaces null by `timestamp_ms`.

        Raises:
            LimitExceeded: the values of a column take 2 GiB or more in total.
            Corrupt: the name of a header is not UTF-8.
        """
        import_optional("pyarrow", "columns as Arrow arrays")
        from broker.codec import arrow  # noqa: PLC0415 - half a second, which most programs do not need

        return arrow.record_batch(self, topic, partition)


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

    >>> from broker.codec import encode
    >>> [batch] = encode([(b"user-1", b"in"), (b"user-2", None), (None, b"out")], timestamp_ms=7)
    >>> columns = decode_columns(batch)
    >>> columns
    <Columns 3 records: offset, timestamp, key_start, key_length, value_start, value_length>
    >>> arrays = columns.to_numpy()
    >>> arrays["offset"].dtype.name, arrays["offset"].tolist(), arrays["value_length"].tolist()
    ('int64', [0, 1, 2], [2, -1, 3])
    >>> decode_columns(batch, columns=["key"], key_filter=b"user-").to_arrow().to_pydict()
    {'key': [b'user-1', b'user-2']}

    Args:
        buf: whole batches, as in a segment or the records of a fetch response; at most 2 GiB. A
            last batch that is cut short is left out (see `Columns.end`).
        columns: any of offset, timestamp, timestamp_type, key, value and headers.
        check_crc: whether the CRC of each batch is checked, also of control batches and batches of
            aborted transactions, which are left out of the result.
        min_offset: leave out records with lower offsets.
        max_offset: leave out records with higher offsets.
        min_timestamp: leave out older records, ms.
        max_timestamp: leave out newer records, ms.
        key_filter: bytes: keep records whose key begins with them; several: keep records whose key
            equals one of them. Records without a key are left out in both cases.
        aborted: (producer id, first offset) of each aborted transaction, as in a fetch response;
            their records are left out. None keeps them (read_uncommitted).
        reuse: an older result whose memory may be reused. Arrays that are still exported as buffers
            are not reused. The older result must not be used any more.
        bytes_max: the limit of the decompressed size of all compressed batches together.
            Uncompressed batches in the same input are copied without counting.

    Control batches are left out. The arrays take at most eight times the decompressed size of the
    batches (with empty records and headers); twice that if they had to grow.

    Raises:
        Corrupt: a length, count or CRC is wrong; the message has the position.
        Unsupported: an unknown compression type, or its package is not installed.
        LimitExceeded: 2 GiB or more at once, or more than `bytes_max` after decompression.
        ValueError: an unknown column, or a bound that does not fit into 64 bits.
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
        reuse=None if reuse is None else reuse.arrays,
    )
    result = Columns(count, end, data, arrays)
    if reuse is not None:
        result.arrow_memory = reuse.arrow_memory
    return result


def records(
    buf: "Buffer",
    *,
    check_crc: bool = True,
    bytes_max: int = CODEC_BYTES_MAX,
    aborted: Iterable[tuple[int, int]] | None = None,
) -> Iterator[Record]:
    """Yield the records of a run of batches or message sets as objects, control batches left out.

    >>> from broker.codec import encode
    >>> [batch] = encode([(b"key", b"value", [("trace", b"1")])], timestamp_ms=7)
    >>> for record in records(batch):
    ...     print(record.offset, record.timestamp, record.key, record.value, record.headers)
    0 7 b'key' b'value' [(b'trace', b'1')]

    A record's key, value and headers become Python objects when they are read. A record keeps the
    memory that it was decoded from alive. A last batch that is cut short is left out.

    Args:
        buf: as in decode_columns, of any size.
        check_crc: whether the CRC of each batch is checked.
        bytes_max: the limit of the decompressed size of one chunk's compressed batches.
        aborted: as in decode_columns; with it the input is decoded at once.

    Raises:
        CodecError: as decode_columns, raised by the iteration when it reaches the fault.
    """
    view = memoryview(buf)
    view = view.cast("B") if view.nbytes else memoryview(b"")  # an empty view cannot be cast
    chunks = _Chunks(view, aborted, check_crc=check_crc, bytes_max=bytes_max)
    return RecordIterator(chunks.decode_next)


class _Chunks:
    """Decodes a few whole batches at a time, so that memory does not grow with the input."""

    def __init__(
        self,
        view: memoryview,
        aborted: Iterable[tuple[int, int]] | None,
        *,
        check_crc: bool,
        bytes_max: int,
    ) -> None:
        self._view = view
        self._aborted = None if aborted is None else list(aborted)
        # The end of an aborted transaction must be in the same chunk as its records.
        self._size = max(RECORDS_CHUNK_BYTES, 0 if aborted is None else len(view))
        self._check_crc = check_crc
        self._bytes_max = bytes_max
        self._position = 0

    def decode_next(self) -> tuple[int, "Buffer", dict[str, Column]] | None:
        size = self._size
        while self._position < len(self._view):
            chunk = self._view[self._position : self._position + size]
            try:
                count, end, data, arrays = _decode(
                    chunk,
                    COLUMN_NAMES,
                    decompress_into,
                    check_crc=self._check_crc,
                    bytes_max=self._bytes_max,
                    aborted=self._aborted,
                )
            except CodecError as error:
                raise moved(error, self._position) from None
            if end > 0:
                self._position += end
                return count, data, arrays
            if len(chunk) < size:
                break  # the rest is not a whole batch
            size *= 2
        return None


def moved(error: CodecError, position: int) -> CodecError:
    """Return the error with its position counted from the start of the input, not of a chunk."""
    if error.position is None:
        return error
    return type(error)(error.reason, error.position + position)


def validate(buf: "Buffer", *, bytes_max: int = CODEC_BYTES_MAX) -> int:
    """Check that batches or message sets are consistent; return the number of records.

    Checks lengths, counts and CRCs (compressed batches are decompressed), that the offsets of a
    batch or compressed message ascend up to its last one, and that nothing is cut short. Control
    batches are checked and counted as well. `audit` checks how one batch follows the other.

    Raises:
        CodecError: the first fault, with its position.
    """
    count, _, _, _ = _decode(
        buf, COLUMN_NAMES, decompress_into, bytes_max=bytes_max, is_strict=True
    )
    return count
