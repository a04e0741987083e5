"""Snappy as used by Kafka: one raw block, or blocks in the framing of snappy-java ("xerial").

    raw block  varint size of the content (at most 2^32 - 1), then literals and copies
    xerial     8  82 'SNAPPY' 00
               4  version, 4 oldest compatible version (int32; 1 and 1; little-endian by some
               clients) 4  int32 size of a raw block, then that block; repeated a whole header may
               be repeated in place of a block's size (concatenated streams)

Java's clients and brokers write xerial with blocks of 32 KiB of content, and read both.
"""

from functools import cache
from struct import Struct
from types import ModuleType

from broker.codec.compression.libraries import input_error
from broker.codec.packages import import_optional
from broker.model.errors import CodecError, Corrupt, LimitExceeded, Truncated
from broker.model.limits import compressed_pieces_max

_MAGIC = b"\x82SNAPPY\x00"
_MAGIC_AS_SIZE = int.from_bytes(_MAGIC[:4], "big")
_HEADER = _MAGIC + b"\x00\x00\x00\x01" * 2
_SIZE = Struct(">I")
_BLOCK_CONTENT = 32 * 1024
# The best case: three bytes copy 64 (rounded up). A larger declared size cannot be reached.
_EXPANSION_MAX = 22


def compress(data: memoryview) -> bytes:
    """Return a xerial stream as written by Java's clients."""
    compress_block = _library().compress_raw
    parts = [_HEADER]
    for start in range(0, len(data), _BLOCK_CONTENT):
        block = compress_block(data[start : start + _BLOCK_CONTENT])
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def decompress(data: memoryview, size_max: int) -> bytes:
    """Return the content; raise CodecError if it is damaged or too long."""
    blocks = _blocks(data)
    size = sum(_declared_size(data[start:end], start) for start, end in blocks)
    if size > size_max:
        raise LimitExceeded(f"snappy: {size} bytes, allowed are {size_max}")
    content = bytearray(size)
    with memoryview(content) as output:
        _decompress_blocks(data, blocks, output)
    return bytes(content)


def decompress_into(data: memoryview, output: memoryview, pieces_max: int | None = None) -> int:
    """Write the content to the start of `output`; return its size."""
    if data[: len(_MAGIC)] != _MAGIC:
        return _decompress_block(data, 0, output)
    start = len(_HEADER) + _SIZE.size
    if len(data) > start and _SIZE.unpack_from(data, len(_HEADER))[0] == len(data) - start:
        return _decompress_block(data[start:], start, output)  # one block, as in most batches
    return _decompress_blocks(data, _blocks(data, pieces_max), output)


def _blocks(data: memoryview, pieces_max: int | None = None) -> list[tuple[int, int]]:
    """Return the start and end of each raw block."""
    if data[: len(_MAGIC)] != _MAGIC:
        return [(0, len(data))]
    blocks = []
    position = pieces = 0
    pieces_max = pieces_max or compressed_pieces_max(len(data))
    while position < len(data):
        pieces += 1
        if pieces > pieces_max:
            raise LimitExceeded(f"snappy: more than {pieces_max} blocks", position)
        if len(data) - position < _SIZE.size:
            raise Truncated("snappy: the size of a block is cut short", position)
        size = _SIZE.unpack_from(data, position)[0]
        if size == _MAGIC_AS_SIZE:
            position = _header_end(data, position)
            continue
        start = position + _SIZE.size
        if size > len(data) - start:
            raise Truncated(f"snappy: {len(data) - start} bytes of a block of {size}", start)
        blocks.append((start, start + size))
        position = start + size
    return blocks


def _header_end(data: memoryview, position: int) -> int:
    if data[position : position + len(_MAGIC)] != _MAGIC:
        raise Corrupt("snappy: a header that is not of xerial", position)
    if len(data) - position < len(_HEADER):
        raise Truncated("snappy: a header that is cut short", position)
    return position + len(_HEADER)


def _decompress_blocks(data: memoryview, blocks: list[tuple[int, int]], output: memoryview) -> int:
    written = 0
    for start, end in blocks:
        written += _decompress_block(data[start:end], start, output[written:])
    return written


def _decompress_block(block: memoryview, start: int, output: memoryview) -> int:
    library = _library()
    try:
        count: int = library.decompress_raw_into(block, output)
    except BaseException as error:  # noqa: BLE001 - input_error() has the reason
        raise _error(block, start, len(output), error) from None
    return count


def _error(block: memoryview, start: int, size_max: int, error: BaseException) -> CodecError:
    reason = input_error(error)
    size = _declared_size(block, start)
    if size > size_max:
        return LimitExceeded(f"snappy: {size} bytes, allowed are {size_max}", start)
    return Corrupt(f"{reason} in the block", start)


def _declared_size(block: memoryview, start: int) -> int:
    """Return the declared size of the content, if the block is long enough for it."""
    if not block:
        raise Truncated("snappy: an empty block", start)
    library = _library()
    try:
        size: int = library.decompress_raw_len(block)
    except BaseException as error:  # noqa: BLE001 - input_error() has the reason
        raise Corrupt(f"{input_error(error)} in the block", start) from None
    if size > len(block) * _EXPANSION_MAX:
        raise Truncated(f"snappy: {len(block)} bytes of a block with a content of {size}", start)
    return size


@cache
def _library() -> ModuleType:
    # Not before it is needed: it is 4 MB of code.
    library: ModuleType = import_optional("cramjam", "snappy").snappy
    return library
