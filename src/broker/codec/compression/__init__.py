"""Kafka's compression types: compress, and decompress up to a limit of the caller.

    >>> compressed = compress(1, b"records " * 1_000)
    >>> decompress(1, compressed, size_max=8_000) == b"records " * 1_000
    True
    >>> decompress(1, compressed, size_max=7_999)
    Traceback (most recent call last):
    ...
    broker.model.errors.LimitExceeded: gzip: more than the allowed 7999 bytes at byte 0

A codec is the number in bits 0-2 of a batch's attributes (model/compressions.py has the names and
levels): 0 none, 1 gzip, 2 snappy (raw, or in the frames of Java's clients, "xerial"), 3 lz4 (frame
format), 4 zstd. The module of each format describes its bytes.

Input may be any C-contiguous buffer; it is copied only if a library needs bytes or a header must be
changed for the library. The sizes that it declares are not trusted: nothing is written past the
output, and the allocation is bounded by the smaller of the limit and the largest content of so much
input (in addition: zstd's window, limits.ZSTD_WINDOW_BYTES_MAX or the limit, and 8.2 MiB of lz4's
library if blocks are linked or have checksums). No loop of this package runs more than
limits.compressed_pieces_max() times for one input.

Bytes that cannot be decompressed raise CodecError: Truncated, Corrupt, Unsupported (a feature of
the format, an unknown codec, or a package that is not installed) or LimitExceeded, with the
position of the fault in the input if there is one. Wrong arguments raise ValueError or TypeError.
Packages for compression are imported when their codec is first used.
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
    """Compress `data` as Kafka's Java clients do.

    `magic` is that of the batch or message set that will hold it: the lz4 frames of magic 0 have a
    wrong header checksum (KIP-57), and readers of magic 0 accept no other.

    Raises ValueError for an unknown codec and for a level that the codec does not have; Unsupported
    if the codec's package is not installed.
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
    """Decompress `data` to at most `size_max` bytes.

    `strict` is for data that other clients will read: lz4 that Kafka's Java clients cannot read
    (linked blocks, the header checksum of magic 0, more than one frame) is Unsupported.

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
    """Decompress `data` into `output`, which may be longer; return the size of the content.

    The bytes of `output` after the content, and all of them after an error, are undefined. `data`
    and `output` must not overlap. `strict` is that of `decompress`; more blocks than `pieces_max`
    are LimitExceeded (a frame counts as limits.COMPRESSED_FRAME_PIECES). The libraries write the
    content of snappy, lz4 and large zstd frames directly to `output`; that of gzip and small zstd
    frames is copied once.

    Raises CodecError (see above), LimitExceeded if the content is longer than `output`; TypeError
    if `output` is read-only.
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
    """Decompress a producer's batch on the event loop: strict, and with few blocks only."""
    return decompress_into(
        codec, data, output, strict=True, pieces_max=PRODUCE_DECOMPRESSED_PIECES_MAX
    )


def _view(buffer: "Buffer") -> memoryview:
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    if view.format == "B" and view.ndim == 1 and view.c_contiguous:
        return view
    return view.cast("B")  # raises TypeError if it is not contiguous


def _unknown(codec: int) -> Unsupported:
    return Unsupported(f"codec {codec}, expected 0 to {len(COMPRESSIONS) - 1}")


def _copy(data: memoryview, size_max: int) -> bytes:
    if len(data) > size_max:
        raise LimitExceeded(f"{len(data)} bytes, allowed are {size_max}")
    return bytes(data)


def _copy_into(data: memoryview, output: memoryview, _pieces_max: int | None) -> int:
    if len(data) > len(output):
        raise LimitExceeded(f"{len(data)} bytes, allowed are {len(output)}")
    output[: len(data)] = data
    return len(data)


_DECOMPRESS: Final[dict[int, _Decompress]] = {
    NONE.number: _copy,
    GZIP.number: gzip_members.decompress,
    SNAPPY.number: snappy_blocks.decompress,
    LZ4.number: lz4_frames.decompress,
    ZSTD.number: zstd_frames.decompress,
}
_DECOMPRESS_INTO: Final[dict[int, _DecompressInto]] = {
    NONE.number: _copy_into,
    GZIP.number: gzip_members.decompress_into,
    SNAPPY.number: snappy_blocks.decompress_into,
    LZ4.number: lz4_frames.decompress_into,
    ZSTD.number: zstd_frames.decompress_into,
}
