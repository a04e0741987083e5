"""The types, keys and messages of the guide to the protocol of Kafka 0.8 and 0.9, by hand."""

import struct
import zlib
from collections.abc import Sequence

PRODUCE, FETCH, LIST_OFFSETS, METADATA, COMMIT, OFFSETS, COORDINATOR = 0, 1, 2, 3, 8, 9, 10
JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, API_VERSIONS = 11, 12, 13, 14, 15, 16, 18


def i8(value: int) -> bytes:
    """An int8."""
    return struct.pack(">b", value)


def i16(value: int) -> bytes:
    """An int16."""
    return struct.pack(">h", value)


def i32(value: int) -> bytes:
    """An int32."""
    return struct.pack(">i", value)


def i64(value: int) -> bytes:
    """An int64."""
    return struct.pack(">q", value)


def text(value: str | None) -> bytes:
    """A string, with its length as an int16; None is null."""
    return i16(-1) if value is None else i16(len(value)) + value.encode()


def data(value: bytes | None) -> bytes:
    """Bytes, with their length as an int32; None is null."""
    return i32(-1) if value is None else i32(len(value)) + value


def array(items: Sequence[bytes]) -> bytes:
    """An array: its count and its elements."""
    return i32(len(items)) + b"".join(items)


def message(magic: int, offset: int, value: bytes, timestamp_ms: int = -1) -> bytes:
    """Return a plain message without a key; that of magic 0 has no timestamp."""
    rest = i8(magic) + i8(0) + (i64(timestamp_ms) if magic else b"") + data(None) + data(value)
    return i64(offset) + i32(len(rest) + 4) + struct.pack(">I", zlib.crc32(rest)) + rest
