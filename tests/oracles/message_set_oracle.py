"""Message sets of magic 0 and 1 in plain Python, by Kafka's protocol guide alone."""

import struct
import zlib
from dataclasses import dataclass

SIZE_END = 12  # the size counts the bytes after it
CRC_END = 16  # the checksum covers the bytes after it
LOG_APPEND_TIME = 8


@dataclass
class Message:
    """A message; its size and CRC are computed if None, magic 0 has no timestamp."""

    offset: int = 0
    key: bytes | None = None
    value: bytes | None = None
    magic: int = 1
    attributes: int = 0
    timestamp: int = -1
    size: int | None = None
    crc: int | None = None

    def encode(self) -> bytes:
        """Return the message with its offset and size."""
        body = struct.pack(">bb", self.magic, self.attributes)
        if self.magic == 1:
            body += struct.pack(">q", self.timestamp)
        body += _nullable(self.key) + _nullable(self.value)
        crc = zlib.crc32(body) if self.crc is None else self.crc
        size = 4 + len(body) if self.size is None else self.size
        return struct.pack(">qiI", self.offset, size, crc) + body


def encode(messages: list[Message]) -> bytes:
    """Return a message set."""
    return b"".join(message.encode() for message in messages)


def _nullable(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content
