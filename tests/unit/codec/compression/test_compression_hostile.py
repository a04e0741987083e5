"""Malicious input: refused within the limit, in time, and only by the codec's own errors."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.codec import compression
from broker.model.errors import CodecError
from broker.model.limits import MIB
from tests.support.compressed import CHOICES, COMPRESSORS, text

NAMES = [name for name in COMPRESSORS if name != "none"]
STARTS = (
    b"",
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff",
    b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01",
    b"\x04\x22\x4d\x18\x60\x40\x82",
    b"\x28\xb5\x2f\xfd",
)


@cache
def compressed(name: str) -> tuple[int, bytes]:
    codec, compress = COMPRESSORS[name]
    return codec, bytes(compress(text(1_500) + bytes(500) + text(100)))


def decompress_both_ways(codec: int, data: bytes, size_max: int) -> bytes | None:
    """Return the content, None when it is refused; both ways must agree, within the limit."""
    content = placed = None
    position = None
    output = bytearray(b"\xee" * (size_max + 8))
    try:
        content = compression.decompress(codec, data, size_max)
    except CodecError as error:
        position = error.position
    try:
        count = compression.decompress_into(codec, data, memoryview(output)[:size_max])
        placed = bytes(output[:count])
    except CodecError as error:
        position = error.position
    assert position is None or 0 <= position <= len(data)
    assert output[size_max:] == b"\xee" * 8
    assert content == placed
    return content


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_bit_gives_a_codec_error_or_content_within_the_limit(name: str) -> None:
    codec, data = compressed(name)

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 8 * len(data) - 1), st.sampled_from([0, 100, 2_100, 10_000]))
    def flip(bit: int, size_max: int) -> None:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        content = decompress_both_ways(codec, bytes(changed), size_max)
        assert content is None or len(content) <= size_max

    flip()


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", NAMES)
def test_changed_moved_or_missing_bytes_raise_only_codec_errors(name: str) -> None:
    codec, data = compressed(name)
    places = st.integers(0, min(len(data), 64)) | st.integers(0, len(data))

    @settings(max_examples=25, deadline=None)
    @given(places, places, st.binary(max_size=12))
    def splice(start: int, end: int, between: bytes) -> None:
        decompress_both_ways(codec, data[:start] + between + data[end:], 10_000)

    splice()


@pytest.mark.usefixtures("libraries")
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 4), st.sampled_from(STARTS), st.binary(max_size=200), st.integers(0, 1_000))
def test_arbitrary_bytes_raise_only_codec_errors(
    codec: int, start: bytes, rest: bytes, size_max: int
) -> None:
    decompress_both_ways(codec, start + rest, size_max)


# Headers that claim more than their content: (codec, hex, name).
GREEDY = {
    "a zstd window of 128 MiB": (4, "28b52ffd0088 230300 78"),
    "a zstd window of 2 GiB": (4, "28b52ffd00a8 230300 78"),
    "a zstd window of 3.75 TiB": (4, "28b52ffd00ff 230300 78"),
    "zstd content of 1 TiB in one segment": (4, "28b52ffde0 0000000000010000 230300 78"),
    "zstd content of 16 MiB in one segment": (4, "28b52ffda0 00000001 230300 78"),
    "snappy content of 4 GiB": (2, "ffffffff0f 00"),
    "a snappy block of 2 GiB": (2, "82534e41505059000000000100000001 7fffffff 00"),
    "linked lz4 blocks of 4 MiB": (3, "04224d18 4070df 02000000 1078 00000000"),
    "lz4 content of 16 EiB": (3, "04224d18 6840 ffffffffffffffff 00 00000000"),
    "a skipped lz4 frame of 4 GiB": (3, "502a4d18 ffffffff"),
    "a gzip name without an end": (1, "1f8b0808 000000000003" + "41" * 1_000),
}
LITTLE_MEMORY = """
import resource, sys
from broker.codec import compression
from broker.model.errors import CodecError

hidden, size_max, *inputs = sys.argv[1:]
for package in hidden.split():
    sys.modules[package] = None
for codec in range(5):  # what the libraries themselves need
    some = compression.compress(codec, b"x" * 1_000)
    compression.decompress_into(codec, some, bytearray(1_000))
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (32 << 20),) * 2)
for codec, path in zip(inputs[::2], inputs[1::2]):
    data = open(path, "rb").read()
    for attempt in range(2):
        try:
            if attempt == 0:
                compression.decompress(int(codec), data, int(size_max))
            else:
                compression.decompress_into(int(codec), data, bytearray(int(size_max)))
            print("decompressed")
        except CodecError as error:
            print(type(error).__name__)
"""


def in_little_memory(
    folder: Path, choice: str, size_max: int, inputs: list[tuple[int, bytes]]
) -> list[str]:
    """Return the result of each by both functions in a process that may use 32 MiB more."""
    arguments = []
    for number, (codec, data) in enumerate(inputs):
        path = folder / str(number)
        path.write_bytes(data)
        arguments += [str(codec), str(path)]
    ended = subprocess.run(
        [sys.executable, "-c", LITTLE_MEMORY, " ".join(CHOICES[choice]), str(size_max), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return ended.stdout.split()


@pytest.mark.parametrize("choice", CHOICES)
def test_no_header_causes_a_large_allocation(choice: str, tmp_path: Path) -> None:
    inputs = [(codec, bytes.fromhex(data)) for codec, data in GREEDY.values()]

    outcomes = in_little_memory(tmp_path, choice, MIB, inputs)

    of = dict(zip(GREEDY, zip(outcomes[::2], outcomes[1::2], strict=True), strict=True))
    windows = {outcome for name, outcome in of.items() if "window" in name}
    assert windows == {("decompressed", "decompressed")}
    assert of["zstd content of 16 MiB in one segment"] == ("Corrupt", "Corrupt")
    assert of["a snappy block of 2 GiB"] == ("Truncated", "Truncated")


@pytest.mark.parametrize("choice", CHOICES)
def test_a_decompression_bomb_takes_no_more_memory_than_its_limit(
    choice: str, tmp_path: Path
) -> None:
    """64 MiB of zeros, with the size of the content and without."""
    names = ["gzip", "snappy", "lz4, ours", "lz4 with everything", "zstd", "zstd of unknown size"]
    bombs = [(COMPRESSORS[name][0], bytes(COMPRESSORS[name][1](bytes(64 * MIB)))) for name in names]

    outcomes = in_little_memory(tmp_path, choice, MIB, bombs)

    assert outcomes == ["LimitExceeded"] * 2 * len(bombs)
