"""Kafka's compressions: compress and decompress bytes, the latter never beyond the caller's limit.

    >>> compressed = compress(1, b"records " * 1_000)
    >>> decompress(1, compressed, size_max=8_000) == b"records " * 1_000
    True
    >>> decompress(1, compressed, size_max=7_999)
    Traceback (most recent call last):
    ...
    broker.model.errors.LimitExceeded: gzip: more than the allowed 7999 bytes at byte 0

A codec is the number in bits 0-2 of a batch's attributes (model/compressions.py has the names and
levels): 0 none, 1 gzip, 2 snappy (raw, or in the frames of Java's clients, "xerial"), 3 lz4 (frame
format), 4 zstd. One file per format says what its bytes look like.

Input may be any C-contiguous buffer; it is copied only where a library demands it or a header must
be changed for it. What it declares about itself is never believed: nothing is written behind the
output, and no more is allocated than the smaller of the limit and what so much input can unfold to
(beside zstd's window, limits.ZSTD_WINDOW_BYTES_MAX or the limit, and the 8.2 MiB of lz4's library
where blocks are linked or have checksums). No input makes a loop of this package take more than
limits.compressed_pieces_max() turns.

Bytes that cannot be unfolded raise CodecError: Truncated, Corrupt, Unsupported (a feature of the
format, an unknown codec, or a package that is not installed, which is named) or LimitExceeded, with
the position in the input where one place is at fault. Wrong arguments raise ValueError or
TypeError. No package beside the standard library is imported before its codec is used.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from broker.codec.compression import gzip_members, lz4_frames, snappy_blocks, zstd_frames
from broker.model.compressions import COMPRESSIONS, GZIP, LZ4, NONE, SNAPPY, ZSTD
from broker.model.errors import LimitExceeded, Unsupported
from broker.model.limits import PRODUCE_DECOMPRESSED_PIECES_MAX

if TYPE_CHECKING:
    from typing_extensions import Buffer

_Decompress: TypeAlias = Callable[[memoryview, int], bytes]
_DecompressInto: TypeAlias = Callable[[memoryview, memoryview, int | None], int]

_MAGIC_WITH_BROKEN_LZ4 = 0


def compress(codec: int, data: "Buffer", level: int | None = None, *, magic: int = 2) -> bytes:
    """Fold `data` as Kafka's Java clients do.

    `magic` is that of the batch or message set which will hold it: the lz4 frames of magic 0 have a
    header checksum that is wrong in its own way, and old readers accept no other.

    Raises ValueError for an unknown codec and for a level that the codec does not have; Unsupported
    when the codec's package is not installed.
    """
    if not 0 <= codec < len(COMPRESSIONS):
        raise ValueError(f"codec {codec}, expected 0 to {len(COMPRESSIONS) - 1}")
    found = COMPRESSIONS[codec].level(level)
    source = _view(data)
    if codec == NONE.number:
        return bytes(source)
    if codec == GZIP.number:
        return gzip_members.compress(source, found)
    if codec == SNAPPY.number:
        return snappy_blocks.compress(source)
    if codec == LZ4.number:
        return lz4_frames.compress(source, found, broken=magic == _MAGIC_WITH_BROKEN_LZ4)
    return zstd_frames.compress(source, found)


def decompress(codec: int, data: "Buffer", size_max: int, *, strict: bool = False) -> bytes:
    """Unfold `data` to at most `size_max` bytes.

    `strict` is for what others will read: lz4 that Kafka's Java clients cannot read (linked blocks,
    the header checksum of magic 0, more than one frame) is Unsupported.

    Raises CodecError (see above); ValueError for a negative limit.
    """
    if size_max < 0:
        raise ValueError(f"size_max {size_max}, expected 0 or more")
    try:
        decompressor = _DECOMPRESS[codec]
    except KeyError:
        raise _unknown(codec) from None
    if strict and codec == LZ4.number:
        return lz4_frames.decompress(_view(data), size_max, strict=True)
    return decompressor(_view(data), size_max)


def decompress_into(
    codec: int,
    data: "Buffer",
    output: "Buffer",
    *,
    strict: bool = False,
    pieces_max: int | None = None,
) -> int:
    """Unfold `data` into `output`, which may be longer than the content; how many bytes it took.

    What stands in `output` behind the content, and anywhere in it after an error, is undefined.
    `data` and `output` must not overlap. `strict` is that of `decompress`; more blocks than
    `pieces_max` are LimitExceeded (a frame counts as limits.COMPRESSED_FRAME_PIECES). The bytes of
    snappy, lz4 and large zstd frames are written by the library where they belong; those of gzip
    and small zstd frames are copied once.

    Raises CodecError (see above), LimitExceeded when the content is longer than `output`; TypeError
    when `output` cannot be written.
    """
    target = _view(output)
    if target.readonly:
        raise TypeError("the output is read-only")
    try:
        decompressor = _DECOMPRESS_INTO[codec]
    except KeyError:
        raise _unknown(codec) from None
    if strict and codec == LZ4.number:
        return lz4_frames.decompress_into(_view(data), target, pieces_max, strict=True)
    return decompressor(_view(data), target, pieces_max)


def decompress_sent_into(codec: int, data: "Buffer", output: "Buffer") -> int:
    """Unfold a producer's batch on the loop, strictly; LimitExceeded where it may take long."""
    return decompress_into(
        codec, data, output, strict=True, pieces_max=PRODUCE_DECOMPRESSED_PIECES_MAX
    )


def _view(buffer: "Buffer") -> memoryview:
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    if view.format == "B" and view.ndim == 1 and view.c_contiguous:
        return view
    return view.cast("B")  # TypeError when it is not contiguous


def _unknown(codec: int) -> Unsupported:
    return Unsupported(f"codec {codec}, expected 0 to {len(COMPRESSIONS) - 1}")


def _keep(data: memoryview, size_max: int) -> bytes:
    if len(data) > size_max:
        raise LimitExceeded(f"{len(data)} bytes, allowed are {size_max}")
    return bytes(data)


def _keep_into(data: memoryview, output: memoryview, _pieces_max: int | None) -> int:
    if len(data) > len(output):
        raise LimitExceeded(f"{len(data)} bytes, allowed are {len(output)}")
    output[: len(data)] = data
    return len(data)


_DECOMPRESS: Final[dict[int, _Decompress]] = {
    NONE.number: _keep,
    GZIP.number: gzip_members.decompress,
    SNAPPY.number: snappy_blocks.decompress,
    LZ4.number: lz4_frames.decompress,
    ZSTD.number: zstd_frames.decompress,
}
_DECOMPRESS_INTO: Final[dict[int, _DecompressInto]] = {
    NONE.number: _keep_into,
    GZIP.number: gzip_members.decompress_into,
    SNAPPY.number: snappy_blocks.decompress_into,
    LZ4.number: lz4_frames.decompress_into,
    ZSTD.number: zstd_frames.decompress_into,
}
