"""A reader of records of every magic in plain Python, by Kafka's protocol guide alone.

It reads uncompressed batches and message sets and ignores checksums: it follows lengths and counts,
or raises WrongBytesError where they are impossible.
"""

from typing import NamedTuple

from tests.oracles.record_batch_oracle import CONTROL, HEADER, LENGTH_END, LENGTH_MAX, Headers

LOG_APPEND_TIME = 8
RECORD_SIZE_MIN = 7
MAGIC_AT = 16
MESSAGE_SIZE_MIN = 26


class Row(NamedTuple):
    """A record as a reader sees it; the timestamp type is 0 create, 1 log append, -1 none."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class WrongBytesError(Exception):
    """Bytes that are not records."""


class Reader:
    """A position in some bytes; reading beyond the end is an error."""

    def __init__(self, data: bytes) -> None:
        """Begin at the first byte."""
        self.data = data
        self.position = 0

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self.data) - self.position

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= size <= self.left:
            raise WrongBytesError
        self.position += size
        return self.data[self.position - size : self.position]

    def integer(self, size: int) -> int:
        """Return a big-endian integer."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self, bits: int = 32) -> int:
        """Return a zigzag varint of that many bits."""
        value = 0
        for place in range((bits + 6) // 7):
            (byte,) = self.take(1)
            value |= (byte & 127) << 7 * place
            if byte < 128:
                if value >= 1 << bits:
                    raise WrongBytesError
                return value // 2 if value % 2 == 0 else -(value // 2) - 1
        raise WrongBytesError

    def bytes_or_null(self, length: int) -> bytes | None:
        """Return that many bytes, None for -1."""
        return None if length == -1 else self.take(length)


def wrap(value: int) -> int:
    """Return a sum wrapped to 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def read(data: bytes, *, with_headers: bool = True) -> tuple[list[Row], int]:
    """Return the records of all whole batches and messages, and the position after the last.

    Without headers, only their number and total size are checked.
    """
    rows: list[Row] = []
    position = 0
    while True:
        rest = data[position:]
        is_batch = len(rest) > MAGIC_AT and rest[MAGIC_AT] > 1
        if len(rest) < (HEADER.size if is_batch else MESSAGE_SIZE_MIN):
            return rows, position
        length = int.from_bytes(rest[8:LENGTH_END], "big", signed=True)
        least = (HEADER.size if is_batch else MESSAGE_SIZE_MIN) - LENGTH_END
        if not least <= length <= LENGTH_MAX:
            raise WrongBytesError
        size = length + LENGTH_END
        if size > len(rest):
            return rows, position
        rows += _batch(rest[:size], with_headers) if is_batch else [_message(rest[:size])]
        position += size


def _batch(data: bytes, with_headers: bool) -> list[Row]:
    (base_offset, _, _, magic, _, attributes, _, base_time, max_time, _, _, _, count) = (
        HEADER.unpack_from(data)
    )
    if magic != 2:
        raise WrongBytesError
    if attributes & CONTROL:
        return []
    reader = Reader(data[HEADER.size :])
    if not 0 <= count <= reader.left // RECORD_SIZE_MIN:
        raise WrongBytesError
    rows = []
    for _ in range(count):
        record = Reader(reader.take(reader.varint()))
        record.take(1)
        timestamp = wrap(base_time + record.varint(64))
        rows.append(
            Row(
                wrap(base_offset + record.varint()),
                max_time if attributes & LOG_APPEND_TIME else timestamp,
                int(attributes & LOG_APPEND_TIME != 0),
                record.bytes_or_null(record.varint()),
                record.bytes_or_null(record.varint()),
                _headers(record, with_headers),
            )
        )
    if reader.left:
        raise WrongBytesError
    return rows


def _headers(record: Reader, with_headers: bool) -> Headers:
    count = record.varint()
    if not 0 <= count <= record.left // 2:
        raise WrongBytesError
    if not with_headers and count > 0:
        return []
    headers = []
    for _ in range(count):
        name = record.take(record.varint())
        headers.append((name, record.bytes_or_null(record.varint())))
    if record.left:
        raise WrongBytesError
    return headers


def _message(data: bytes) -> Row:
    reader = Reader(data)
    offset = reader.integer(8)
    reader.take(8)  # size, CRC
    magic, attributes = reader.integer(1), reader.integer(1)
    timestamp = reader.integer(8) if magic == 1 else -1
    kind = int(attributes & LOG_APPEND_TIME != 0) if magic == 1 else -1
    key = reader.bytes_or_null(reader.integer(4))
    value = reader.bytes_or_null(reader.integer(4))
    if reader.left:
        raise WrongBytesError
    return Row(offset, timestamp, kind, key, value, [])
