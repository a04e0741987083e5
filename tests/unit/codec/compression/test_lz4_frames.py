"""lz4: headers, their two checksums, and blocks of every kind."""

import struct

import lz4.block
import lz4.frame
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from broker.codec import compression
from broker.codec.compression import decompress, decompress_into, lz4_frames
from broker.model.compressions import LZ4
from broker.model.errors import CodecError, Corrupt, LimitExceeded, Truncated, Unsupported
from broker.model.limits import COMPRESSED_PIECES_MIN
from tests.support.broken_batches import CASES, UNKNOWN_SERVER_ERROR
from tests.support.compressed import text

MANY = 2 * COMPRESSED_PIECES_MIN

MAGIC = b"\x04\x22\x4d\x18"
HEADER = MAGIC + b"\x60\x40\x82"
BROKEN_HEADER = MAGIC + b"\x60\x40"
END = bytes(4)
SKIPPED = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"


def header(flags: int, block_max: int, rest: bytes = b"") -> bytes:
    """Return a header with a correct checksum."""
    descriptor = bytes([flags, block_max]) + rest
    return MAGIC + descriptor + bytes([xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF])


def block(content: bytes) -> bytes:
    data = lz4.block.compress(content, store_size=False)
    return struct.pack("<I", len(data)) + data


def stored(content: bytes) -> bytes:
    return struct.pack("<I", len(content) | 1 << 31) + content


def decompress_lz4(data: bytes, size_max: int = 1 << 20) -> bytes:
    content = compression.decompress(3, data, size_max)
    output = bytearray(size_max)
    assert output[: compression.decompress_into(3, data, output)] == content
    return content


def test_frames_equal_those_of_javas_class() -> None:
    """The bytes are those of Kafka 4.4's own class, for magic 2 and for magic 0."""
    java = bytes.fromhex("04224d18 6040 82 05000080 68656c6c6f 00000000")
    old = bytes.fromhex("04224d18 6040 1a 05000080 68656c6c6f 00000000")

    assert compression.compress(3, b"hello") == java
    assert compression.compress(3, b"hello", magic=1) == java
    assert compression.compress(3, b"hello", magic=0) == old


def test_blocks_are_independent_and_hold_64_kib_of_content() -> None:
    content = text(65_537)

    data = compression.compress(3, content)

    (size,) = struct.unpack_from("<I", data, 7)
    assert data[:7] == HEADER
    assert lz4.block.decompress(data[11 : 11 + size], uncompressed_size=65_536) == content[:-1]
    assert data[11 + size :] == stored(content[-1:]) + END


def test_level_9_is_the_fast_compressor_and_others_compress_better() -> None:
    """As in Java's clients, for compatibility with those that knew no levels."""
    content = text(60_000)

    sizes = {level: len(compression.compress(3, content, level)) for level in (9, 3, 12, 17)}

    assert compression.compress(3, content, 9) == compression.compress(3, content)
    assert sizes[17] == sizes[12] <= sizes[3] < sizes[9]


@given(st.binary(max_size=15))
def test_the_header_checksum_is_xxh32(data: bytes) -> None:
    assert lz4_frames._short_xxh32(data) == xxhash.xxh32_intdigest(data)


def test_the_broken_header_checksum_includes_the_magic() -> None:
    broken = xxhash.xxh32_intdigest(BROKEN_HEADER) >> 8 & 0xFF
    rest = stored(b"hello") + END

    assert decompress_lz4(BROKEN_HEADER + bytes([broken]) + rest) == b"hello"
    for wrong in set(range(256)) - {broken, HEADER[-1]}:
        with pytest.raises(Corrupt, match="header checksum"):
            decompress_lz4(BROKEN_HEADER + bytes([wrong]) + rest)


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("broken", [True, False])
@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_frames_of_every_kind_are_decompressed(
    *, linked: bool, checksums: bool, broken: bool, sized: bool, block_size: int
) -> None:
    content = text(600_000)
    data = bytearray(
        lz4.frame.compress(
            content,
            block_size=block_size,
            block_linked=linked,
            block_checksum=checksums,
            content_checksum=checksums,
            store_size=sized,
        )
    )
    if broken:
        end = 14 if sized else 6
        data[end] = xxhash.xxh32_intdigest(data[:end]) >> 8 & 0xFF

    assert decompress_lz4(bytes(data)) == content
    with pytest.raises(LimitExceeded):
        compression.decompress(3, data, len(content) - 1)


@pytest.mark.parametrize("kind", ["block_checksum", "content_checksum"])
def test_checksums_are_verified(kind: str) -> None:
    content = text(200_000)
    data = bytearray(lz4.frame.compress(content, block_linked=False, **{kind: True}))
    data[-5 if kind == "block_checksum" else -1] ^= 1

    with pytest.raises(Corrupt, match="hecksum"):
        decompress_lz4(bytes(data))


def test_consecutive_frames_are_one_content_and_skippable_frames_are_skipped() -> None:
    frames = [SKIPPED, HEADER + block(b"one " * 5) + END, SKIPPED, lz4.frame.compress(b"two")]

    assert decompress_lz4(b"".join(frames)) == b"one " * 5 + b"two"
    assert decompress_lz4(SKIPPED) == b""
    with pytest.raises(Truncated):
        decompress_lz4(SKIPPED[:-1])
    with pytest.raises(Truncated):
        decompress_lz4(SKIPPED[:7])


def test_a_block_that_decompresses_to_nothing_is_valid() -> None:
    nothing = b"\x01\x00\x00\x00\x00"

    assert decompress_lz4(HEADER + nothing + stored(b"x") + nothing + END) == b"x"
    assert compression.decompress(3, HEADER + nothing + END, 0) == b""


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (b"", Truncated, "no frame"),
        (HEADER[:6], Truncated, "header that is cut short"),
        (HEADER, Truncated, "without an end"),
        (HEADER + stored(b"hello"), Truncated, "without an end"),
        (HEADER + b"\xff\xff\x00\x00" + b"x", Truncated, "without an end"),
        (b"\x02\x21\x4c\x18" + bytes(20), Unsupported, "legacy"),
        (b"LZ4 " + bytes(20), Corrupt, "begins with"),
        (header(0xA0, 0x40), Unsupported, "version 2"),
        (header(0x61, 0x40, bytes(4)) + END, Unsupported, "dictionary"),
        (header(0x62, 0x40) + END, Corrupt, "flags"),
        (header(0x60, 0x41) + END, Corrupt, "flags"),
        (header(0x60, 0xC0) + END, Corrupt, "flags"),
        (header(0x60, 0x30) + END, Corrupt, "flags"),
        (HEADER + b"\x01\x00\x01\x00" + bytes(70_000), Corrupt, "a block of 65537 bytes"),
        (HEADER + b"\x02\x00\x00\x00\xf0\x00" + END, Corrupt, "in the block at byte 7"),
        (header(0x64, 0x40) + END + b"abc", Truncated, "content checksum"),
        (header(0x68, 0x40, b"\x05\x00\x00"), Truncated, "header that is cut short"),
    ],
)
def test_the_reason_for_a_corrupt_frame_is_given(
    data: bytes, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        compression.decompress(3, data, 1_000)
    with pytest.raises(error, match=reason):
        compression.decompress_into(3, data, bytearray(1_000))


@pytest.mark.parametrize("declared", [0, 4, 6, 1 << 40, (1 << 64) - 1])
@pytest.mark.parametrize("flags", [0x68, 0x48])
def test_a_false_content_size_is_not_trusted(flags: int, declared: int) -> None:
    data = header(flags, 0x40, struct.pack("<Q", declared)) + stored(b"hello") + END

    with pytest.raises(Corrupt):
        compression.decompress(3, data, 100)
    with pytest.raises(Corrupt):
        compression.decompress_into(3, data, bytearray(100))


def test_a_damaged_block_is_corrupt_even_with_a_small_limit() -> None:
    data = bytearray(compression.compress(3, text(1_000)))
    data[12] = 0xFF  # a run of literals beyond the end

    for size in (0, 10, 1_000, 1 << 20):
        with pytest.raises(Corrupt):
            compression.decompress_into(3, data, bytearray(size))


@pytest.mark.parametrize(
    "pieces",
    [
        (HEADER, stored(b"x")),
        (header(0x40, 0x40), stored(b"")),
        (header(0x70, 0x40), stored(b"x") + bytes(4)),
        (b"", SKIPPED),
        (b"", HEADER + END),
    ],
)
def test_the_number_of_blocks_and_frames_is_limited_before_they_take_long(
    pieces: tuple[bytes, bytes],
) -> None:
    start, piece = pieces

    with pytest.raises(LimitExceeded, match="blocks and frames"):
        compression.decompress(3, start + piece * MANY + END, 1 << 20)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.codec == "lz4"])
def test_strict_mode_reads_no_frame_that_javas_clients_cannot_read(name: str) -> None:
    case = CASES[name]
    output = bytearray(1_000)

    if case.code == UNKNOWN_SERVER_ERROR:  # a broken stream, or one that Java never writes
        with pytest.raises(CodecError):
            decompress(LZ4.number, case.payload, len(output), strict=True)
        with pytest.raises(CodecError):
            decompress_into(LZ4.number, case.payload, output, strict=True)
    else:
        content = decompress(LZ4.number, case.payload, len(output), strict=True)
        count = decompress_into(LZ4.number, case.payload, output, strict=True)
        assert output[:count] == content == decompress(LZ4.number, case.payload, len(output))
