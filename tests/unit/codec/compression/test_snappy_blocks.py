"""Snappy: raw blocks, and the framing of Java's library."""

import pytest

from broker.codec import compression
from broker.model.errors import Corrupt, LimitExceeded, Truncated
from broker.model.limits import COMPRESSED_PIECES_MIN
from tests.support.compressed import raw_snappy, text

MANY = 2 * COMPRESSED_PIECES_MIN

MAGIC = b"\x82SNAPPY\x00"
HEADER = MAGIC + b"\x00\x00\x00\x01" * 2


def block(content: bytes) -> bytes:
    data = raw_snappy(content)
    return len(data).to_bytes(4, "big") + data


def test_streams_equal_those_of_javas_library() -> None:
    """The bytes are those of Kafka 4.4's own class."""
    java = bytes.fromhex("82534e41505059000000000100000001 00000007 05 10 68656c6c6f")

    assert compression.compress(2, b"hello") == java
    assert compression.compress(2, b"") == HEADER


def test_a_block_holds_32_kib_of_content() -> None:
    content = text(32 * 1024 + 1)

    data = compression.compress(2, content)

    assert data == HEADER + block(content[:-1]) + block(content[-1:])


def test_the_versions_in_the_header_are_ignored() -> None:
    """Some writers have them in the other byte order."""
    data = MAGIC + b"\x01\x00\x00\x00" * 2 + block(b"hello")

    assert compression.decompress(2, data, 5) == b"hello"


def test_concatenated_streams_are_one_content() -> None:
    data = HEADER + block(b"one ") + HEADER + HEADER + block(b"two ") + block(b"three")

    assert compression.decompress(2, data, 13) == b"one two three"
    assert compression.decompress_into(2, data, bytearray(13)) == 13


def test_a_second_header_must_be_complete() -> None:
    with pytest.raises(Corrupt, match="a header that is not of xerial at byte 25"):
        compression.decompress(2, HEADER + block(b"one") + b"\x82SNAPSHOT" * 2, 100)
    with pytest.raises(Truncated, match="cut short at byte 25"):
        compression.decompress(2, HEADER + block(b"one") + HEADER[:-1], 100)


def test_a_block_longer_than_the_remaining_data_is_truncated() -> None:
    data = HEADER + b"\x7f\xff\xff\xff" + raw_snappy(b"x")

    with pytest.raises(Truncated, match="3 bytes of a block of 2147483647 at byte 20"):
        compression.decompress(2, data, 100)


def test_an_empty_block_is_truncated() -> None:
    for data in (b"", HEADER + bytes(4)):
        with pytest.raises(Truncated, match="empty block"):
            compression.decompress(2, data, 100)
        with pytest.raises(Truncated, match="empty block"):
            compression.decompress_into(2, data, bytearray(100))


def test_an_error_names_the_position_of_a_damaged_block() -> None:
    first, second = block(b"first"), bytearray(block(text(1_000)))
    second[4] ^= 1  # the size of its content

    with pytest.raises(Corrupt) as raised:
        compression.decompress_into(2, HEADER + first + second, bytearray(10_000))

    assert raised.value.position == len(HEADER) + len(first) + 4


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x40"])
def test_a_size_impossible_for_the_compressed_bytes_is_refused_before_allocation(
    size: bytes,
) -> None:
    data = size + b"x" * 20

    with pytest.raises(Truncated, match="bytes of a block with a content of"):
        compression.decompress(2, data, 1 << 32)
    with pytest.raises(Truncated, match="bytes of a block with a content of"):
        compression.decompress_into(2, data, bytearray(100))


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff\x1f", b"\xff" * 11, b"\x80"])
def test_an_invalid_size_is_corrupt(size: bytes) -> None:
    with pytest.raises(Corrupt):
        compression.decompress(2, size, 100)
    with pytest.raises(Corrupt):
        compression.decompress_into(2, size, bytearray(100))


@pytest.mark.parametrize("piece", [HEADER, b"\x00\x00\x00\x01\x00"])
def test_the_number_of_blocks_is_limited_before_they_take_long(piece: bytes) -> None:
    data = HEADER + piece * MANY

    with pytest.raises(LimitExceeded, match="blocks"):
        compression.decompress(2, data, 100)
