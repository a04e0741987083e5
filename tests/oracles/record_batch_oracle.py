"""Record batches of version 2 in plain Python, by Kafka's protocol guide and nothing else."""

import struct
from dataclasses import astuple, dataclass
from typing import NamedTuple

import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_START = 21  # the checksum covers what stands behind it
LENGTH_MAX = 1 << 30  # more than any setting allows
LENGTH_END = 12  # the length counts what stands behind it
CODECS = range(5)
CONTROL = 0x20

Headers = list[tuple[bytes, bytes | None]]


class Record(NamedTuple):
    """A record as it stands in its batch."""

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def encode(self) -> bytes:
        """Return the record with its length."""
        body = b"\0" + varint(self.timestamp_delta) + varint(self.offset_delta)
        body += nullable(self.key) + nullable(self.value) + varint(len(self.headers))
        for name, content in self.headers:
            body += nullable(name) + nullable(content)
        return varint(len(body)) + body


@dataclass
class Header:
    """The fields of a header in their order; the length and the CRC are computed if None."""

    base_offset: int = 0
    length: int | None = None
    leader_epoch: int = 0
    magic: int = 2
    crc: int | None = None
    attributes: int = 0
    last_offset_delta: int = 0
    base_timestamp: int = 0
    max_timestamp: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    record_count: int = 1

    def encode(self, payload: bytes) -> bytes:
        """Return the batch."""
        values = list(astuple(self))
        values[1] = HEADER.size - LENGTH_END + len(payload) if self.length is None else self.length
        values[4] = 0
        unsigned = HEADER.pack(*values) + payload
        values[4] = crc32c.crc32c(unsigned[CRC_START:]) if self.crc is None else self.crc
        return HEADER.pack(*values) + payload


def varint(value: int) -> bytes:
    """Return a zigzag varint."""
    rest = value * 2 if value >= 0 else -value * 2 - 1
    encoded = []
    while rest > 127:
        encoded.append(rest % 128 + 128)
        rest //= 128
    return bytes([*encoded, rest])


def nullable(content: bytes | None) -> bytes:
    """Return bytes with their length before them, -1 for None."""
    return varint(-1) if content is None else varint(len(content)) + content


def read_varint(data: bytes, position: int) -> tuple[int, int] | None:
    """Return a zigzag varint of at most 32 bits and the position behind it, or None."""
    value = 0
    for place in range(5):
        if position + place >= len(data):
            return None
        byte = data[position + place]
        value += (byte & 127) << 7 * place
        if byte < 128:
            folded = value // 2 if value % 2 == 0 else -(value // 2) - 1
            return (folded, position + place + 1) if value < 2**32 else None
    return None


def what_is_wrong(data: bytes) -> str | None:
    """Return why a client may not send this, or None."""
    if not data:
        return "no batch"
    if len(data) < HEADER.size:
        return "a batch cut short"
    header = Header(*HEADER.unpack_from(data))
    assert header.length is not None
    end = header.length + LENGTH_END
    if end < HEADER.size or header.length > LENGTH_MAX:
        return "a length that no batch has"
    if end > len(data):
        return "a batch cut short"
    if header.magic != 2:
        return "a magic other than 2"
    if end < len(data):
        return "bytes after the batch"
    if header.crc != crc32c.crc32c(data[CRC_START:]):
        return "a CRC that does not fit"
    return _wrong_with(header, data[HEADER.size :])


def _wrong_with(header: Header, payload: bytes) -> str | None:
    counts = "counts that do not fit the records"
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        return counts
    codec = header.attributes & 7
    if codec not in CODECS or header.attributes & CONTROL:
        return "attributes a client may not set"
    if header.producer_id >= 0 and min(header.producer_epoch, header.base_sequence) < 0:
        return counts
    if codec == 0:
        return None if _fits(payload, header.record_count) else counts
    unfolded_max = max(16 << 20, 4 * (HEADER.size + len(payload)))
    return counts if header.record_count > unfolded_max // 7 else None


def _fits(payload: bytes, count: int) -> bool:
    position = 0
    for _ in range(count):
        read = read_varint(payload, position)
        if read is None or read[0] < 0:
            return False
        position = read[0] + read[1]
        if position > len(payload):
            return False
    return position == len(payload)
