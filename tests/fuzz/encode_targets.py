"""Encoding and decoding again: arbitrary rows, and columns that point anywhere."""

from array import array
from collections.abc import Iterator

from broker.codec import decode_columns, encoding, hashes
from broker.codec.encoding import Header
from broker.model.compressions import COMPRESSIONS
from broker.model.errors import CodecError
from tests.fuzz.batch_targets import ALL, rows_of
from tests.fuzz.inputs import OPTIONS_SIZE, Options, exact, outcome

BATCH_BYTES_MAX = 1 << 20
SPANS = ("value", "key", "header_key", "header_value")
TIMESTAMP = 1_700_000_000_000


def encode_rows(data: bytes) -> None:
    """Encode rows of any shape; they are decoded unchanged."""
    options = Options(data)
    rows = list(rows_in(options.content))
    batches = outcome(
        len(data),
        lambda: encoding.encode(
            rows,
            batch_bytes_max=1 << (6 + options.byte(0) % 15),
            compression=COMPRESSIONS[options.byte(1) % len(COMPRESSIONS)].name,
            base_offset=max(0, options.number(2)),
            base_sequence=options.number(3) & 0x7FFFFFFF,
            producer_id=7,
            producer_epoch=1,
            is_transactional=options.flag(4, 0),
            is_control=False,
            timestamp_ms=TIMESTAMP,
        ),
    )
    if isinstance(batches, CodecError):
        return
    found = rows_of(decode_columns(b"".join(batches), columns=ALL))
    expected = [(key, value, headers, time) for key, value, headers, time in rows]
    assert [row[3:] for row in found] == [row[:3] for row in expected]
    assert [row[1] for row in found] == [
        TIMESTAMP if row[3] is None else row[3] for row in expected
    ]
    first = max(0, options.number(2))
    assert [row[0] for row in found] == list(range(first, first + len(rows)))


def rows_in(
    content: bytes,
) -> Iterator[tuple[bytes | None, bytes | None, list[Header], int | None]]:
    """Split an input into rows, each with a leading byte that gives the lengths of its parts."""
    position = 0
    while position < len(content):
        kind = content[position]
        key = content[position + 1 : position + 1 + (kind & 7)]
        position += 1 + len(key)
        value = content[position : position + (kind >> 3 & 7) ** 2]
        position += len(value)
        headers: list[Header] = [(key, value), (value[:3], None)] if kind & 0x40 else []
        time = (len(value) - 20) << len(key) * 8 if kind & 0x80 else None
        yield key if kind & 7 else None, value if kind & 0x38 else None, headers, time


def encode_columns(data: bytes) -> None:
    """Encode columns that point anywhere in or outside their data; they are encoded or refused."""
    options = Options(data)
    count = options.byte(0) % 16
    numbers = iter(options.content[:200])
    content = exact(options.content[200:])
    header_count = options.byte(1) % 8
    columns: dict[str, array[int] | memoryview] = {"data": content}
    for place, name in enumerate(SPANS):
        size = header_count if name.startswith("header") else count
        if name == "value" or options.flag(2, place):
            for part in ("start", "length"):
                columns[f"{name}_{part}"] = array("i", [small(numbers) for _ in range(size)])
    if options.flag(2, 4):
        columns["timestamp"] = array("q", [small(numbers) << 31 for _ in range(count)])
    if options.flag(2, 5):
        columns["offset"] = array("q", sorted(small(numbers) << 20 for _ in range(count)))
    if options.flag(2, 6):
        columns["header_end"] = array("i", [small(numbers) for _ in range(count)])
    try:
        batches = outcome(
            len(data),
            lambda: encoding.encode(
                columns,
                batch_bytes_max=BATCH_BYTES_MAX,
                base_offset=None if options.flag(2, 7) else 0,
                compression=COMPRESSIONS[options.byte(3) % len(COMPRESSIONS)].name,
            ),
        )
    except ValueError:
        return  # columns that do not fit each other
    if not isinstance(batches, CodecError):
        found = decode_columns(b"".join(batches), columns=ALL)
        assert len(found) == count
        spans = hashes.Spans(content, columns["value_start"], columns["value_length"])
        values = [row[4] for row in rows_of(found)]
        assert memoryview(hashes.murmur2_column(spans)).tolist() == [
            -1 if value is None else hashes.murmur2(value) for value in values
        ]


def small(numbers: Iterator[int]) -> int:
    """Return the number that a byte encodes: usually one that is within a short text."""
    value = next(numbers, 0)
    return value - 1 if value < 0xF0 else (value - 0xF8) << 28


def seeds() -> Iterator[bytes]:
    """Rows and columns that fit, and some that do not."""
    for kind in (0x00, 0x09, 0x52, 0xD3, 0xFF):
        row = bytes([kind]) + bytes(range(60))
        yield bytes([14, kind % 5]).ljust(OPTIONS_SIZE, b"\0") + row * 3
    fitting = bytes([3, 2, 0x7F]).ljust(OPTIONS_SIZE, b"\0")
    starts, lengths = bytes([1, 5, 9]), bytes([4, 0, 5])
    two, ends = bytes([1, 2, 3, 4]), bytes([2, 2, 3])
    yield (
        fitting
        + (2 * (starts + lengths) + 2 * two + starts + starts + ends).ljust(200, b"\0")
        + bytes(40)
    )
