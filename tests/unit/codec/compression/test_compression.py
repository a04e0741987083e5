"""Bytes folded and decompressed by Kafka's codecs, the latter never further than allowed."""

import array
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from functools import cache

import pytest

from broker.codec import compression
from broker.model.errors import CodecError, LimitExceeded, Unsupported
from tests.support.compressed import COMPRESSORS, text

CONTENT = text(5_000)
CODECS = range(5)


@cache
def compressed(name: str, content: bytes = CONTENT) -> tuple[int, bytes]:
    codec, compress = COMPRESSORS[name]
    return codec, bytes(compress(content))


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("size", [1, 100, 32_768, 65_536, 65_537, 300_000])
@pytest.mark.parametrize("name", COMPRESSORS)
def test_compressed_content_decompresses_to_the_same(name: str, size: int) -> None:
    content = text(size)
    codec, data = compressed(name, content)
    output = bytearray(size)

    assert compression.decompress(codec, data, size) == content
    assert compression.decompress_into(codec, data, output) == size
    assert output == content


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", COMPRESSORS)
def test_empty_content_is_decompressed_even_with_a_limit_of_zero(name: str) -> None:
    codec, data = compressed(name, b"")

    assert compression.decompress(codec, data, 0) == b""
    assert compression.decompress_into(codec, data, bytearray()) == 0
    assert compression.decompress_into(codec, data, bytearray(10)) == 0


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", COMPRESSORS)
def test_an_output_buffer_may_be_longer_than_the_content(name: str) -> None:
    codec, data = compressed(name)
    output = bytearray(1 << 20)

    count = compression.decompress_into(codec, data, output)

    assert output[:count] == CONTENT
    assert compression.decompress(codec, data, 1 << 20) == CONTENT


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("size", [0, 1, 2_500, 4_999])
@pytest.mark.parametrize("name", COMPRESSORS)
def test_content_above_the_limit_is_a_limit_error(name: str, size: int) -> None:
    codec, data = compressed(name)
    output = bytearray(b"\xee" * 6_000)

    with pytest.raises(LimitExceeded):
        compression.decompress(codec, data, size)
    with pytest.raises(LimitExceeded):
        compression.decompress_into(codec, data, memoryview(output)[:size])
    assert set(output[size:]) == {0xEE}


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", [name for name in COMPRESSORS if name != "none"])
def test_data_truncated_at_any_length_is_refused(name: str) -> None:
    codec, data = compressed(name, text(1_000) + bytes(1_000))

    for size in range(len(data)):
        if "xerial" in name and size == 16:
            continue  # only a header: an empty stream
        with pytest.raises(CodecError):
            compression.decompress(codec, data[:size], 10_000)
        with pytest.raises(CodecError):
            compression.decompress_into(codec, data[:size], bytearray(10_000))


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("garbage", [b"\x00", b"garbage behind a frame"])
@pytest.mark.parametrize("name", [name for name in COMPRESSORS if name != "none"])
def test_garbage_after_the_end_is_refused(name: str, garbage: bytes) -> None:
    codec, data = compressed(name)

    with pytest.raises(CodecError):
        compression.decompress(codec, data + garbage, 10_000)
    with pytest.raises(CodecError):
        compression.decompress_into(codec, data + garbage, bytearray(10_000))


@pytest.mark.parametrize("codec", CODECS)
def test_every_contiguous_buffer_is_accepted(codec: int) -> None:
    numbers = array.array("I", range(1_000))
    outputs = [compression.compress(codec, data) for data in (numbers, numbers.tobytes())]
    data = bytearray(b"<") + outputs[0] + b">"
    output = array.array("Q", bytes(4_000))

    count = compression.decompress_into(codec, memoryview(data)[1:-1], output)

    assert outputs[0] == outputs[1]
    assert count == 4_000
    assert output.tobytes() == numbers.tobytes()


@pytest.mark.parametrize("codec", CODECS)
def test_a_buffer_with_gaps_is_a_type_error(codec: int) -> None:
    gaps = memoryview(bytearray(100))[::2]

    with pytest.raises(TypeError):
        compression.compress(codec, gaps)
    with pytest.raises(TypeError):
        compression.decompress(codec, gaps, 100)
    with pytest.raises(TypeError):
        compression.decompress_into(codec, b"", gaps)


@pytest.mark.parametrize("codec", CODECS)
def test_a_read_only_output_buffer_is_a_type_error(codec: int) -> None:
    with pytest.raises(TypeError, match="read-only"):
        compression.decompress_into(codec, compression.compress(codec, b"x"), bytes(10))


@pytest.mark.parametrize("codec", [2, 3, 4])
def test_large_content_is_decompressed_without_a_copy(codec: int) -> None:
    content = text(1 << 20)
    data, output = compression.compress(codec, content), bytearray(1 << 20)
    compression.decompress_into(codec, data, output)
    tracemalloc.start()

    compression.decompress_into(codec, data, output)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 1024


@pytest.mark.parametrize("codec", [-1, 5, 7, 256])
def test_an_unknown_codec_is_unsupported_in_data_and_otherwise_a_wrong_argument(
    codec: int,
) -> None:
    with pytest.raises(Unsupported, match=f"codec {codec}"):
        compression.decompress(codec, b"", 100)
    with pytest.raises(Unsupported, match=f"codec {codec}"):
        compression.decompress_into(codec, b"", bytearray(100))
    with pytest.raises(ValueError, match=f"codec {codec}"):
        compression.compress(codec, b"")


def test_a_negative_limit_is_a_wrong_argument() -> None:
    with pytest.raises(ValueError, match="size_max -1"):
        compression.decompress(1, b"", -1)


@pytest.mark.parametrize(
    ("codec", "level"), [(0, 1), (1, 0), (1, 10), (2, 1), (3, 0), (3, 18), (4, -131_073), (4, 23)]
)
def test_a_level_outside_the_codecs_range_is_a_wrong_argument(codec: int, level: int) -> None:
    with pytest.raises(ValueError, match=f"level.* {level}"):
        compression.compress(codec, b"x", level)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (1, -1),
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 9),
        (3, 1),
        (3, 9),
        (3, 17),
        (4, -131_072),
        (4, 0),
        (4, 22),
    ],
)
def test_every_level_of_the_codec_gives_the_same_content(codec: int, level: int) -> None:
    data = compression.compress(codec, CONTENT, level)

    assert compression.decompress(codec, data, len(CONTENT)) == CONTENT


@pytest.mark.parametrize(("codec", "package"), [(2, "cramjam"), (3, "cramjam"), (4, "zstandard")])
def test_a_package_that_is_not_installed_is_named(
    codec: int, package: str, without: Callable[..., None]
) -> None:
    data = compression.compress(codec, CONTENT)
    without("cramjam", "zstandard")

    with pytest.raises(Unsupported, match=f"pip install {package}"):
        compression.compress(codec, CONTENT)
    with pytest.raises(Unsupported, match=f"pip install {package}"):
        compression.decompress(codec, data, len(CONTENT))


def test_no_codec_library_is_imported_before_it_is_used() -> None:
    program = "import sys, broker.codec.compression; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    imported = set(ended.stdout.split())

    assert imported & {"cramjam", "gzip", "isal", "lz4", "zlib", "zlib_ng", "zstandard"} == set()
