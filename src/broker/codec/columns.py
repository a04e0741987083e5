"""Records as columns: numbers and spans over one buffer, no object per record.

    columns = decode_columns(fetched)              # bytes of batches or of message sets
    columns.to_arrow(topic="clicks", partition=0)  # a pyarrow.RecordBatch
    columns.to_numpy()["offset"]                   # int64, one per record

Keys and values are not copied: a span is the position and length of one in `columns.data`. The
decoder stands in src/_native/records/column_decoder.pyx. numpy and pyarrow are imported when one
of them is asked for.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from broker._native.records.column import Column
from broker._native.records.column_decoder import COLUMN_NAMES
from broker._native.records.column_decoder import decode_columns as _decode
from broker._native.records.record_view import Record, RecordIterator
from broker.codec.compression import decompress_into
from broker.codec.packages import needed
from broker.model.errors import CodecError
from broker.model.limits import CODEC_BYTES_MAX, RECORDS_CHUNK_BYTES

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
        arrays: every array there is by name, see `names`; "decompressed" is `data` where it is ours.
        arrow_memory: what to_arrow wrote to last, by column: taken over by `reuse`.
    """

    __slots__ = ("_count", "arrays", "arrow_memory", "data", "end")

    def __init__(self, count: int, end: int, data: "Buffer", arrays: dict[str, Column]) -> None:
        """Keep what the decoder returned."""
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
        """The columns there are.

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
            KeyError: it was not asked for when the columns were decoded.
        """
        return self.arrays[name]

    def to_numpy(self) -> "dict[str, np.ndarray[Any, Any]]":
        """Return every column as a numpy array over the same memory; see `names` for the dtypes."""
        numpy = needed("numpy", "columns as numpy arrays")
        return {name: numpy.asarray(self.arrays[name]) for name in self.names}

    def to_arrow(self, topic: str | None = None, partition: int | None = None) -> "pa.RecordBatch":
        """Return the records as Spark's Kafka source has them, those columns that were decoded.

        key binary, value binary, topic string, partition int32, offset int64, timestamp
        timestamp[us, UTC], timestampType int32, headers list<struct<key string, value binary>>.
        Without a topic or partition, those two columns are left out. Keys, values and headers are
        copied, because Arrow wants their bytes in one run; offsets are not. A timestamp of -1,
        which a record without a time has, is null; encode gives null the time `timestamp_ms`.

        Raises:
            LimitExceeded: the values have 2 GiB or more in all.
            Corrupt: the name of a header is not UTF-8.
        """
        needed("pyarrow", "columns as Arrow arrays")
        from broker.codec import arrow  # noqa: PLC0415 - half a second that most programs save

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
        buf: whole batches, as a segment or the records of a fetch response hold them; at most
            2 GiB, a last one that is cut short is left out (see `Columns.end`).
        columns: any of offset, timestamp, timestamp_type, key, value and headers.
        check_crc: whether the CRC of each batch that is read must fit, and of those that are left
            out as control batches or aborted.
        min_offset: leave out records before this one.
        max_offset: leave out records behind this one.
        min_timestamp: leave out older records, ms.
        max_timestamp: leave out newer records, ms.
        key_filter: bytes: keep keys that begin with them; several: keep keys that are one of them.
            A record without a key has none of either.
        aborted: (producer id, first offset) of each aborted transaction, as a fetch response has
            them; their records are left out. None keeps them (read_uncommitted).
        reuse: an older result whose memory may be taken over. Arrays that somebody still looks
            at are left to them. The older result must not be used any more.
        bytes_max: how many bytes compressed batches may unfold to in all. Uncompressed ones beside
            them are copied, whatever their size.

    Control batches are left out. The arrays take at most eight times the bytes of the batches,
    unfolded, as empty records and headers make them; twice that where they had to grow.

    Raises:
        Corrupt: a length, count or CRC does not fit; the message has the position.
        Unsupported: a compression that does not exist, or whose package is not installed.
        LimitExceeded: 2 GiB or more at once, or more unfolded than `bytes_max`.
        ValueError: no such column, or a bound that 64 bits do not hold.
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
    buf: "Buffer", *, check_crc: bool = True, bytes_max: int = CODEC_BYTES_MAX
) -> Iterator[Record]:
    """Yield the records of a run of batches or message sets as objects, control batches left out.

    >>> from broker.codec import encode
    >>> [batch] = encode([(b"key", b"value", [("trace", b"1")])], timestamp_ms=7)
    >>> for record in records(batch):
    ...     print(record.offset, record.timestamp, record.key, record.value, record.headers)
    0 7 b'key' b'value' [(b'trace', b'1')]

    A record's key, value and headers become Python objects when they are asked for. It keeps the
    bytes that it came from alive. A last batch that is cut short is left out.

    Args:
        buf: as in decode_columns, of any size.
        check_crc: whether the CRC of each batch must fit.
        bytes_max: how many bytes the compressed batches of a chunk may unfold to.

    Raises:
        CodecError: as decode_columns, when the iteration gets there.
    """
    view = memoryview(buf)
    view = view.cast("B") if view.nbytes else memoryview(b"")  # nothing cannot be cast
    chunks = _Chunks(view, check_crc=check_crc, bytes_max=bytes_max)
    return RecordIterator(chunks.decode_next)


class _Chunks:
    """Some whole batches at a time, so that neither many nor large ones cost memory at once."""

    def __init__(self, view: memoryview, *, check_crc: bool, bytes_max: int) -> None:
        self._view = view
        self._check_crc = check_crc
        self._bytes_max = bytes_max
        self._position = 0

    def decode_next(self) -> tuple[int, "Buffer", dict[str, Column]] | None:
        size = RECORDS_CHUNK_BYTES
        while self._position < len(self._view):
            chunk = self._view[self._position : self._position + size]
            try:
                count, end, data, arrays = _decode(
                    chunk,
                    COLUMN_NAMES,
                    decompress_into,
                    check_crc=self._check_crc,
                    bytes_max=self._bytes_max,
                )
            except CodecError as error:
                raise moved(error, self._position) from None
            if end > 0:
                self._position += end
                return count, data, arrays
            if len(chunk) < size:
                break  # what is left is no whole batch
            size *= 2
        return None


def moved(error: CodecError, position: int) -> CodecError:
    """Return the error as one of the bytes that the chunk was cut from."""
    if error.position is None:
        return error
    return type(error)(error.reason, error.position + position)


def validate(buf: "Buffer", *, bytes_max: int = CODEC_BYTES_MAX) -> int:
    """Check everything that these batches or message sets say of themselves; count the records.

    Lengths, counts and CRCs, of compressed batches after unfolding, that the offsets of a batch or
    compressed message ascend up to its last one, that nothing is cut short. Control batches are
    checked and counted as well. How one batch follows the other is audit's to say.

    Raises:
        CodecError: the first fault, with its position.
    """
    count, _, _, _ = _decode(
        buf, COLUMN_NAMES, decompress_into, bytes_max=bytes_max, is_strict=True
    )
    return count
