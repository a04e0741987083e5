"""Every decompressor: within the limit for any input, and both functions agree."""

import struct
from functools import partial

from broker.codec.compression import compress, decompress, decompress_into, lz4_frames
from broker.model.compressions import COMPRESSIONS, GZIP, LZ4, SNAPPY, ZSTD
from broker.model.errors import CodecError, LimitExceeded
from tests.fuzz.inputs import Options, exact, outcome

SIZE_MAX = 1 << 16
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
XERIAL_LENGTH = struct.Struct(">I")
LEVEL_MAX = 9  # the higher ones are slow
LZ4_DESCRIPTOR_AT = 4
LZ4_HAS_SIZE = 0x08


def check_both_ways(codec: int, content: bytes, options: Options) -> None:
    """Decompress to a limit that the input chooses, both ways; compress and decompress again."""
    size_max = min(1 << options.byte(0) % 17, SIZE_MAX) + options.byte(1) - 1
    data = exact(content)
    whole = outcome(len(data), partial(decompress, codec, data, size_max))
    output = exact(bytes(size_max))
    count = outcome(len(data), partial(decompress_into, codec, data, output))
    if isinstance(whole, CodecError):
        # Where two things are wrong, each function may report another one first.
        assert isinstance(count, CodecError), f"{whole!r}, but into memory {count} bytes"
    else:
        assert not isinstance(count, CodecError), f"{len(whole)} bytes, but into memory {count!r}"
        assert len(whole) <= size_max
        assert output[:count].tobytes() == whole
        if whole:
            less = outcome(len(data), partial(decompress, codec, data, len(whole) - 1))
            assert isinstance(less, CodecError)
        again = exact(bytes(len(whole)))
        try:
            assert decompress_into(codec, data, again) == len(whole)
        except LimitExceeded:
            # liblz4 accepts matches at the invalid offset 0 if the output is longer than they are.
            assert codec == LZ4.number
        else:
            assert again.tobytes() == whole
    if options.flag(2, 0):
        round_trip(codec, content, options)


def round_trip(codec: int, content: bytes, options: Options) -> None:
    """Compress the input itself at any level, and decompress that."""
    known = COMPRESSIONS[codec]
    level = None
    if options.flag(2, 1) and known.level_default is not None:
        level = max(known.level_min, min(options.byte(3) - 128, known.level_max, LEVEL_MAX))
    compressed = compress(codec, exact(content), level, magic=options.byte(2) >> 2 & 1)
    assert decompress(codec, compressed, len(content)) == content
    output = exact(bytes(len(content)))
    assert decompress_into(codec, exact(compressed), output) == len(content)
    assert output.tobytes() == content


def gzip(data: bytes) -> None:
    options = Options(data)
    check_both_ways(GZIP.number, options.content, options)


def snappy(data: bytes) -> None:
    options = Options(data)
    check_both_ways(SNAPPY.number, options.content, options)


def xerial(data: bytes) -> None:
    """Compress in blocks of about a quarter, so that a change of one keeps the framing valid."""
    options = Options(data)
    content = options.content
    if options.flag(2, 3):
        check_both_ways(SNAPPY.number, content, options)
        return
    size = max(1, len(content) * options.byte(4) // 255)
    blocks = [content[start : start + size] for start in range(0, len(content), size)]
    framed = XERIAL_HEADER + b"".join(XERIAL_LENGTH.pack(len(each)) + each for each in blocks)
    check_both_ways(SNAPPY.number, framed, options)


def lz4(data: bytes) -> None:
    """Perhaps correct the header checksum, so that mutations pass the check."""
    options = Options(data)
    content = bytearray(options.content)
    if options.flag(2, 3) and len(content) > LZ4_DESCRIPTOR_AT:
        flags = content[LZ4_DESCRIPTOR_AT]
        end = LZ4_DESCRIPTOR_AT + (10 if flags & LZ4_HAS_SIZE else 2)
        if end < len(content):
            content[end] = lz4_frames._header_checksums(bytes(content[LZ4_DESCRIPTOR_AT:end]))[0]
    check_both_ways(LZ4.number, bytes(content), options)


def zstd(data: bytes) -> None:
    options = Options(data)
    check_both_ways(ZSTD.number, options.content, options)
