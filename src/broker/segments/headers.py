"""From one batch to the next by their headers alone.

Layouts stand in src/_native/records/record_batch.pyx. Every magic begins with the offset, the
length of what follows, four bytes that differ, and the magic.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from broker._native.kernel.crc32c import crc32c

HEADER_SIZE: Final = 61  # of version 2; those of messages are smaller

_LENGTH_END: Final = 12
_SIZE_MAX: Final = 1 << 30  # as the broker's own
_START: Final = struct.Struct(">qi4xb")  # offset, length, magic
_VERSION_2: Final = struct.Struct(">23xi8xq")  # last offset delta, max timestamp
_VERSION_1: Final = struct.Struct(">18xq")  # timestamp
_LENGTH_MIN: Final = {0: 14, 1: 22, 2: HEADER_SIZE - _LENGTH_END}
_VERSION_0_SIZE: Final = 17
_READ_SIZE: Final = {0: _VERSION_0_SIZE, 1: _VERSION_1.size, 2: _VERSION_2.size}


class Header(NamedTuple):
    """What the header of a batch, or of a message of magic 0 and 1, says."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def scan(window: bytes) -> Iterator[Header]:
    """Step from header to header until one is not whole, or none; the last batch need not be."""
    position = 0
    while position + _VERSION_0_SIZE <= len(window):
        offset, length, magic = _START.unpack_from(window, position)
        if magic not in _LENGTH_MIN or not _LENGTH_MIN[magic] <= length <= _SIZE_MAX:
            return
        if position + _READ_SIZE[magic] > len(window):
            return
        delta, timestamp = 0, -1
        if magic == 2:  # noqa: PLR2004
            delta, timestamp = _VERSION_2.unpack_from(window, position)
        elif magic == 1:
            (timestamp,) = _VERSION_1.unpack_from(window, position)
        if delta < 0:
            return
        yield Header(position, length + _LENGTH_END, offset, offset + delta, timestamp)
        position += length + _LENGTH_END


def crc_fits(batch: bytes) -> bool:
    """Whether the CRC of a whole batch or message is right."""
    magic = batch[16]
    if magic == 2:  # noqa: PLR2004
        return int.from_bytes(batch[17:21]) == crc32c(memoryview(batch)[21:])
    return int.from_bytes(batch[12:16]) == zlib.crc32(memoryview(batch)[16:])
