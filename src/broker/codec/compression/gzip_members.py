"""gzip (RFC 1952): usually one member; the format allows any number.

    10  header 1f 8b 08, flags, time, extra flags, system; then what the flags announce
        deflated content
    8   trailer: CRC-32 of the content, its size modulo 2^32 (little-endian)

The library checks headers and trailers; this module bounds the output and iterates over the
members. The library is isal, else zlib-ng, else zlib: the three have the same interface.
"""

from functools import cache
from types import ModuleType

from broker.model.errors import Corrupt, LimitExceeded, Truncated
from broker.model.limits import COMPRESSED_FRAME_PIECES, compressed_pieces_max

_WINDOW = 31  # wbits of zlib: the largest window, in a gzip wrapper
_ISAL_LEVELS = {-1: 2, 1: 1, 2: 2}
# Input after the first member is passed to the library in pieces that begin with this size. At the
# end of a member the library copies the rest of the piece; without pieces many small members would
# take quadratic time.
_PIECE_MIN = 4_096


def compress(data: memoryview, level: int) -> bytes:
    """Return one member, at a level of 1 to 9 or -1 for the library's own choice.

    isal is used for levels -1, 1 and 2: it is nine times as fast as zlib's default of 6, and its
    output is 2 (words) to 28 % (JSON) larger. Higher levels are compressed by zlib-ng or zlib,
    which compress better (docs/decisions/0017-gzip-by-isa-l.md).
    """
    library = _library()
    if library.__name__ == "isal.isal_zlib":
        if level in _ISAL_LEVELS:
            level = _ISAL_LEVELS[level]
        else:
            library = _denser_library()
    compressed: bytes = library.compress(data, level, _WINDOW)
    return compressed


def decompress(data: memoryview, size_max: int, pieces_max: int | None = None) -> bytes:
    """Return the content of all members; raise CodecError if they are damaged or too long."""
    library = _library()
    content, position = _member(library, data, 0, len(data), size_max)
    if position == len(data):
        return content
    members = [content]
    members_max = (pieces_max or compressed_pieces_max(len(data))) // COMPRESSED_FRAME_PIECES
    left = size_max - len(content)
    while position < len(data):
        if len(members) == members_max:
            raise LimitExceeded(f"gzip: more than {members_max} members", position)
        content, position = _member(library, data, position, _PIECE_MIN, left)
        left -= len(content)
        members.append(content)
    return b"".join(members)


def decompress_into(data: memoryview, output: memoryview, pieces_max: int | None = None) -> int:
    """Copy the content of all members to the start of `output`; return its size."""
    content = decompress(data, len(output), pieces_max)
    output[: len(content)] = content
    return len(content)


def _member(
    library: ModuleType, data: memoryview, start: int, piece_size: int, size_max: int
) -> tuple[bytes, int]:
    """Return the content of the member at `start` and the position after it."""
    decompressor = library.decompressobj(_WINDOW)
    parts: list[bytes] = []
    size = 0
    position = start
    while not decompressor.eof:
        if position == len(data):
            raise Truncated("gzip: a member has no end", start)
        piece = data[position : position + piece_size]
        try:
            # One byte more than allowed distinguishes too long from cut short; 0 would be no limit.
            parts.append(decompressor.decompress(piece, size_max - size + 1))
        except library.error as error:
            raise Corrupt(f"gzip: {error} in the member", start) from None
        size += len(parts[-1])
        if size > size_max:
            raise LimitExceeded(f"gzip: more than the allowed {size_max} bytes", start)
        position += len(piece) - len(decompressor.unused_data)
        piece_size *= 2
    return (parts[0] if len(parts) == 1 else b"".join(parts)), position


@cache
def _library() -> ModuleType:
    try:
        from isal import isal_zlib  # noqa: PLC0415 - optional
    except ImportError:
        return _denser_library()
    return isal_zlib


@cache
def _denser_library() -> ModuleType:
    try:
        from zlib_ng import zlib_ng  # noqa: PLC0415 - optional
    except ImportError:
        import zlib  # noqa: PLC0415 - not before a batch of gzip
    else:
        return zlib_ng
    return zlib
