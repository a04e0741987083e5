"""Compressed bytes as the various writers make them."""

import gzip
import random
from collections.abc import Callable

import cramjam
import lz4.frame
import zstandard
from aiokafka import codec as aiokafka_codec
from kafka import codec as kafka_codec

from broker.codec import compression

Compress = Callable[[bytes], bytes]

# Optional libraries, and what is not installed without them.
CHOICES = {
    "isal and zstandard": (),
    "zlib-ng and cramjam": ("isal", "zstandard"),
    "zlib and cramjam": ("isal", "zlib_ng", "zstandard"),
}


def text(size: int) -> bytes:
    """Return words that compress about fourfold."""
    some = random.Random(size)
    words = [some.randbytes(some.randint(1, 6)).hex().encode() for _ in range(500)]
    return b" ".join(some.choices(words, k=size // 2 + 1))[:size]


def raw_snappy(content: bytes) -> bytes:
    """Return one block without a frame."""
    return bytes(cramjam.snappy.compress_raw(content))


def zstd_stream(content: bytes, *, checksum: bool = False) -> bytes:
    """As Java's clients write it: the size of the content is not known at the beginning."""
    compressor = zstandard.ZstdCompressor(write_checksum=checksum).compressobj()
    return compressor.compress(content) + compressor.flush()


def zstd_of_the_highest_level(content: bytes) -> bytes:
    """The same at level 22, with a window of 128 MiB.

    The tables of the compressor are small: those of the level are 640 MiB, which are cleared for
    each content.
    """
    parameters = zstandard.ZstdCompressionParameters.from_level(22, hash_log=12, chain_log=12)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return compressor.compress(content) + compressor.flush()


def ours(codec: int, level: int | None = None, *, magic: int = 2) -> Compress:
    """What this package writes."""
    return lambda content: compression.compress(codec, content, level, magic=magic)


# One frame or member each.
COMPRESSORS: dict[str, tuple[int, Compress]] = {
    "none": (0, bytes),
    "gzip": (1, gzip.compress),
    "gzip, ours": (1, ours(1)),
    "gzip, ours at level 9": (1, ours(1, 9)),
    "gzip, aiokafka": (1, aiokafka_codec.gzip_encode),
    "snappy": (2, raw_snappy),
    "snappy in xerial's frame, ours": (2, ours(2)),
    "snappy in xerial's frame, kafka-python": (2, kafka_codec.snappy_encode),
    "lz4, ours": (3, ours(3)),
    "lz4, ours for magic 0": (3, ours(3, magic=0)),
    "lz4, kafka-python": (3, kafka_codec.lz4_encode),
    "lz4, kafka-python for magic 0": (3, kafka_codec.lz4_encode_old_kafka),
    "lz4, aiokafka": (3, aiokafka_codec.lz4_encode),
    "lz4 with linked blocks": (3, lz4.frame.compress),
    "lz4 with everything": (
        3,
        lambda content: lz4.frame.compress(
            content, block_size=7, content_checksum=True, block_checksum=True
        ),
    ),
    "zstd": (4, zstandard.compress),
    "zstd, ours": (4, ours(4)),
    "zstd, ours at level -7": (4, ours(4, -7)),
    "zstd of unknown size": (4, zstd_stream),
    "zstd with a checksum": (4, lambda content: zstd_stream(content, checksum=True)),
    "zstd with a window of 128 MiB": (4, zstd_of_the_highest_level),
    "zstd, aiokafka": (4, aiokafka_codec.zstd_encode),
}
