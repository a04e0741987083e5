"""zstd: headers, windows, blocks, and what of them is passed to the libraries."""

import struct

import pytest
import zstandard

from broker.codec import compression
from broker.model.errors import Corrupt, LimitExceeded, Truncated, Unsupported
from broker.model.limits import COMPRESSED_PIECES_MIN, MIB
from tests.support.compressed import text, zstd_stream

MANY = 2 * COMPRESSED_PIECES_MIN

MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPED = b"\x5f\x2a\x4d\x18\x03\x00\x00\x00abc"
WINDOW_1_MIB = 10 << 3
EMPTY = b"\x01\x00\x00"  # a last block of no raw bytes
pytestmark = pytest.mark.usefixtures("libraries")


def window(exponent: int) -> int:
    """Return the byte for a window of 2^exponent bytes."""
    return (exponent - 10) << 3


def header(descriptor: int = 0, *rest: int) -> bytes:
    return MAGIC + bytes([descriptor, *rest])


def raw(content: bytes, *, last: bool = True) -> bytes:
    return (len(content) << 3 | last).to_bytes(3, "little") + content


def repeated(byte: bytes, count: int, *, last: bool = True) -> bytes:
    return (count << 3 | 1 << 1 | last).to_bytes(3, "little") + byte


def decompress_zstd(data: bytes, size_max: int = MIB) -> bytes:
    content = compression.decompress(4, data, size_max)
    output = bytearray(size_max)
    assert output[: compression.decompress_into(4, data, output)] == content
    return content


def test_a_frame_states_the_size_of_its_content() -> None:
    content = text(10_000)

    data = compression.compress(4, content)

    assert zstandard.frame_content_size(data) == len(content)
    assert not zstandard.get_frame_parameters(data).has_checksum


def test_frames_of_javas_class_are_decompressed() -> None:
    """The bytes are those of Kafka 4.4's own class at levels 3 and 22: windows of 2 and 128 MiB."""
    for at_level in ("0058", "0088"):
        java = MAGIC + bytes.fromhex(at_level + "280000 68656c6c6f 010000")

        assert decompress_zstd(java, 5) == b"hello"


@pytest.mark.parametrize("size", [1, 200, 10_000, 200_000])
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("sized", [True, False])
def test_frames_of_every_kind_are_decompressed(size: int, *, checksum: bool, sized: bool) -> None:
    content = text(size)
    compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=sized)

    assert decompress_zstd(compressor.compress(content), size) == content


def test_consecutive_frames_are_one_content_and_skippable_frames_are_skipped() -> None:
    frames = [SKIPPED, zstandard.compress(b"one "), SKIPPED, zstd_stream(b"two "), SKIPPED]

    assert decompress_zstd(b"".join(frames)) == b"one two "
    assert decompress_zstd(SKIPPED) == b""
    for size in range(1, len(SKIPPED)):
        with pytest.raises(Truncated):
            decompress_zstd(SKIPPED[:size])


def test_blocks_of_every_kind_are_decompressed() -> None:
    blocks = raw(b"raw", last=False) + repeated(b"x", 70_000, last=False) + raw(b"")

    assert decompress_zstd(header(0, WINDOW_1_MIB) + blocks) == b"raw" + b"x" * 70_000
    assert decompress_zstd(header(0x10, WINDOW_1_MIB) + raw(b"a bit that is unused")) != b""


def test_a_checksum_is_verified() -> None:
    for content in (b"small", text(200_000)):
        data = bytearray(zstd_stream(content, checksum=True))
        data[-1] ^= 1

        with pytest.raises(Corrupt, match="checksum"):
            decompress_zstd(bytes(data))


@pytest.mark.parametrize("exponent", [24, 27, 31, 41])
def test_a_window_larger_than_its_content_is_reduced(exponent: int) -> None:
    """A frame refers only to its own content, so a window of that size is enough."""
    content = text(300_000)
    data = bytearray(zstd_stream(content))
    data[5] = window(exponent)

    assert decompress_zstd(bytes(data), len(content)) == content
    with pytest.raises(LimitExceeded):
        compression.decompress(4, data, len(content) - 1)


def test_windows_of_later_frames_are_reduced_too() -> None:
    large = bytearray(zstd_stream(text(1_000)))
    large[5] = window(41)

    assert decompress_zstd(zstandard.compress(b"first") + large + large) == b"first" + 2 * text(
        1_000
    )


def test_a_back_reference_over_more_than_8_mib_is_followed() -> None:
    some = zstandard.ZstdCompressor(level=19)
    part = text(50_000)
    content = part + bytes(9 * MIB) + part
    parameters = zstandard.ZstdCompressionParameters.from_level(
        1, window_log=24, enable_ldm=True, ldm_hash_log=20
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = compressor.compress(content) + compressor.flush()
    assert len(data) < 1.5 * len(some.compress(part))  # the second part is a reference

    assert compression.decompress(4, data, 16 * MIB) == content


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (b"", Truncated, "header that is cut short"),
        (MAGIC, Truncated, "header that is cut short"),
        (header(0xC0, WINDOW_1_MIB) + bytes(7), Truncated, "header that is cut short"),
        (header(0, WINDOW_1_MIB), Truncated, "without a last block"),
        (header(0, WINDOW_1_MIB) + raw(b"x", last=False), Truncated, "without a last block"),
        (header(0, WINDOW_1_MIB) + raw(b"hello")[:-1], Truncated, "block that is cut short"),
        (header(4, WINDOW_1_MIB) + raw(b"x") + b"abc", Truncated, "checksum that is cut short"),
        (b"zstd" + bytes(20), Corrupt, "begins with"),
        (b"\x27\xb5\x2f\xfd" + bytes(20), Corrupt, "begins with"),  # a version before 1.0
        (header(8, WINDOW_1_MIB) + EMPTY, Corrupt, "descriptor of 0x8"),
        (header(1, WINDOW_1_MIB, 7) + EMPTY, Unsupported, "dictionary"),
        (header(0, WINDOW_1_MIB) + b"\x07\x00\x00", Corrupt, "block of type 3"),
        (header(0, WINDOW_1_MIB) + raw(bytes(131_073)), Corrupt, "block of type 0 and 131073"),
        (header(0, window(10)) + raw(bytes(1_025)), Corrupt, "block of type 0 and 1025"),
        (header(0, WINDOW_1_MIB) + b"\x15\x00\x00ab", Corrupt, "zstd: "),  # invalid compressed data
        (header(0x20, 4) + raw(b"hello"), Corrupt, "zstd: "),
        (header(0x20, 6) + raw(b"hello"), Corrupt, "6 bytes in blocks of at most"),
        (header(0x20, 0) + raw(b"hello"), Corrupt, "zstd: "),
        (header(0x40, WINDOW_1_MIB, 0, 0) + raw(b"hello"), Corrupt, "256 bytes in blocks of"),
        (header(0xE0) + struct.pack("<Q", 1 << 63) + EMPTY, Corrupt, "in blocks of at most 0"),
    ],
)
def test_the_reason_for_a_corrupt_frame_is_given(
    data: bytes, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        compression.decompress(4, data, 1_000)
    with pytest.raises(error, match=reason):
        compression.decompress_into(4, data, bytearray(1_000))


def test_a_dictionary_id_of_zero_means_none() -> None:
    assert decompress_zstd(header(3, WINDOW_1_MIB, 0, 0, 0, 0) + raw(b"hello")) == b"hello"


@pytest.mark.parametrize("piece", [SKIPPED, header(0, WINDOW_1_MIB) + EMPTY, raw(b"", last=False)])
def test_the_number_of_blocks_and_frames_is_limited_before_they_take_long(piece: bytes) -> None:
    data = header(0, WINDOW_1_MIB) + raw(b"", last=len(piece) > 3)

    with pytest.raises(LimitExceeded, match="blocks and frames"):
        compression.decompress(4, data + piece * MANY, MIB)
