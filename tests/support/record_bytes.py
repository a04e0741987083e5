"""Batches and message sets for tests of their readers, and a reader's results as rows."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from broker.codec import Columns, compression, decode_columns, records
from tests.oracles import message_set_oracle as message_set
from tests.oracles.message_set_oracle import Message
from tests.oracles.record_batch_oracle import Header, Record
from tests.oracles.records_oracle import Row, wrap

TIMESTAMP = 1_700_000_000_000
COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
GZIP, SNAPPY, LZ4, ZSTD = CODECS = (1, 2, 3, 4)
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20

Entry = tuple[int, int, bytes | None, bytes | None]

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
contents = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=140)
headers = st.lists(st.tuples(st.binary(max_size=8), contents), max_size=3)


# ---- written -------------------------------------------------------------------------------------


def record(place: int, key: bytes | None = None, value: bytes | None = b"value") -> Record:
    """Return a record with these offset and timestamp deltas."""
    return Record(place, place, key, value, [])


def batch(parts: Sequence[Record], base_offset: int = 0, *, codec: int = 0, **fields: int) -> bytes:
    """Return a batch whose header fits its records, except for the given fields."""
    payload = b"".join(part.encode() for part in parts)
    header = Header(
        base_offset=base_offset,
        attributes=codec,
        last_offset_delta=parts[-1].offset_delta if parts else 0,
        base_timestamp=TIMESTAMP,
        max_timestamp=wrap(TIMESTAMP + max((part.timestamp_delta for part in parts), default=0)),
        record_count=len(parts),
    )
    if "attributes" in fields:
        fields["attributes"] |= codec
    return replace(header, **fields).encode(compression.compress(codec, payload))


def some(count: int, base_offset: int = 0, *, codec: int = 0, **fields: int) -> bytes:
    """Return a batch of records that all differ."""
    parts = [record(i, b"k%d" % (base_offset + i), b"v%d" % i) for i in range(count)]
    return batch(parts, base_offset, codec=codec, **fields)


def of_two(payload: bytes, base_offset: int = 0, **fields: int) -> bytes:
    """Return a batch whose header says two records, with these bytes instead of them."""
    header = Header(base_offset=base_offset, record_count=2, last_offset_delta=1)
    return replace(header, **fields).encode(payload)


def marker(producer_id: int, offset: int, *, is_commit: bool) -> bytes:
    """Return the control batch that ends a transaction."""
    key = b"\0\0\0\1" if is_commit else b"\0\0\0\0"
    part = Record(0, 0, key, b"\0\0\0\0\0\0", [])
    return batch([part], offset, attributes=CONTROL | TRANSACTIONAL, producer_id=producer_id)


def wrapper(inner: list[Message], codec: int = GZIP, **fields: Any) -> bytes:
    """Return a compressed message around others; its offset is that of the last one."""
    magic = inner[0].magic if inner else 1
    value = compression.compress(codec, message_set.encode(inner), magic=magic)
    outer = Message(
        offset=inner[-1].offset if inner else 0,
        value=value,
        magic=magic,
        attributes=codec,
        timestamp=max((each.timestamp for each in inner), default=-1),
    )
    return replace(outer, **fields).encode()


def unfit_message(offset: int = 0) -> bytes:
    """Return a message with a correct CRC, but with a key longer than the message."""
    sound = Message(offset, b"key").encode()
    body = sound[16:26] + struct.pack(">i", 100) + sound[30:]
    return sound[:12] + struct.pack(">I", zlib.crc32(body)) + body


# ---- read ----------------------------------------------------------------------------------------


def numbers(columns: Columns, name: str) -> list[int]:
    """Return a column of numbers."""
    return list(memoryview(columns.column(name)))


def contents_of(columns: Columns, name: str) -> list[bytes | None]:
    """Return the bytes that the spans of a column point to."""
    data = memoryview(columns.data).cast("B")
    starts, lengths = numbers(columns, f"{name}_start"), numbers(columns, f"{name}_length")
    return [
        None if length < 0 else bytes(data[start : start + length])
        for start, length in zip(starts, lengths, strict=True)
    ]


def entries_of(data: bytes) -> list[Entry]:
    """Return offset, timestamp, key and value of all records, of any magic."""
    columns = decode_columns(data)
    lists = [memoryview(columns.column(name)).tolist() for name in columns.names]
    whole = memoryview(columns.data)
    return [
        (
            offset,
            timestamp,
            None if key_size < 0 else bytes(whole[key : key + key_size]),
            None if value_size < 0 else bytes(whole[value : value + value_size]),
        )
        for offset, timestamp, key, key_size, value, value_size in zip(*lists, strict=True)
    ]


def rows(columns: Columns) -> list[Row]:
    """Return the records of columns that were all decoded."""
    names = contents_of(columns, "header_key")
    values = contents_of(columns, "header_value")
    found, first = [], 0
    for place, end in enumerate(numbers(columns, "header_end")):
        assert first <= end <= len(names)
        found.append([(names[i] or b"", values[i]) for i in range(first, end)])
        first = end
        assert len(found) == place + 1
    assert first == len(names)
    numeric = [numbers(columns, name) for name in ("offset", "timestamp", "timestamp_type")]
    texts = [contents_of(columns, name) for name in ("key", "value")]
    return [Row(*row) for row in zip(*numeric, *texts, found, strict=True)]


def objects(data: Any, **options: Any) -> list[Row]:
    """Return the records that the lazy reader yields."""
    return [
        Row(each.offset, each.timestamp, each.timestamp_type, each.key, each.value, each.headers)
        for each in records(data, **options)
    ]
