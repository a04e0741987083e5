"""Decompression of record batches, bounded: what a few bytes may unfold to is the caller's to say.

Kafka's codecs, by the number in a batch's attributes: 1 gzip, 2 snappy (raw, or in the frames of
the Java library, "xerial"), 3 lz4 (frame format), 4 zstd. A declared size is never believed: output
goes into a buffer that ends at the limit.
"""

import zlib
from collections.abc import Callable
from typing import Final

from broker.model.errors import Corrupt, LimitExceeded, Truncated, Unsupported

GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4

_GZIP_WINDOW = 31  # zlib: the largest window, in a gzip wrapper
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16  # magic, version, oldest compatible version
_LENGTH_SIZE = 4
_VARINT_BYTES_MAX = 5
_CONTINUED = 0x80


def decompress(codec: int, data: bytes, size_max: int) -> bytes:
    """Unfold the records of a batch; CodecError when they are damaged or larger than `size_max`."""
    try:
        unfold = _CODECS[codec]
    except KeyError:
        raise Unsupported(f"codec {codec}, expected 1 to {ZSTD}") from None
    return unfold(data, size_max)


def decompress_into(codec: int, data: memoryview, output: memoryview) -> int:
    """Unfold into a buffer and return how many bytes that were."""
    content = decompress(codec, bytes(data), len(output))
    output[: len(content)] = content
    return len(content)


def _gzip(data: bytes, size_max: int) -> bytes:
    unfolding = zlib.decompressobj(_GZIP_WINDOW)
    try:
        content = unfolding.decompress(data, size_max)
    except zlib.error as error:
        raise Corrupt(f"gzip: {error}") from None
    if not unfolding.eof:
        raise LimitExceeded(f"gzip: cut short, or more than {size_max} bytes")
    return content


def _snappy(data: bytes, size_max: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, size_max)
    blocks = []
    position = _XERIAL_HEADER_SIZE
    left = size_max
    while position < len(data):
        start = position + _LENGTH_SIZE
        end = start + int.from_bytes(data[position:start], "big")
        if end > len(data):
            raise Truncated(f"snappy: a block of {end - start} bytes, {len(data) - start} are left")
        blocks.append(_snappy_block(data[start:end], left))
        left -= len(blocks[-1])
        position = end
    return b"".join(blocks)


def _snappy_block(data: bytes, size_max: int) -> bytes:
    import cramjam  # noqa: PLC0415 - 2 MB of code that a broker seldom needs

    size = _declared_size(data)
    if size > size_max:
        raise LimitExceeded(f"snappy: {size} bytes, allowed are {size_max}")
    return _into(cramjam.snappy.decompress_raw_into, "snappy", data, size)


def _declared_size(data: bytes) -> int:
    size = 0
    for place, byte in enumerate(data[:_VARINT_BYTES_MAX]):
        size |= (byte & ~_CONTINUED) << (7 * place)
        if byte < _CONTINUED:
            return size
    raise Corrupt("snappy: no size at the start of a block")


def _lz4(data: bytes, size_max: int) -> bytes:
    import cramjam  # noqa: PLC0415

    return _into(cramjam.lz4.decompress_into, "lz4", data, size_max)


def _zstd(data: bytes, size_max: int) -> bytes:
    import cramjam  # noqa: PLC0415

    return _into(cramjam.zstd.decompress_into, "zstd", data, size_max)


def _into(unfold: Callable[[bytes, bytearray], int], name: str, data: bytes, size: int) -> bytes:
    buffer = bytearray(size)
    try:
        count = unfold(data, buffer)
    except Exception as error:  # noqa: BLE001 - cramjam's own class, which derives from Exception
        raise Corrupt(f"{name}: damaged, or more than {size} bytes ({error})") from None
    return bytes(buffer[:count])


_CODECS: Final[dict[int, Callable[[bytes, int], bytes]]] = {
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
