"""LZ4 frames (version 1 of the frame format, little-endian), any number of them.

    4  magic 04 22 4d 18; 5x 2a 4d 18 begins a frame to be skipped: int32 size, so many bytes
    1  flags: bits 7-6 version 1, 5 blocks are independent, 4 block checksums, 3 content size,
       2 content checksum, 0 dictionary id
    1  bits 6-4 largest block: 4 64 KiB, 5 256 KiB, 6 1 MiB, 7 4 MiB
    8  content size when flagged
    1  header checksum: the second byte of XXH32 of the flags up to here. Java's clients took the
       magic into it until message format 1; readers of magic 0 expect that "broken" one.
    4  size of a block, bit 31: stored as it is; 0 ends the frame
       the block, then its XXH32 when flagged; again and again
    4  XXH32 of the content when flagged

Kafka's readers in Java know independent blocks only, and that is what is written here, block by
block as Java's clients do: 64 KiB each, no checksums, no content size (the batch has its own CRC).
Independent blocks without checksums are also read block by block, straight into the output. Others
(aiokafka writes checksums, python-lz4 by default links blocks) go through the library's decoder of
whole frames, which checks them.
"""

from functools import cache, lru_cache
from struct import Struct, iter_unpack
from types import ModuleType
from typing import NamedTuple

from broker.codec.compression.libraries import verdict
from broker.codec.packages import missing
from broker.model.compressions import LZ4
from broker.model.errors import CodecError, Corrupt, LimitExceeded, Truncated, Unsupported
from broker.model.limits import COMPRESSED_FRAME_PIECES, compressed_pieces_max

_MAGIC = 0x184D2204
_MAGIC_SKIPPED, _MAGIC_SKIPPED_MASK = 0x184D2A50, 0xFFFFFFF0
_MAGIC_LEGACY = 0x184C2102

_VERSION = 0x40
_VERSION_MASK = 0xC0
_INDEPENDENT = 0x20
_BLOCK_CHECKSUMS = 0x10
_CONTENT_SIZE = 0x08
_CONTENT_CHECKSUM = 0x04
_RESERVED = 0x02
_DICTIONARY = 0x01
_BLOCK_MAX_RESERVED = 0x8F
_BLOCK_MAX_CODE_MIN = 4

_STORED = 1 << 31
_END = bytes(4)
_CHECKSUM_SIZE = 4
# A byte makes a match 255 bytes longer, and no sequence does better.
_EXPANSION_MAX = 255

_START = Struct("<IBB")
_ONE_BLOCK = Struct("<IBBBI")  # and the size of the first block
_SIZE = Struct("<I")
_CONTENT_SIZE_FIELD = Struct("<Q")
_HEADER_SIZE_MIN = 7

_WRITTEN_BLOCK = 64 * 1024
_WRITTEN_DESCRIPTOR = bytes([_VERSION | _INDEPENDENT, _BLOCK_MAX_CODE_MIN << 4])


class _Frame(NamedTuple):
    start: int
    end: int
    checksum_at: int  # of the header
    plain: bool  # independent blocks, no checksums
    block_max: int
    content_size: int | None
    content_max: int  # what the blocks can unfold to
    blocks: list[int]  # where their sizes stand


def compress(data: memoryview, level: int, *, broken: bool) -> bytes:
    """Return one frame; `broken`: with the header checksum of magic 0.

    Level 9, Kafka's default, is the fast compressor, as in Java's clients, and so is 1. The others
    are those of the thorough one, which takes what is above 12 for 12.
    """
    right, wrong = _header_checksums(_WRITTEN_DESCRIPTOR)
    header = _SIZE.pack(_MAGIC) + _WRITTEN_DESCRIPTOR + bytes([wrong if broken else right])
    if level == LZ4.level_default:
        return _compress_fast(data, header)
    return _compress_densely(data, header, level)


def _compress_fast(data: memoryview, header: bytes) -> bytes:
    compress_block = _library().compress_block
    parts: list[bytes | memoryview] = [header]
    for start in range(0, len(data), _WRITTEN_BLOCK):
        content = data[start : start + _WRITTEN_BLOCK]
        block = compress_block(content, store_size=False)
        if len(block) < len(content):
            parts += (_SIZE.pack(len(block)), block)
        else:
            parts += (_SIZE.pack(len(content) | _STORED), content)
    parts.append(_END)
    return b"".join(parts)


def _compress_densely(data: memoryview, header: bytes, level: int) -> bytes:
    """The library has levels for whole frames only, and those with block checksums: they go."""
    compressor = _library().Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # it takes nothing else; the copy is 1 % of the time
    compressed = memoryview(compressor.finish())
    (frame,) = _frames(compressed)
    parts: list[bytes | memoryview] = [header]
    for position in frame.blocks:
        size = _SIZE.unpack_from(compressed, position)[0] & ~_STORED
        parts.append(compressed[position : position + _SIZE.size + size])
    parts.append(_END)
    return b"".join(parts)


def decompress(data: memoryview, size_max: int, *, strict: bool = False) -> bytes:
    """Return the content of all frames; CodecError when they are damaged or too long.

    `strict`: Unsupported, too, for what Kafka's readers in Java cannot read.
    """
    frames = _strict_frames(data) if strict else _frames(data)
    content = bytearray(min(size_max, sum(frame.content_max for frame in frames)))
    with memoryview(content) as output:
        count = _decompress_frames(data, frames, output)
        return bytes(output[:count])


def decompress_into(
    data: memoryview, output: memoryview, pieces_max: int | None = None, *, strict: bool = False
) -> int:
    """Write the content of all frames to the front of `output`; how many bytes it took."""
    count = _decompress_one_block(data, output)
    if count is None:
        frames = _strict_frames(data, pieces_max) if strict else _frames(data, pieces_max)
        count = _decompress_frames(data, frames, output)
    return count


def _decompress_one_block(data: memoryview, output: memoryview) -> int | None:
    """Unfold what most batches are; None when this is something else or cannot be unfolded."""
    block_size = len(data) - _ONE_BLOCK.size - _SIZE.size
    if not 0 < block_size <= _WRITTEN_BLOCK:
        return None
    magic, flags, block_max_code, checksum, size = _ONE_BLOCK.unpack_from(data)
    if (
        magic != _MAGIC
        or flags != _WRITTEN_DESCRIPTOR[0]
        or block_max_code != _WRITTEN_DESCRIPTOR[1]
        or checksum != _header_checksums(_WRITTEN_DESCRIPTOR)[0]
        or _SIZE.unpack_from(data, len(data) - _SIZE.size)[0]
    ):
        return None
    place = output[:_WRITTEN_BLOCK]
    block = data[_ONE_BLOCK.size : -_SIZE.size]
    if size == block_size | _STORED and block_size <= len(place):
        place[:block_size] = block
        return block_size
    if size != block_size:
        return None
    decompress_block = _library().decompress_block_into
    try:
        count: int = decompress_block(block, place, len(place))
    except BaseException as error:  # noqa: BLE001 - verdict() has the reason
        verdict(error)
        return None
    return count


# ---- where things stand --------------------------------------------------------------------------


def _frames(data: memoryview, pieces_max: int | None = None) -> list[_Frame]:
    """Where the frames and their blocks stand; nothing is unfolded yet."""
    if not data:
        raise Truncated("lz4: no frame", 0)
    frames: list[_Frame] = []
    position = 0
    pieces_left = pieces_max or compressed_pieces_max(len(data))
    while position < len(data):
        if len(data) - position < _HEADER_SIZE_MIN:
            raise Truncated("lz4: a frame header that is cut short", position)
        magic, flags, block_max_code = _START.unpack_from(data, position)
        pieces_left -= COMPRESSED_FRAME_PIECES
        if pieces_left < 0:
            raise _too_many(position)
        if magic == _MAGIC:
            frame = _frame(data, position, flags, block_max_code, pieces_left)
            frames.append(frame)
            pieces_left -= len(frame.blocks)
            position = frame.end
        else:
            position = _skipped_end(data, position, magic)
    return frames


def _strict_frames(data: memoryview, pieces_max: int | None = None) -> list[_Frame]:
    """The same, of what Kafka's readers in Java can read, who see the first frame alone."""
    frames = _frames(data, pieces_max)
    if len(frames) != 1 or frames[0].start or frames[0].end != len(data):
        raise Unsupported("lz4: anything but one frame", 0)
    descriptor = data[_SIZE.size : frames[0].checksum_at].tobytes()
    if not descriptor[0] & _INDEPENDENT:
        raise Unsupported("lz4: linked blocks", 0)
    if data[frames[0].checksum_at] != _header_checksums(descriptor)[0]:
        raise Unsupported("lz4: the header checksum of magic 0", frames[0].checksum_at)
    return frames


def _frame(
    data: memoryview, start: int, flags: int, block_max_code: int, blocks_max: int
) -> _Frame:
    block_max, content_size, checksum_at = _header(data, start, flags, block_max_code)
    checksum_size = _CHECKSUM_SIZE if flags & _BLOCK_CHECKSUMS else 0
    position = checksum_at + 1
    size_of = _SIZE.unpack_from
    last = len(data) - _SIZE.size
    content_max = 0
    blocks: list[int] = []
    while True:
        if position > last:
            raise Truncated("lz4: a frame without an end", min(position, len(data)))
        size: int = size_of(data, position)[0]
        if size == 0:
            break
        blocks.append(position)
        if size & _STORED:
            size ^= _STORED
            content_max += size
        else:
            content_max += min(block_max, size * _EXPANSION_MAX)
        if size > block_max:
            raise Corrupt(f"lz4: a block of {size} bytes, at most {block_max}", position)
        position += _SIZE.size + size + checksum_size
        if len(blocks) > blocks_max:
            raise _too_many(position)
    end = position + _SIZE.size + (_CHECKSUM_SIZE if flags & _CONTENT_CHECKSUM else 0)
    if end > len(data):
        raise Truncated("lz4: a content checksum that is cut short", position)
    if content_size is not None:
        if content_size > content_max:
            raise Corrupt(f"lz4: {content_size} bytes in blocks of at most {content_max}", start)
        content_max = content_size
    plain = flags & (_INDEPENDENT | _BLOCK_CHECKSUMS | _CONTENT_CHECKSUM) == _INDEPENDENT
    return _Frame(start, end, checksum_at, plain, block_max, content_size, content_max, blocks)


def _header(
    data: memoryview, start: int, flags: int, block_max_code: int
) -> tuple[int, int | None, int]:
    """The largest block, the content's size and the place of the header checksum."""
    if flags & _VERSION_MASK != _VERSION:
        raise Unsupported(f"lz4: version {flags >> 6} of the frame format, expected 1", start)
    if flags & _DICTIONARY:
        raise Unsupported("lz4: a frame that needs a dictionary", start)
    code = block_max_code >> 4
    if flags & _RESERVED or block_max_code & _BLOCK_MAX_RESERVED or code < _BLOCK_MAX_CODE_MIN:
        raise Corrupt(f"lz4: flags {flags:#x} and {block_max_code:#x}", start)
    checksum_at = start + _START.size
    content_size: int | None = None
    if flags & _CONTENT_SIZE:
        checksum_at += _CONTENT_SIZE_FIELD.size
        if checksum_at >= len(data):
            raise Truncated("lz4: a frame header that is cut short", start)
        content_size = _CONTENT_SIZE_FIELD.unpack_from(data, start + _START.size)[0]
    descriptor = data[start + _SIZE.size : checksum_at].tobytes()
    if data[checksum_at] not in _header_checksums(descriptor):
        raise Corrupt(f"lz4: a header checksum of {data[checksum_at]:#x}", checksum_at)
    return 1 << (2 * code + 8), content_size, checksum_at


def _skipped_end(data: memoryview, start: int, magic: int) -> int:
    if magic & _MAGIC_SKIPPED_MASK != _MAGIC_SKIPPED:
        if magic == _MAGIC_LEGACY:
            raise Unsupported("lz4: a frame of the legacy format", start)
        raise Corrupt(f"lz4: a frame that begins with {magic:#x}", start)
    content = start + 2 * _SIZE.size
    if content > len(data):
        raise Truncated("lz4: a frame header that is cut short", start)
    end: int = content + _SIZE.unpack_from(data, start + _SIZE.size)[0]
    if end > len(data):
        raise Truncated("lz4: a frame to be skipped that is cut short", start)
    return end


def _too_many(position: int) -> LimitExceeded:
    return LimitExceeded("lz4: too many blocks and frames", position)


# ---- unfolding -----------------------------------------------------------------------------------


def _decompress_frames(data: memoryview, frames: list[_Frame], output: memoryview) -> int:
    written = 0
    for frame in frames:
        left = output[written:] if written else output
        size = frame.content_size
        if size is not None:
            if size > len(left):
                raise LimitExceeded(f"lz4: {size} bytes, left are {len(left)}", frame.start)
            left = left[:size]
        decompress_frame = _decompress_plain if frame.plain else _decompress_other
        count = decompress_frame(data, frame, left)
        if size is not None and count != size:
            raise Corrupt(f"lz4: {count} bytes, declared are {size}", frame.start)
        written += count
    return written


def _decompress_plain(data: memoryview, frame: _Frame, output: memoryview) -> int:
    decompress_block = _library().decompress_block_into
    block_max = frame.block_max
    written = 0
    for position in frame.blocks:
        size: int = _SIZE.unpack_from(data, position)[0]
        start = position + _SIZE.size
        place = output[written : written + block_max]
        if size & _STORED:
            size ^= _STORED
            if size > len(place):
                raise _over(frame, position, len(output))
            place[:size] = data[start : start + size]
            written += size
            continue
        block = data[start : start + size]
        try:
            written += decompress_block(block, place, len(place))
        except BaseException as error:  # noqa: BLE001 - verdict() has the reason
            reason = verdict(error)
            if len(place) < block_max and _decompresses(block, block_max):
                raise _over(frame, position, len(output)) from None
            raise Corrupt(f"lz4: {reason} in the block", position) from None
    return written


def _decompresses(block: memoryview, block_max: int) -> bool:
    """Whether a block is sound: the library has one answer for damaged and for too long."""
    place = bytearray(min(block_max, len(block) * _EXPANSION_MAX))
    try:
        _library().decompress_block_into(block, place, len(place))
    except BaseException as error:  # noqa: BLE001
        verdict(error)
        return False
    return True


def _decompress_other(data: memoryview, frame: _Frame, output: memoryview) -> int:
    compressed: memoryview | bytearray = data[frame.start : frame.end]
    right, _ = _header_checksums(data[frame.start + _SIZE.size : frame.checksum_at].tobytes())
    if data[frame.checksum_at] != right:  # broken, and the library does not know of that
        compressed = bytearray(compressed)
        compressed[frame.checksum_at - frame.start] = right
    library = _library()
    try:
        count: int = library.decompress_into(compressed, output)
    except BaseException as error:  # noqa: BLE001 - verdict() has the reason
        reason = verdict(error)
        if "failed to write whole buffer" in reason:  # Rust's words for an output that is full
            raise _over(frame, frame.start, len(output)) from None
        raise Corrupt(f"{reason} in the frame", frame.start) from None
    return count


def _over(frame: _Frame, position: int, size_max: int) -> CodecError:
    if frame.content_size is not None:
        return Corrupt(f"lz4: more than the declared {frame.content_size} bytes", position)
    return LimitExceeded(f"lz4: more than the {size_max} bytes that are left", position)


@cache
def _library() -> ModuleType:
    try:
        from cramjam import lz4  # noqa: PLC0415 - 4 MB of code that a broker seldom needs
    except ImportError:
        raise missing("cramjam", "lz4") from None
    return lz4


# ---- the header checksum -------------------------------------------------------------------------

_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_UINT32 = 0xFFFFFFFF


@lru_cache(maxsize=256)  # a producer's headers are all the same
def _header_checksums(descriptor: bytes) -> tuple[int, int]:
    """The right and the broken checksum of a header whose flags begin this descriptor."""
    broken = _SIZE.pack(_MAGIC) + descriptor
    return _short_xxh32(descriptor) >> 8 & 0xFF, _short_xxh32(broken) >> 8 & 0xFF


def _short_xxh32(data: bytes) -> int:
    """XXH32 without a seed of fewer than 16 bytes, which is what a header has."""
    assert len(data) < 16  # noqa: PLR2004 - longer input has lanes
    value = _PRIMES[4] + len(data)
    whole = len(data) & ~3
    for (word,) in iter_unpack("<I", data[:whole]):
        value = _rotated(value + word * _PRIMES[2], 17) * _PRIMES[3]
    for byte in data[whole:]:
        value = _rotated(value + byte * _PRIMES[4], 11) * _PRIMES[0]
    value &= _UINT32
    value = (value ^ value >> 15) * _PRIMES[1] & _UINT32
    value = (value ^ value >> 13) * _PRIMES[2] & _UINT32
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _UINT32
    return value << bits | value >> 32 - bits
