"""Written data is read by other libraries; theirs is read in test_compression.py."""

import gzip
import random
from collections.abc import Callable

import lz4.frame
import pytest
import snappy
import zstandard
from aiokafka import codec as aiokafka_codec
from kafka import codec as kafka_codec

from broker.codec import compression
from tests.support.compressed import text


def zstandard_stream(data: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        return reader.read()


def xerial_by_python_snappy(data: bytes) -> bytes:
    content = b""
    position = 16
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        content += snappy.decompress(data[position + 4 : end])
        position = end
    return content


READERS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip by Python": (1, gzip.decompress),
    "gzip by kafka-python": (1, kafka_codec.gzip_decode),
    "gzip by aiokafka": (1, aiokafka_codec.gzip_decode),
    "snappy by python-snappy": (2, xerial_by_python_snappy),
    "snappy by kafka-python": (2, kafka_codec.snappy_decode),
    "snappy by aiokafka": (2, aiokafka_codec.snappy_decode),
    "lz4 by lz4": (3, lz4.frame.decompress),
    "lz4 by kafka-python": (3, kafka_codec.lz4_decode),
    "lz4 by aiokafka": (3, aiokafka_codec.lz4_decode),
    "zstd by zstandard": (4, zstandard.decompress),
    "zstd by zstandard's stream": (4, zstandard_stream),
    "zstd by kafka-python": (4, kafka_codec.zstd_decode),
    "zstd by aiokafka": (4, aiokafka_codec.zstd_decode),
}
LEVELS: dict[int, list[int | None]] = {
    1: [None, 1, 2, 3, 6, 9],
    2: [None],
    3: [None, 1, 2, 3, 12, 17],
    4: [None, -131_072, -1, 0, 1, 12],
}
CONTENTS = {
    "a byte": b"x",
    "zeros": bytes(200_000),
    "words": text(200_000),
    "noise": random.Random(1).randbytes(200_000),
}


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("reader", READERS)
def test_written_data_is_read_by_other_libraries(reader: str, content: bytes) -> None:
    codec, read = READERS[reader]

    for level in LEVELS[codec]:
        assert read(compression.compress(codec, content, level)) == content, level


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_data_written_for_magic_0_is_read_by_kafka_python(content: bytes) -> None:
    data = compression.compress(3, content, magic=0)

    assert kafka_codec.lz4_decode_old_kafka(data) == content
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(data)
