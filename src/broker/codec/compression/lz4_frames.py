"""LZ4 frames (version 1 of the frame format, little-endian), any number of them.

    4  magic 04 22 4d 18; 5x 2a 4d 18 begins a skippable frame: int32 size, that many bytes
    1  flags: bits 7-6 version 1, 5 blocks are independent, 4 block checksums, 3 content size,
       2 content checksum, 0 dictionary id
    1  bits 6-4 largest block: 4 64 KiB, 5 256 KiB, 6 1 MiB, 7 4 MiB
    8  content size when flagged
    1  header checksum: the second byte of XXH32 of the bytes from the flags on. Java's clients
       included the magic in it until message format 1 (KIP-57); readers of magic 0 expect that
       "broken" checksum.
    4  size of a block, bit 31: not compressed; 0 ends the frame
       the block, then its XXH32 when flagged; repeated
    4  XXH32 of the content when flagged

Kafka's Java readers support independent blocks only. Frames are written as by Java's clients, block
by block: 64 KiB each, no checksums, no content size (the batch has its own CRC). Independent blocks
without checksums are also read block by block, directly into the output. Other frames (aiokafka
writes checksums, python-lz4 links blocks by default) are read by the library's frame decoder, which
verifies the checksums.
"""

from functools import cache, lru_cache
from struct import Struct, iter_unpack
from types import ModuleType
from typing import NamedTuple

from broker.codec.compression.libraries import input_error, skipped_end
from broker.codec.packages import import_optional
from broker.model.compressions import LZ4
from broker.model.errors import CodecError, Corrupt, LimitExceeded, Truncated, Unsupported
from broker.model.limits import COMPRESSED_FRAME_PIECES, compressed_pieces_max

_MAGIC = 0x184D2204
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
# The best case: each byte of input makes a match 255 bytes longer.
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
    content_max: int  # the largest content that the blocks can have
    blocks: list[int]  # the positions of their size fields


def compress(data: memoryview, level: int, *, broken: bool) -> bytes:
    """Return one frame; `broken`: with the header checksum of magic 0.

    Level 9, Kafka's default, is the fast compressor, as in Java's clients; so is 1. The other
    levels are those of LZ4 HC, which treats levels above 12 as 12.
    """
    correct, broken_checksum = _header_checksums(_WRITTEN_DESCRIPTOR)
    header = (
        _SIZE.pack(_MAGIC) + _WRITTEN_DESCRIPTOR + bytes([broken_checksum if broken else correct])
    )
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
    """Compress with LZ4 HC, which the library has for frames with block checksums: remove those."""
    compressor = _library().Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # it accepts only bytes; the copy is 1 % of the time
    compressed = memoryview(compressor.finish())
    (frame,) = _frames(compressed)
    parts: list[bytes | memoryview] = [header]
    for position in frame.blocks:
        size = _SIZE.unpack_from(compressed, position)[0] & ~_STORED
        parts.append(compressed[position : position + _SIZE.size + size])
    parts.append(_END)
    return b"".join(parts)


def decompress(data: memoryview, size_max: int, *, strict: bool = False) -> bytes:
    """Return the content of all frames; raise CodecError if they are damaged or too long.

    `strict`: raise Unsupported for frames that Kafka's Java readers cannot read.
    """
    frames = _strict_frames(data) if strict else _frames(data)
    content = bytearray(min(size_max, sum(frame.content_max for frame in frames)))
    with memoryview(content) as output:
        count = _decompress_frames(data, frames, output)
        return bytes(output[:count])


def decompress_into(
    data: memoryview, output: memoryview, pieces_max: int | None = None, *, strict: bool = False
) -> int:
    """Write the content of all frames to the start of `output`; return its size."""
    count = _decompress_one_block(data, output)
    if count is None:
        frames = _strict_frames(data, pieces_max) if strict else _frames(data, pieces_max)
        count = _decompress_frames(data, frames, output)
    return count


def _decompress_one_block(data: memoryview, output: memoryview) -> int | None:
    """Decompress the most common form, one frame of one block; return None for anything else."""
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
    target = output[:_WRITTEN_BLOCK]
    block = data[_ONE_BLOCK.size : -_SIZE.size]
    if size == block_size | _STORED and block_size <= len(target):
        target[:block_size] = block
        return block_size
    if size != block_size:
        return None
    decompress_block = _library().decompress_block_into
    try:
        count: int = decompress_block(block, target, len(target))
    except BaseException as error:  # noqa: BLE001 - input_error() has the reason
        input_error(error)
        return None
    return count


# ---- the layout of frames ------------------------------------------------------------------------


def _frames(data: memoryview, pieces_max: int | None = None) -> list[_Frame]:
    """Return the frames and the positions of their blocks, without decompressing them."""
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
        elif magic == _MAGIC_LEGACY:
            raise Unsupported("lz4: a frame of the legacy format", position)
        else:
            position = skipped_end("lz4", data, position, magic)
    return frames


def _strict_frames(data: memoryview, pieces_max: int | None = None) -> list[_Frame]:
    """Return the only frame; raise Unsupported if Kafka's Java readers could not read all of it."""
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
    """Return the largest block size, the content size and the position of the header checksum."""
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


def _too_many(position: int) -> LimitExceeded:
    return LimitExceeded("lz4: too many blocks and frames", position)


# ---- decompression -------------------------------------------------------------------------------


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
        target = output[written : written + block_max]
        if size & _STORED:
            size ^= _STORED
            if size > len(target):
                raise _over(frame, position, len(output))
            target[:size] = data[start : start + size]
            written += size
            continue
        block = data[start : start + size]
        try:
            written += decompress_block(block, target, len(target))
        except BaseException as error:  # noqa: BLE001 - input_error() has the reason
            reason = input_error(error)
            if len(target) < block_max and _decompresses(block, block_max):
                raise _over(frame, position, len(output)) from None
            raise Corrupt(f"lz4: {reason} in the block", position) from None
    return written


def _decompresses(block: memoryview, block_max: int) -> bool:
    """Return whether a block is intact: the library has one error for damaged and for too long."""
    target = bytearray(min(block_max, len(block) * _EXPANSION_MAX))
    try:
        _library().decompress_block_into(block, target, len(target))
    except BaseException as error:  # noqa: BLE001
        input_error(error)
        return False
    return True


def _decompress_other(data: memoryview, frame: _Frame, output: memoryview) -> int:
    compressed: memoryview | bytearray = data[frame.start : frame.end]
    correct, _ = _header_checksums(data[frame.start + _SIZE.size : frame.checksum_at].tobytes())
    if (
        data[frame.checksum_at] != correct
    ):  # the checksum of magic 0, which the library does not accept
        compressed = bytearray(compressed)
        compressed[frame.checksum_at - frame.start] = correct
    library = _library()
    try:
        count: int = library.decompress_into(compressed, output)
    except BaseException as error:  # noqa: BLE001 - input_error() has the reason
        reason = input_error(error)
        if "failed to write whole buffer" in reason:  # Rust's message for a full output
            raise _over(frame, frame.start, len(output)) from None
        raise Corrupt(f"{reason} in the frame", frame.start) from None
    return count


def _over(frame: _Frame, position: int, size_max: int) -> CodecError:
    if frame.content_size is not None:
        return Corrupt(f"lz4: more than the declared {frame.content_size} bytes", position)
    return LimitExceeded(f"lz4: more than the {size_max} bytes that are left", position)


@cache
def _library() -> ModuleType:
    # Not before it is needed: it is 4 MB of code.
    library: ModuleType = import_optional("cramjam", "lz4").lz4
    return library


# ---- the header checksum -------------------------------------------------------------------------

_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_UINT32 = 0xFFFFFFFF


@lru_cache(maxsize=256)  # the headers of one producer are equal
def _header_checksums(descriptor: bytes) -> tuple[int, int]:
    """Return the correct and the broken checksum of a header, given its bytes from the flags on."""
    broken = _SIZE.pack(_MAGIC) + descriptor
    return _short_xxh32(descriptor) >> 8 & 0xFF, _short_xxh32(broken) >> 8 & 0xFF


def _short_xxh32(data: bytes) -> int:
    """Return XXH32 with seed 0 of fewer than 16 bytes, as headers have."""
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
