"""Record batches of version 2 in plain Python, by Kafka's protocol guide alone."""

import struct
from dataclasses import astuple, dataclass
from typing import NamedTuple

import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_START = 21  # the checksum covers the bytes after it
LENGTH_MAX = 1 << 30  # more than any setting allows
LENGTH_END = 12  # the length counts the bytes after it
CODECS = range(5)
CONTROL = 0x20

Headers = list[tuple[bytes, bytes | None]]


class Record(NamedTuple):
    """A record in its batch."""

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


def read_varint(data: bytes, position: int, bits: int = 32) -> tuple[int, int] | None:
    """Return a zigzag varint of at most that many bits and the position after it, or None."""
    value = 0
    for place in range(-(-bits // 7)):
        if position + place >= len(data):
            return None
        byte = data[position + place]
        value += (byte & 127) << 7 * place
        if byte < 128:
            compressed = value // 2 if value % 2 == 0 else -(value // 2) - 1
            return (compressed, position + place + 1) if value < 2**bits else None
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
        sound = are_sound(payload, header.record_count)
        return None if sound else "records that do not fit their lengths, count or offsets"
    decompressed_max = max(16 << 20, 4 * (HEADER.size + len(payload)))
    return counts if header.record_count > decompressed_max // 7 else None


def are_sound(payload: bytes, count: int) -> bool:
    """Return whether these are exactly that many whole records, with consecutive offsets from 0."""
    position = 0
    for place in range(count):
        read = read_varint(payload, position)
        if read is None or read[0] < 0:
            return False
        start = read[1]
        position = read[0] + start
        if position > len(payload) or not _is_record(payload[start:position], place):
            return False
    return position == len(payload)


def _is_record(data: bytes, place: int) -> bool:
    time = read_varint(data, 1, 64)
    offset = time and read_varint(data, time[1])
    if not offset or offset[0] != place:
        return False
    position = offset[1]
    for _ in ("key", "value"):
        content = _step_over(data, position, -1)
        if content is None:
            return False
        position = content
    headers = read_varint(data, position)
    if headers is None or headers[0] < 0:
        return False
    position = headers[1]
    for part in range(2 * headers[0]):
        content = _step_over(data, position, -(part % 2))  # a name is never null
        if content is None:
            return False
        position = content
    return position == len(data)


def _step_over(data: bytes, position: int, length_min: int) -> int | None:
    read = read_varint(data, position)
    if read is None or read[0] < length_min:
        return None
    end = read[1] + max(read[0], 0)
    return end if end <= len(data) else None
