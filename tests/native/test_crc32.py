"""CRC-32 against zlib's, by every implementation that this processor can run."""

import array
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.kernel.crc32 import crc32, crc32_by, implementations

SEED = 20
NOISE = random.Random(SEED).randbytes(1 << 20)
LENGTHS_MAX = 1100  # past every threshold between one way and the next, several times over
ALIGNMENTS = 16


@pytest.mark.parametrize("implementation", implementations())
def test_the_check_value_of_the_catalogues(implementation: str) -> None:
    assert crc32_by(implementation, b"123456789") == 0xCBF43926


@pytest.mark.parametrize("implementation", implementations())
def test_every_length_at_every_alignment(implementation: str) -> None:
    view = memoryview(NOISE)
    for length in range(LENGTHS_MAX):
        for start in range(ALIGNMENTS):
            part = view[start : start + length]
            assert crc32_by(implementation, part) == zlib.crc32(part), (start, length)


@pytest.mark.parametrize("implementation", implementations())
@pytest.mark.parametrize("alignment", range(ALIGNMENTS))
def test_a_megabyte_at_every_alignment(implementation: str, alignment: int) -> None:
    part = memoryview(NOISE)[alignment:]

    assert crc32_by(implementation, part) == zlib.crc32(part)


@pytest.mark.parametrize("implementation", implementations())
@pytest.mark.parametrize("fill", [b"\x00", b"\xff", b"\x80", b"\x01"])
def test_bytes_that_are_all_alike(implementation: str, fill: bytes) -> None:
    for length in range(LENGTHS_MAX):
        assert crc32_by(implementation, fill * length) == zlib.crc32(fill * length), length


@pytest.mark.parametrize("implementation", implementations())
@given(first=st.binary(max_size=700), second=st.binary(max_size=700))
def test_a_crc_goes_on_from_what_stood_before(
    implementation: str, first: bytes, second: bytes
) -> None:
    before = crc32_by(implementation, first)

    assert crc32_by(implementation, second, before) == zlib.crc32(first + second)


@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, lambda data: array.array("Q", data)]
)
def test_any_contiguous_buffer_is_read(kind: type) -> None:
    assert crc32(kind(NOISE[:4096])) == zlib.crc32(NOISE[:4096])


def test_a_buffer_can_change_again_afterwards() -> None:
    buffer = bytearray(NOISE[:100])

    crc32(buffer)

    buffer.append(0)  # BufferError while somebody holds it


def test_the_table_is_always_there_and_last() -> None:
    assert implementations()[-1] == "table"


def test_an_implementation_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="'abacus', expected one of"):
        crc32_by("abacus", b"")


@pytest.mark.parametrize("wrong", ["text", 5, None, memoryview(b"abcd")[::2]])
def test_what_is_no_contiguous_buffer_is_refused(wrong: object) -> None:
    with pytest.raises((TypeError, BufferError)):
        crc32(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-1, 1 << 32])
def test_a_crc_has_32_bits(wrong: int) -> None:
    with pytest.raises(OverflowError):
        crc32(b"", wrong)
