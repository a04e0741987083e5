"""Record batches and message sets, plain and compressed: read by every function and compared."""

import struct
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from broker import codec
from broker._native.kernel.checksum import crc32c
from broker._native.records.column import gather, microseconds
from broker.codec.compression import compress
from broker.codec.encoding import encode
from broker.model.compressions import COMPRESSIONS
from broker.model.errors import CodecError
from tests.fuzz.inputs import Options, exact, outcome

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
SPANS = {"key", "value"}
BYTES_MAX = 4 << 20
SMALL_BYTES_MAX = 100

BATCH_HEADER_SIZE = 61
BATCH_LENGTH_END = 12
BATCH_CRC = struct.Struct(">I")
BATCH_CRC_AT, BATCH_CRC_START = 17, 21
MESSAGE_CRC_AT, MESSAGE_CRC_START = 12, 16
MAGIC_AT = 16
SIZE = struct.Struct(">i")
SIZE_AT = 8
ATTRIBUTES_AT = 21
CODEC_BITS = 0x07

Headers: TypeAlias = list[tuple[bytes, bytes | None]]
Row: TypeAlias = tuple[int, int, int, bytes | None, bytes | None, Headers]


def batch(data: bytes) -> None:
    """Read bytes as they are, or with correct CRCs, so that mutations pass the check."""
    options = Options(data)
    content = bytearray(options.content)
    if options.flag(0, 0):
        fit_crcs(content)
    read(bytes(content), options)


def compressed_batch(data: bytes) -> None:
    """Read a batch's header followed by the compressed rest."""
    options = Options(data)
    content = options.content
    if len(content) < BATCH_HEADER_SIZE:
        return
    header = bytearray(content[:BATCH_HEADER_SIZE])
    number = 1 + options.byte(7) % 4
    compressed = compress(number, content[BATCH_HEADER_SIZE:])
    header[MAGIC_AT] = 2
    header[ATTRIBUTES_AT + 1] = header[ATTRIBUTES_AT + 1] & ~CODEC_BITS | number
    SIZE.pack_into(header, SIZE_AT, BATCH_HEADER_SIZE - BATCH_LENGTH_END + len(compressed))
    header += compressed
    fit_crcs(header)
    read(bytes(header), options)


def compressed_message_set(data: bytes) -> None:
    """Read a wrapper of magic 0 or 1 around messages with correct CRCs."""
    options = Options(data)
    content = bytearray(options.content)
    fit_crcs(content)
    magic = options.byte(7) >> 2 & 1
    number = 1 + options.byte(7) % 4
    compressed = compress(number, content, magic=magic)
    body = b"" if magic == 0 else struct.pack(">q", options.number(6))
    body += struct.pack(">ii", -1, len(compressed)) + compressed
    wrapper = bytearray(struct.pack(">qiIbb", options.number(5), 6 + len(body), 0, magic, number))
    wrapper += body
    fit_crcs(wrapper)
    read(bytes(wrapper), options)


def fit_crcs(content: bytearray) -> None:
    """Write the correct CRC into every whole batch and message from the start on."""
    position = 0
    while len(content) - position > MAGIC_AT:
        (size,) = SIZE.unpack_from(content, position + SIZE_AT)
        end = position + BATCH_LENGTH_END + size
        if size <= MAGIC_AT - BATCH_LENGTH_END or end > len(content):
            return
        if content[position + MAGIC_AT] >= 2:
            crc = crc32c(bytes(content[position + BATCH_CRC_START : end]))
            place = position + BATCH_CRC_AT
            if end < position + BATCH_HEADER_SIZE:
                return
        else:
            crc = zlib.crc32(content[position + MESSAGE_CRC_START : end])
            place = position + MESSAGE_CRC_AT
        BATCH_CRC.pack_into(content, place, crc)
        position = end


# ---- reading in every way ------------------------------------------------------------------------


def read(content: bytes, options: Options) -> None:
    """Read the same bytes by every function; their results must agree."""
    buf = exact(content)
    check_crc = not options.flag(0, 1)
    call: Callable[[], Any] = partial(
        codec.decode_columns, buf, columns=ALL, check_crc=check_crc, bytes_max=BYTES_MAX
    )
    whole = outcome(len(buf), call)
    seen = outcome(len(buf), lambda: list(codec.records(buf, check_crc=check_crc)))
    headers = outcome(len(buf), lambda: list(codec.scan_headers(buf)))
    counts = outcome(len(buf), lambda: codec.audit(buf))
    valid = outcome(len(buf), lambda: codec.validate(buf, bytes_max=BYTES_MAX))
    assert isinstance(headers, CodecError) == isinstance(counts, CodecError)
    if isinstance(whole, CodecError):
        assert type(seen) is type(whole), f"{whole!r}, but as objects {seen!r}"
        assert isinstance(valid, CodecError), f"{whole!r}, but validated"
    else:
        assert not isinstance(seen, CodecError), f"columns, but as objects {seen!r}"
        assert not isinstance(counts, CodecError), f"columns, but counted {counts!r}"
        assert not isinstance(headers, CodecError), f"columns, but scanned {headers!r}"
        assert len(headers) == counts.batches
        assert whole.end == counts.size
        rows = rows_of(whole)
        assert rows == [
            (each.offset, each.timestamp, each.timestamp_type, each.key, each.value, each.headers)
            for each in seen
        ]
        assert isinstance(valid, CodecError) or valid >= len(rows)
        if options.flag(1, 6):
            encode_again(whole, rows, options)
        is_valid = not isinstance(valid, CodecError)
        compare_selected(buf, rows, whole, options, check_crc=check_crc, is_valid=is_valid)


def encode_again(whole: codec.Columns, rows: list[Row], options: Options) -> None:
    """Encode the decoded columns; the batches hold the same records, or are refused."""
    batches = outcome(
        memoryview(whole.data).nbytes,
        lambda: encode(
            whole,
            compression=COMPRESSIONS[options.byte(7) % len(COMPRESSIONS)].name,
            base_offset=None if options.flag(1, 7) else 0,
        ),
    )
    if isinstance(batches, CodecError):
        return
    again = rows_of(codec.decode_columns(b"".join(batches), columns=ALL))
    assert [row[3:] for row in again] == [row[3:] for row in rows]
    assert [row[1] for row in again] == [row[1] for row in rows]
    offsets = [row[0] for row in rows] if options.flag(1, 7) else list(range(len(rows)))
    assert [row[0] for row in again] == offsets


def rows_of(columns: codec.Columns) -> list[Row]:
    """Return all columns row by row."""
    data = memoryview(columns.data).cast("B")
    keys = values_of(columns, data, "key")
    values = values_of(columns, data, "value")
    names = values_of(columns, data, "header_key")
    contents = values_of(columns, data, "header_value")
    flat = [(name or b"", value) for name, value in zip(names, contents, strict=True)]
    ends = memoryview(columns.column("header_end")).tolist()
    assert all(begin <= end for begin, end in zip([0, *ends], [*ends, len(flat)], strict=True))
    return [
        (offset, timestamp, kind, key, value, flat[begin:end])
        for offset, timestamp, kind, key, value, begin, end in zip(
            memoryview(columns.column("offset")),
            memoryview(columns.column("timestamp")),
            memoryview(columns.column("timestamp_type")),
            keys,
            values,
            [0, *ends],
            ends,
            strict=False,
        )
    ]


def values_of(columns: codec.Columns, data: memoryview, name: str) -> list[bytes | None]:
    """Return the bytes that spans point to, also as Arrow has them."""
    starts, lengths = columns.column(f"{name}_start"), columns.column(f"{name}_length")
    found: list[bytes | None] = []
    for start, length in zip(memoryview(starts), memoryview(lengths), strict=True):
        assert length >= -1
        assert length < 0 or 0 <= start <= start + length <= len(data), "a span outside"
        found.append(None if length < 0 else bytes(data[start : start + length]))
    ends, run, validity, nulls = gather(columns.data, starts, lengths)
    assert bytes(run) == b"".join(value or b"" for value in found)
    assert len(memoryview(ends)) == len(found) + 1
    assert nulls == found.count(None)
    assert (validity is None) == (nulls == 0)
    return found


# ---- reading a part ------------------------------------------------------------------------------


def compare_selected(
    buf: "memoryview | Any",
    rows: list[Row],
    whole: codec.Columns,
    options: Options,
    *,
    check_crc: bool,
    is_valid: bool,
) -> None:
    """Read some columns and some records into reused memory; they must equal those of the whole."""
    names = [name for bit, name in enumerate(ALL) if options.flag(1, bit)]
    least, most = sorted((options.number(2), options.number(3)))
    prefix, keys = key_choice(rows, options)
    by_offset, by_time = options.flag(0, 2), options.flag(0, 3)
    held = []
    if options.flag(0, 4):  # some arrays are still referenced
        arrays = list(whole.arrays.values())
        held = [memoryview(array) for i, array in enumerate(arrays) if options.byte(4) >> i % 8 & 1]
    microseconds(whole.column("timestamp"))
    result = outcome(
        len(buf),
        lambda: codec.decode_columns(
            buf,
            columns=names,
            check_crc=check_crc,
            min_offset=least if by_offset else None,
            max_offset=most if by_offset else None,
            min_timestamp=least if by_time else None,
            max_timestamp=most if by_time else None,
            key_filter=prefix if prefix is not None else keys,
            aborted=[(options.number(6), options.number(5))] if options.flag(0, 6) else None,
            reuse=whole if options.flag(0, 5) else None,
            bytes_max=SMALL_BYTES_MAX if options.flag(0, 7) else BYTES_MAX,
        ),
    )
    del held
    if isinstance(result, CodecError):
        assert options.flag(0, 7), f"the whole could be read, a part not: {result!r}"
        return
    kept = [
        row
        for row in rows
        if (not by_offset or least <= row[0] <= most)
        and (not by_time or least <= row[1] <= most)
        and (prefix is None or (row[3] is not None and row[3].startswith(prefix)))
        and (keys is None or row[3] in keys)
    ]
    # A batch with a false header may be skipped because of it: then fewer records are returned.
    if is_valid and not by_time and not options.flag(0, 6):
        assert len(result) == len(kept)
    found = parts_of(result, names)
    rest = iter([part_of(row, names) for row in kept])
    assert all(row in rest for row in found), "a record that was not asked for"


def parts_of(columns: codec.Columns, names: list[str]) -> list[tuple[Any, ...]]:
    """Return the rows of some columns; headers are omitted."""
    data = memoryview(columns.data).cast("B")
    parts: list[list[Any]] = []
    for name in names:
        if name in SPANS:
            parts.append(values_of(columns, data, name))
        elif name != "headers":
            parts.append(memoryview(columns.column(name)).tolist())
    return list(zip(*parts, strict=True)) if parts else [()] * len(columns)


def part_of(row: Row, names: list[str]) -> tuple[Any, ...]:
    """Return the same columns of a whole row."""
    return tuple(row[ALL.index(name)] for name in names if name != "headers")


def key_choice(rows: list[Row], options: Options) -> tuple[bytes | None, list[bytes] | None]:
    """Return a prefix or some keys to keep, or neither."""
    known = [row[3] for row in rows[:3] if row[3] is not None]
    match options.byte(7) >> 6:
        case 1:
            return (known[0] if known else b"k")[: options.byte(7) >> 3 & 7], None
        case 2:
            return None, [*known, options.content[:3]]
    return None, None
