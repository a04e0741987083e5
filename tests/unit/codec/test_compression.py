"""Bounded decompression of Kafka's four codecs."""

import gzip

import cramjam
import pytest

from broker.codec import compression
from broker.model.errors import CodecError

CONTENT = b"polylog " * 1000


def _xerial(content: bytes) -> bytes:
    halves = [content[:4000], content[4000:]]
    blocks = [bytes(cramjam.snappy.compress_raw(half)) for half in halves]
    header = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
    return header + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


COMPRESSED = {
    "gzip": (1, gzip.compress(CONTENT)),
    "snappy": (2, bytes(cramjam.snappy.compress_raw(CONTENT))),
    "snappy in xerial frames": (2, _xerial(CONTENT)),
    "lz4": (3, bytes(cramjam.lz4.compress(CONTENT))),
    "zstd": (4, bytes(cramjam.zstd.compress(CONTENT))),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_each_codec_gives_back_what_was_compressed(name: str) -> None:
    codec, data = COMPRESSED[name]

    assert compression.decompress(codec, data, len(CONTENT)) == CONTENT


@pytest.mark.parametrize("name", COMPRESSED)
def test_more_than_the_limit_is_refused(name: str) -> None:
    codec, data = COMPRESSED[name]

    with pytest.raises(CodecError):
        compression.decompress(codec, data, len(CONTENT) - 1)


@pytest.mark.parametrize("name", COMPRESSED)
def test_data_cut_at_any_length_is_refused_or_shorter(name: str) -> None:
    codec, data = COMPRESSED[name]

    for size in range(len(data)):
        try:
            content = compression.decompress(codec, data[:size], len(CONTENT))
        except CodecError:
            continue
        assert len(content) < len(CONTENT) or size >= len(data) - 8, size  # a checksum's bytes


def test_a_snappy_block_that_declares_gigabytes_is_refused_before_it_is_held() -> None:
    with pytest.raises(CodecError, match="unfolds to 4294967295"):
        compression.decompress(2, b"\xff\xff\xff\xff\x0f" + b"x" * 20, 100)


def test_a_codec_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CodecError, match="codec 5"):
        compression.decompress(5, b"", 100)
