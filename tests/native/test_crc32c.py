"""CRC-32C against an independent one, by every implementation that this processor can run."""

import array
import random

import crc32c as independent
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.kernel.crc32c import crc32c, crc32c_by, implementations

SEED = 20
NOISE = random.Random(SEED).randbytes(1 << 20)
LENGTHS_MAX = 1100  # past every threshold between one way and the next, several times over
ALIGNMENTS = 16


@pytest.mark.parametrize("implementation", implementations())
def test_the_check_value_of_the_catalogues(implementation: str) -> None:
    assert crc32c_by(implementation, b"123456789") == 0xE3069283


@pytest.mark.parametrize("implementation", implementations())
def test_every_length_at_every_alignment(implementation: str) -> None:
    view = memoryview(NOISE)
    for length in range(LENGTHS_MAX):
        for start in range(ALIGNMENTS):
            part = view[start : start + length]
            assert crc32c_by(implementation, part) == independent.crc32c(part), (start, length)


@pytest.mark.parametrize("implementation", implementations())
@given(st.integers(0, 100), st.integers(LENGTHS_MAX, 100_000))
def test_lengths_of_several_blocks(implementation: str, start: int, length: int) -> None:
    part = memoryview(NOISE)[start : start + length]

    assert crc32c_by(implementation, part) == independent.crc32c(part)


@pytest.mark.parametrize("implementation", implementations())
@pytest.mark.parametrize("alignment", range(ALIGNMENTS))
def test_a_megabyte_at_every_alignment(implementation: str, alignment: int) -> None:
    part = memoryview(NOISE)[alignment:]

    assert crc32c_by(implementation, part) == independent.crc32c(part)


RFC_3720 = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


@pytest.mark.parametrize("implementation", implementations())
@pytest.mark.parametrize(("data", "crc"), RFC_3720)
def test_the_examples_of_rfc_3720(implementation: str, data: bytes, crc: int) -> None:
    assert crc32c_by(implementation, data) == crc


@pytest.mark.parametrize("implementation", implementations())
@pytest.mark.parametrize("fill", [b"\x00", b"\xff", b"\x80", b"\x01"])
def test_bytes_that_are_all_alike(implementation: str, fill: bytes) -> None:
    for length in range(LENGTHS_MAX):
        assert crc32c_by(implementation, fill * length) == independent.crc32c(fill * length), length


@pytest.mark.parametrize("implementation", implementations())
@given(first=st.binary(max_size=700), second=st.binary(max_size=700))
def test_a_crc_goes_on_from_what_stood_before(
    implementation: str, first: bytes, second: bytes
) -> None:
    before = crc32c_by(implementation, first)

    assert crc32c_by(implementation, second, before) == independent.crc32c(first + second)


@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, lambda data: array.array("Q", data)]
)
def test_any_contiguous_buffer_is_read(kind: type) -> None:
    assert crc32c(kind(NOISE[:4096])) == independent.crc32c(NOISE[:4096])


def test_a_buffer_can_change_again_afterwards() -> None:
    buffer = bytearray(NOISE[:100])

    crc32c(buffer)

    buffer.append(0)  # BufferError while somebody holds it


def test_the_table_is_always_there_and_last() -> None:
    assert implementations()[-1] == "table"


def test_an_implementation_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="'abacus', expected one of"):
        crc32c_by("abacus", b"")


@pytest.mark.parametrize("wrong", ["text", 5, None, memoryview(b"abcd")[::2]])
def test_what_is_no_contiguous_buffer_is_refused(wrong: object) -> None:
    with pytest.raises((TypeError, BufferError)):
        crc32c(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-1, 1 << 32])
def test_a_crc_has_32_bits(wrong: int) -> None:
    with pytest.raises(OverflowError):
        crc32c(b"", wrong)
