"""Zstandard frames (RFC 8878, little-endian), any number of them.

    4  magic 28 b5 2f fd; 5x 2a 4d 18 begins a skippable frame: int32 size, that many bytes
    1  descriptor: bits 7-6 size of the content size field, 5 single segment (no window follows),
       3 reserved, 2 content checksum, 1-0 size of the dictionary id
    1  window, unless single segment: bits 7-3 exponent e, 2-0 mantissa m: 2^(10+e) * (1 + m/8)
    0  to 4: dictionary id
    0  to 8: content size; one byte at least when single segment
    3  block header: bit 0 last block, 2-1 type (raw, one repeated byte, compressed), 23-3 size
       the block (one byte when repeated); its content is at most 128 KiB and the window
    4  checksum of the content when flagged

The library allocates the window before it reads a block, and headers may declare up to 3.75 TiB.
Therefore the frames are parsed first, which gives bounds and exact errors. Java's clients do not
know the content size when they begin and declare the window of their level, up to 128 MiB at level
22. Such a frame is decompressed with a smaller window: matches only refer back within the content,
so a window of the largest allowed content is sufficient.

The library is zstandard, whose contexts are reused: for batches of a few kilobytes it is 3 to 6
times as fast as cramjam, which is used if zstandard is not installed.
"""

from functools import cache
from struct import Struct
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from broker.codec.compression.libraries import input_error, skipped_end
from broker.codec.packages import not_installed
from broker.model.compressions import ZSTD
from broker.model.errors import CodecError, Corrupt, LimitExceeded, Truncated, Unsupported
from broker.model.limits import (
    COMPRESSED_FRAME_PIECES,
    ZSTD_WINDOW_BYTES_MAX,
    compressed_pieces_max,
)

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor

_MAGIC = 0xFD2FB528

_SINGLE_SEGMENT = 0x20
_UNUSED = 0x10
_RESERVED = 0x08
_CHECKSUM = 0x04
_DICTIONARY_MASK = 0x03
_DICTIONARY_SIZES = (0, 1, 2, 4)
_CONTENT_SIZES = (0, 2, 4, 8)
_UNSIGNED = ("", "B", "H", "", "I", "", "", "", "Q")  # by size
_TWO_BYTES_ADD = 256  # added to a content size of two bytes

_LAST = 1
_COMPRESSED = 2
_REPEATED = 1
_BLOCK_MAX = 128 * 1024
_BLOCK_EXPONENT = 17  # of _BLOCK_MAX
# Up to these sizes one call and a copy cost less than a reader that writes in place.
_SMALL, _SMALL_COMPRESSED = 64 * 1024, 16 * 1024
_WINDOW_EXPONENT_MIN = 10
_WINDOW_EXPONENT_MAX = 31  # the largest that the library supports
_WINDOW_AT_MOST = (ZSTD_WINDOW_BYTES_MAX.bit_length() - 1 - _WINDOW_EXPONENT_MIN) << 3

_START = Struct("<IB")
_BLOCK_HEADER = Struct("<HB")
_CHECKSUM_SIZE = 4

# Decompressors not in use; as many as were ever used at the same time. A call pops one and is then
# its only user, also with several threads or in a signal handler.
_idle: "list[ZstdDecompressor]" = []
_idle_compressors: "list[ZstdCompressor]" = []  # of the default level


class _Outline(NamedTuple):
    content_min: int  # the sum of the declared sizes
    content_max: int  # the same, with the largest content of frames without a declared size
    window_at: list[int]  # the positions of windows that are larger than ZSTD_WINDOW_BYTES_MAX


def compress(data: memoryview, level: int) -> bytes:
    """Return one frame with its content size and without a checksum."""
    zstandard = _zstandard()
    if zstandard is None:
        return bytes(_cramjam().compress(data, level))
    if level != ZSTD.level_default:
        compressed: bytes = zstandard.ZstdCompressor(level=level).compress(data)
        return compressed
    try:
        compressor = _idle_compressors.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=level)
    compressed = compressor.compress(data)
    _idle_compressors.append(compressor)
    return compressed


def decompress(data: memoryview, size_max: int) -> bytes:
    """Return the content of all frames; raise CodecError if they are damaged or too long."""
    content = _decompress_one_block(data, size_max)
    if content is not None:
        return content
    outline = _outline(data)
    buffer = bytearray(min(size_max, outline.content_max))
    with memoryview(buffer) as output:
        count = _decompress(data, outline, output)
        return bytes(output[:count])


def decompress_into(data: memoryview, output: memoryview, pieces_max: int | None = None) -> int:
    """Write the content of all frames to the start of `output`; return its size."""
    content = _decompress_one_block(data, len(output))
    if content is None:
        return _decompress(data, _outline(data, pieces_max), output)
    count = len(content)
    output[:count] = content
    return count


# ---- one frame of one block, as in most batches --------------------------------------------------


class _ShortHeader(NamedTuple):
    fields: Struct  # of the frame's header and its first block's
    around: int  # bytes before and after that block
    has_window: bool
    size_size: int  # of the content size


@cache
def _short_header(descriptor: int) -> _ShortHeader | None:
    """Return the layout of a header with this descriptor; None if it has a dictionary."""
    if descriptor & (_RESERVED | _UNUSED | _DICTIONARY_MASK):
        return None
    single = bool(descriptor & _SINGLE_SEGMENT)
    size_size = _CONTENT_SIZES[descriptor >> 6] or int(single)
    fields = Struct("<IB" + "B" * (not single) + _UNSIGNED[size_size] + "HB")
    around = fields.size + (_CHECKSUM_SIZE if descriptor & _CHECKSUM else 0)
    return _ShortHeader(fields, around, not single, size_size)


def _one_block_max(data: memoryview) -> int:
    """Return the largest content if the data is one frame of one small block, else 0."""
    short = _short_header(data[4]) if len(data) > _START.size else None
    if short is None or len(data) <= short.around:
        return 0
    header, around, has_window, size_size = short
    fields = header.unpack_from(data)
    low, high = fields[-2:]
    if (
        fields[0] != _MAGIC
        or low & 3 != _LAST  # neither repeated nor reserved
        or (high << 13 | low >> 3) + around != len(data)
        or (has_window and fields[2] > _WINDOW_AT_MOST)
    ):
        return 0
    if not size_size:
        return _BLOCK_MAX if len(data) <= _SMALL_COMPRESSED else 0
    size = fields[-3] + (_TWO_BYTES_ADD if size_size == 2 else 0)  # noqa: PLR2004
    return size if size <= _SMALL else 0


def _decompress_one_block(data: memoryview, size_max: int) -> bytes | None:
    """Decompress one frame of one block, at half the cost of a reader; else return None.

    The caller copies the result while it is still in the processor's cache.
    """
    content_max = min(size_max, _one_block_max(data))
    zstandard = _zstandard()
    if not content_max or zstandard is None:
        return None
    decompressor = _decompressor(zstandard, ZSTD_WINDOW_BYTES_MAX)
    try:
        content: bytes = decompressor.decompress(data, content_max)
    except zstandard.ZstdError:
        return None
    _idle.append(decompressor)  # not after an error: it may hold half a frame
    return content if len(content) <= size_max else None


# ---- the layout of frames ------------------------------------------------------------------------


def _outline(data: memoryview, pieces_max: int | None = None) -> _Outline:
    """Return the bounds of all frames, without decompressing them."""
    position = frame_count = content_min = content_max = 0
    window_at: list[int] = []
    blocks_left = pieces_max or compressed_pieces_max(len(data))
    while position < len(data) or not frame_count:
        frame_count += 1
        blocks_left -= COMPRESSED_FRAME_PIECES
        if blocks_left < 0:
            raise _too_many(position)
        if len(data) - position < _START.size:
            raise Truncated("zstd: a frame header that is cut short", position)
        magic, descriptor = _START.unpack_from(data, position)
        if magic != _MAGIC:
            position = skipped_end("zstd", data, position, magic)
            continue
        window, size, blocks_at = _header(data, position, descriptor)
        if window > ZSTD_WINDOW_BYTES_MAX and not descriptor & _SINGLE_SEGMENT:
            window_at.append(position + _START.size)
        end, frame_max, blocks_left = _blocks(data, blocks_at, window, blocks_left)
        if size is not None:
            if size > frame_max:
                raise Corrupt(f"zstd: {size} bytes in blocks of at most {frame_max}", position)
            content_min += size
            frame_max = size
        content_max += frame_max
        position = end + (_CHECKSUM_SIZE if descriptor & _CHECKSUM else 0)
        if position > len(data):
            raise Truncated("zstd: a checksum that is cut short", end)
    return _Outline(content_min, content_max, window_at)


def _header(data: memoryview, start: int, descriptor: int) -> tuple[int, int | None, int]:
    """Return the window size, the content size and the position of the first block."""
    if descriptor & _RESERVED:
        raise Corrupt(f"zstd: a frame header descriptor of {descriptor:#x}", start)
    position = start + _START.size
    single = descriptor & _SINGLE_SEGMENT
    size_size = _CONTENT_SIZES[descriptor >> 6] or (1 if single else 0)
    dictionary_size = _DICTIONARY_SIZES[descriptor & _DICTIONARY_MASK]
    blocks_at = position + (not single) + dictionary_size + size_size
    if blocks_at > len(data):
        raise Truncated("zstd: a frame header that is cut short", start)
    window = 0
    if not single:
        exponent, mantissa = data[position] >> 3, data[position] & 7
        base = 1 << (_WINDOW_EXPONENT_MIN + exponent)
        window = base + (base >> 3) * mantissa
        position += 1
    if any(data[position : position + dictionary_size]):
        raise Unsupported("zstd: a frame that needs a dictionary", start)
    size = None
    if size_size:
        size = int.from_bytes(data[blocks_at - size_size : blocks_at], "little")
        if size_size == 2:  # noqa: PLR2004 - see _TWO_BYTES_ADD
            size += _TWO_BYTES_ADD
        if single:
            window = size
    return window, size, blocks_at


def _blocks(data: memoryview, position: int, window: int, blocks_left: int) -> tuple[int, int, int]:
    """Return the end of a frame's blocks, their largest content, and how many more are allowed."""
    block_max = min(window, _BLOCK_MAX)
    last = len(data) - _BLOCK_HEADER.size
    header_at = _BLOCK_HEADER.unpack_from
    frame_max = 0
    while True:
        if position > last:
            raise Truncated("zstd: a frame without a last block", min(position, len(data)))
        low, high = header_at(data, position)
        size = (high << 16 | low) >> 3
        kind = low >> 1 & 3
        if kind == _COMPRESSED:
            frame_max += block_max
        elif kind <= _REPEATED:
            frame_max += size
        if kind > _COMPRESSED or size > block_max:
            raise Corrupt(f"zstd: a block of type {kind} and {size} bytes", position)
        position += _BLOCK_HEADER.size + (1 if kind == _REPEATED else size)
        blocks_left -= 1
        if low & _LAST:
            break
        if blocks_left < 0:
            raise _too_many(position)
    if position > len(data):
        raise Truncated("zstd: a block that is cut short", len(data))
    return position, frame_max, blocks_left


def _too_many(position: int) -> LimitExceeded:
    return LimitExceeded("zstd: too many blocks and frames", position)


# ---- decompression -------------------------------------------------------------------------------


def _decompress(data: memoryview, outline: _Outline, output: memoryview) -> int:
    if outline.content_min > len(output):
        raise LimitExceeded(f"zstd: {outline.content_min} bytes, allowed are {len(output)}")
    window = ZSTD_WINDOW_BYTES_MAX
    if outline.window_at:
        # One block more than the limit, so that content after the output still decompresses and is
        # reported as too long.
        content_max = min(outline.content_max, len(output) + _BLOCK_MAX)
        exponent = max((content_max - 1).bit_length(), _BLOCK_EXPONENT)
        exponent = min(exponent, _WINDOW_EXPONENT_MAX)
        window = max(window, 1 << exponent)
        data = _with_window(data, outline.window_at, exponent)
    if not output:
        with memoryview(bytearray(1)) as place:
            if _decompress_bounded(data, place, window):
                raise LimitExceeded("zstd: more than the allowed 0 bytes")
        return 0
    return _decompress_bounded(data, output, window)


def _decompressor(zstandard: ModuleType, window: int) -> "ZstdDecompressor":
    """Return a decompressor; the caller appends it to _idle again unless an error occurs."""
    if window == ZSTD_WINDOW_BYTES_MAX:
        try:
            return _idle.pop()
        except IndexError:
            pass  # all are in use
    made: ZstdDecompressor = zstandard.ZstdDecompressor(max_window_size=window)
    return made


def _with_window(data: memoryview, window_at: list[int], exponent: int) -> memoryview:
    """Return a copy whose frames declare a window of 2^exponent bytes."""
    changed = bytearray(data)
    for position in window_at:
        changed[position] = (exponent - _WINDOW_EXPONENT_MIN) << 3
    return memoryview(changed)


def _decompress_bounded(data: memoryview, output: memoryview, window: int) -> int:
    zstandard = _zstandard()
    if zstandard is None:
        return _decompress_with_cramjam(data, output)
    decompressor = _decompressor(zstandard, window)
    try:
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            count: int = reader.readinto(output)
            # The end of the last frame is verified only if the reader finds nothing after it.
            if count == len(output) and reader.read(1):
                raise _over(output)
    except zstandard.ZstdError as error:
        raise _error(str(error), output) from None
    if window == ZSTD_WINDOW_BYTES_MAX:
        _idle.append(decompressor)
    return count


def _decompress_with_cramjam(data: memoryview, output: memoryview) -> int:
    library = _cramjam()
    try:
        count: int = library.decompress_into(data, output)
    except BaseException as error:  # noqa: BLE001 - input_error() has the reason
        raise _error(input_error(error), output) from None
    return count


def _error(reason: str, output: memoryview) -> CodecError:
    if "failed to write whole buffer" in reason:  # Rust's message for a full output
        return _over(output)
    if "too much memory" in reason:  # a segment that does not fit after the content of other frames
        return LimitExceeded(f"zstd: {reason}")
    return Corrupt(f"zstd: {reason}")


def _over(output: memoryview) -> LimitExceeded:
    return LimitExceeded(f"zstd: more than the allowed {len(output)} bytes")


@cache
def _zstandard() -> ModuleType | None:
    try:
        import zstandard  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return zstandard


@cache
def _cramjam() -> ModuleType:
    try:
        from cramjam import zstd  # noqa: PLC0415 - 4 MB of code that a broker seldom needs
    except ImportError:
        raise not_installed("zstandard", "zstd") from None
    return zstd
