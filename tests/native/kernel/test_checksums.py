"""CRC-32 and CRC-32C against independent ones, by every implementation that this processor has."""

import array
import random
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import crc32c as independent
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.kernel import checksum as module

SEED = 20
NOISE = random.Random(SEED).randbytes(1 << 20)
LENGTHS_MAX = 1100  # above every size at which an implementation changes its method, several times
ALIGNMENTS = 16
RFC_3720 = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


class Checksum(NamedTuple):
    """One of the two: its functions, and an independent implementation."""

    of: Callable[..., int]
    by: Callable[..., int]
    names: Callable[[], tuple[str, ...]]
    independent: Callable[[Any], int]
    check_value: int  # of b"123456789", as catalogues have it


CHECKSUMS = [
    Checksum(module.crc32, module.crc32_by, module.crc32_names, zlib.crc32, 0xCBF43926),
    Checksum(module.crc32c, module.crc32c_by, module.crc32c_names, independent.crc32c, 0xE3069283),
]
each_checksum = pytest.mark.parametrize("checksum", CHECKSUMS, ids=lambda each: each.of.__name__)
each_implementation = pytest.mark.parametrize(
    ("checksum", "implementation"),
    [
        pytest.param(each, name, id=f"{each.of.__name__}-{name}")
        for each in CHECKSUMS
        for name in each.names()
    ],
)


@each_implementation
def test_the_catalogued_check_value_is_computed(checksum: Checksum, implementation: str) -> None:
    assert checksum.by(implementation, b"123456789") == checksum.check_value


@pytest.mark.parametrize("implementation", module.crc32c_names())
@pytest.mark.parametrize(("data", "crc"), RFC_3720)
def test_the_examples_of_rfc_3720_are_computed(implementation: str, data: bytes, crc: int) -> None:
    assert module.crc32c_by(implementation, data) == crc


@each_implementation
def test_every_length_at_every_alignment_equals_the_independent_checksum(
    checksum: Checksum, implementation: str
) -> None:
    view = memoryview(NOISE)
    for length in range(LENGTHS_MAX):
        for start in range(ALIGNMENTS):
            part = view[start : start + length]
            found = checksum.by(implementation, part)
            assert found == checksum.independent(part), (start, length)


@each_implementation
@given(st.integers(0, 100), st.integers(LENGTHS_MAX, 100_000))
def test_lengths_of_several_blocks_equal_the_independent_checksum(
    checksum: Checksum, implementation: str, start: int, length: int
) -> None:
    part = memoryview(NOISE)[start : start + length]

    assert checksum.by(implementation, part) == checksum.independent(part)


@each_implementation
@pytest.mark.parametrize("alignment", range(ALIGNMENTS))
def test_a_megabyte_at_every_alignment_equals_the_independent_checksum(
    checksum: Checksum, implementation: str, alignment: int
) -> None:
    part = memoryview(NOISE)[alignment:]

    assert checksum.by(implementation, part) == checksum.independent(part)


@each_implementation
@pytest.mark.parametrize("fill", [b"\x00", b"\xff", b"\x80", b"\x01"])
def test_repeated_bytes_equal_the_independent_checksum(
    checksum: Checksum, implementation: str, fill: bytes
) -> None:
    for length in range(LENGTHS_MAX):
        alike = fill * length
        assert checksum.by(implementation, alike) == checksum.independent(alike), length


@each_implementation
@given(first=st.binary(max_size=700), second=st.binary(max_size=700))
def test_a_crc_can_be_continued_from_a_previous_value(
    checksum: Checksum, implementation: str, first: bytes, second: bytes
) -> None:
    before = checksum.by(implementation, first)

    assert checksum.by(implementation, second, before) == checksum.independent(first + second)


@each_checksum
@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, lambda data: array.array("Q", data)]
)
def test_any_contiguous_buffer_is_read(checksum: Checksum, kind: type) -> None:
    assert checksum.of(kind(NOISE[:4096])) == checksum.independent(NOISE[:4096])


@each_checksum
def test_a_buffer_can_be_resized_again_afterwards(checksum: Checksum) -> None:
    buffer = bytearray(NOISE[:100])

    checksum.of(buffer)

    buffer.append(0)  # BufferError while a view exists


@each_checksum
def test_the_table_implementation_is_always_available_and_last(checksum: Checksum) -> None:
    assert checksum.names()[-1] == "table"


@each_checksum
def test_an_unknown_implementation_is_refused(checksum: Checksum) -> None:
    with pytest.raises(ValueError, match="'abacus', expected one of"):
        checksum.by("abacus", b"")


@each_checksum
@pytest.mark.parametrize("wrong", ["text", 5, None, memoryview(b"abcd")[::2]])
def test_an_object_without_a_contiguous_buffer_is_refused(
    checksum: Checksum, wrong: object
) -> None:
    with pytest.raises((TypeError, BufferError)):
        checksum.of(wrong)


@each_checksum
@pytest.mark.parametrize("wrong", [-1, 1 << 32])
def test_an_initial_crc_of_more_than_32_bits_is_refused(checksum: Checksum, wrong: int) -> None:
    with pytest.raises(OverflowError):
        checksum.of(b"", wrong)
