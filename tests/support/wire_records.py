"""Record batches (magic 2) built and read in plain Python, with every header field to one's hand.

base offset 8, length 4, leader epoch 4, magic 1, crc32c 4 (of all that follows), attributes 2,
last offset delta 4, base timestamp 8, max timestamp 8, producer id 8, producer epoch 2,
base sequence 4, record count 4, records
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_FROM = 21  # The checksum covers the bytes after it.
LENGTH_FROM = 12  # The length counts the bytes after it.
TIMESTAMP = 1_700_000_000_000
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True)
class Batch:
    """A batch to send; fields that are None are computed, the others are sent as they are."""

    values: Sequence[bytes | None] = (b"value",)
    base_offset: int = 0
    magic: int = 2
    attributes: int = 0
    timestamp: int = TIMESTAMP
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    length: int | None = None
    crc: int | None = None
    last_offset_delta: int | None = None
    count: int | None = None
    payload: bytes | None = None  # The bytes after the header, compressed if they should be.

    def encode(self) -> bytes:
        """Return the bytes."""
        payload = encode_records(self.values) if self.payload is None else self.payload
        count = len(self.values) if self.count is None else self.count
        delta = len(self.values) - 1 if self.last_offset_delta is None else self.last_offset_delta
        length = HEADER.size - LENGTH_FROM + len(payload) if self.length is None else self.length
        after_crc = (
            self.attributes,
            delta,
            self.timestamp,
            self.timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            count,
        )
        unsigned = HEADER.pack(self.base_offset, length, -1, self.magic, 0, *after_crc) + payload
        crc = crc32c.crc32c(unsigned[CRC_FROM:]) if self.crc is None else self.crc
        return HEADER.pack(self.base_offset, length, -1, self.magic, crc, *after_crc) + payload


@dataclass(frozen=True)
class ReadBatch:
    """A batch as fetched."""

    base_offset: int
    leader_epoch: int
    producer_id: int
    base_sequence: int
    values: list[bytes | None]


def encode_records(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
) -> bytes:
    """Return records without headers, and without keys if none are given."""
    out = bytearray()
    for place, (key, value) in enumerate(zip(keys or [None] * len(values), values, strict=True)):
        # Attributes, timestamp delta 0, offset delta, key, value, no headers.
        body = b"\x00\x00" + varint(place) + field(key) + field(value) + b"\x00"
        out += varint(len(body)) + body
    return bytes(out)


def field(content: bytes | None) -> bytes:
    """Return a key or a value with its length."""
    return varint(-1) if content is None else varint(len(content)) + content


def varint(value: int) -> bytes:
    """Return a zigzag varint."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a zigzag varint and the position after it."""
    shift = raw = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position


def read_batches(data: bytes) -> Iterator[ReadBatch]:
    """Yield the whole batches of a fetched blob, each checked against its CRC."""
    position = 0
    while position + HEADER.size <= len(data):
        (base_offset, length, leader_epoch, magic, crc, attributes, delta, _, _, producer_id) = (
            HEADER.unpack_from(data, position)[:10]
        )
        base_sequence, count = HEADER.unpack_from(data, position)[11:]
        end = position + LENGTH_FROM + length
        if end > len(data):
            return
        assert magic == 2
        assert crc == crc32c.crc32c(data[position + CRC_FROM : end]), f"CRC at {base_offset}"
        assert count == delta + 1
        assert attributes & 7 == 0, "only uncompressed batches are read here"
        values = read_values(data[position + HEADER.size : end], count)
        yield ReadBatch(base_offset, leader_epoch, producer_id, base_sequence, values)
        position = end


def codec_numbers(data: bytes) -> set[int]:
    """Return the codecs in the attributes of the batches of a fetched blob."""
    found = set()
    position = 0
    while position + HEADER.size <= len(data):
        header = HEADER.unpack_from(data, position)
        found.add(header[5] & 7)
        position += LENGTH_FROM + header[1]
    return found


def read_values(data: bytes, count: int) -> list[bytes | None]:
    """Return the values of `count` records."""
    values: list[bytes | None] = []
    position = 0
    for _ in range(count):
        size, position = read_varint(data, position)
        end = position + size
        position += 1  # Attributes.
        _, position = read_varint(data, position)
        _, position = read_varint(data, position)
        key_size, position = read_varint(data, position)
        position += max(key_size, 0)
        value_size, position = read_varint(data, position)
        values.append(None if value_size < 0 else data[position : position + value_size])
        position = end
    assert position == len(data)
    return values
