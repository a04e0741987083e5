"""Encodes record batches (version 2) from Python objects, columns or Arrow tables.

src/_native/records/batch_encoder.pyx writes the bytes; this module finds out of which kind a source
is and where its columns are.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, TypeVar, cast

from broker._native.records.batch_encoder import BatchEncoder
from broker.codec.compression import compress
from broker.codec.packages import import_optional
from broker.codec.span_source import SpanColumns, span_source
from broker.model.clock import SystemClock
from broker.model.compressions import BY_NAME, Compression
from broker.model.limits import MESSAGE_BYTES_MAX

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")

TimestampType: TypeAlias = Literal["CreateTime", "LogAppendTime"]
Header: TypeAlias = "tuple[str | bytes, bytes | None]"
Row: TypeAlias = (
    "bytes | tuple[bytes | None, bytes | None]"
    " | tuple[bytes | None, bytes | None, Iterable[Header] | None]"
    " | tuple[bytes | None, bytes | None, Iterable[Header] | None, int | None]"
)


class ArrowStream(Protocol):
    """A table with the Arrow PyCapsule interface: pyarrow, pandas, Polars, DuckDB, ..."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return its batches."""


Source: TypeAlias = "Iterable[Row] | SpanColumns | Mapping[str, Buffer] | ArrowStream"

_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_TIMESTAMP_TYPES: Final = {"CreateTime": 0, "LogAppendTime": _LOG_APPEND_TIME}


def encode(  # noqa: PLR0913 (the fields of a batch header, and options)
    source: Source,
    *,
    batch_bytes_max: int = MESSAGE_BYTES_MAX,
    compression: str = "none",
    level: int | None = None,
    base_offset: int | None = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_ms: int | None = None,
    timestamp_type: TimestampType = "CreateTime",
) -> list[bytes]:
    """Return the records of a source as record batches.

    >>> [batch] = encode([b"first", (b"key", b"second", [("trace", b"7")])], timestamp_ms=0)
    >>> len(batch), batch[16]
    (97, 2)

    Args:
        source: one of
            - an iterable of values (bytes) or tuples (key, value), (key, value, headers), (key,
              value, headers, timestamp in ms); key and value may be None, headers are pairs (str or
              bytes, bytes or None);
            - `Columns`, or a mapping with the same names to buffers (numpy arrays, for example):
              "data", the bytes that the spans point into; int32 "value_start", "value_length" (-1:
              null), and optionally "key_start", "key_length", int64 "timestamp" (ms),
              int64 "offset", int32 "header_end", "header_key_start", "header_key_length",
              "header_value_start", "header_value_length";
            - a pyarrow RecordBatch or Table, or another library's frame, with Spark's names: value,
              and optionally key (binary, string or their variants), timestamp (timestamp, or
              int64 ms), headers (list of struct of key and value, or map), offset (int64). Other
              columns are ignored.
        batch_bytes_max: the largest batch, header included. A batch ends by its uncompressed size.
            A batch that compression makes larger than this is stored uncompressed.
        compression: "none", "gzip", "snappy", "lz4" or "zstd".
        level: of the compression; None: its default.
        base_offset: of the first record, the others follow without gaps; None: every record has
            its offset in the source's column, which must ascend.
        leader_epoch: of the partition's leader; -1: unknown.
        producer_id: of an idempotent producer; -1: none.
        producer_epoch: of that producer.
        base_sequence: of the first record; following batches continue it, and 0 follows 2^31 - 1.
        is_transactional: whether the records belong to a transaction of the producer.
        is_control: whether they are control records.
        timestamp_ms: of records without a timestamp of their own; None: now. With LogAppendTime it
            is the time of the append, which readers see as the timestamp of every record.
        timestamp_type: "CreateTime" or "LogAppendTime".

    Returns:
        The batches in order; none for a source without records.

    Raises:
        LimitExceeded: a record does not fit into a batch; the message has its row.
        Corrupt: a column points outside of its buffer, or offsets do not ascend.
        Unsupported: the package for the compression is not installed.
        TypeError: a row or a column has a type that is not listed above.
        ValueError: an argument is out of range, or columns have different lengths.

    Source: Kafka protocol guide, "Record Batch"; KIP-98.
    """
    codec = _named("compression", compression, BY_NAME)
    attributes = (
        codec.number
        | _named("timestamp_type", timestamp_type, _TIMESTAMP_TYPES)
        | _TRANSACTIONAL * is_transactional
        | _CONTROL * is_control
    )
    try:
        encoder = BatchEncoder(
            batch_bytes_max=batch_bytes_max,
            timestamp=SystemClock().wall_ms() if timestamp_ms is None else timestamp_ms,
            base_offset=base_offset,
            attributes=attributes,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            compress=_compressor(codec, level),
        )
    except OverflowError as error:
        raise ValueError(f"a number does not fit its field: {error}") from None
    _append(encoder, source)
    return encoder.finish()


def _named(what: str, name: str, known: Mapping[str, T]) -> T:
    if name not in known:
        raise ValueError(f"{what}: expected one of {', '.join(known)}, got {name!r}")
    return known[name]


def _compressor(codec: Compression, level: int | None) -> Callable[[memoryview], bytes] | None:
    codec.level(level)  # raises ValueError even if there are no records
    if codec.number == 0:
        return None
    return lambda records: compress(codec.number, records, level)


def _append(encoder: BatchEncoder, source: Source) -> None:
    if isinstance(source, Mapping):
        if "data" not in source:
            raise ValueError("a mapping without data: expected the bytes that its spans point into")
        encoder.append_columns(span_source(source["data"], source.__getitem__))
    elif hasattr(type(source), "column") and hasattr(type(source), "data"):
        spans = cast("SpanColumns", source)
        encoder.append_columns(span_source(spans.data, spans.column))
    elif hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        import_optional("pyarrow", "records of Arrow")
        from broker.codec import arrow_source  # noqa: PLC0415 - half a second, only for Arrow input

        for columns in arrow_source.column_sources(source):
            encoder.append_columns(columns)
    else:
        encoder.append_rows(cast("Iterable[Row]", source))
