"""Checksums and the partitioner's hash against Java's and Kafka's, for keys of every small size.

Each function stands beside the column of the vectors that it must return.
"""

import zlib
from collections.abc import Callable

import pytest
from kafka.partitioner.default import murmur2

from broker._native.kernel.checksum import crc32c
from tests.vectors import vector_files

KEYS = vector_files.lines(vector_files.NEWEST, "hashes")


def signed(value: int) -> int:
    """Return an unsigned integer of 32 bits as Java has it."""
    return value - (1 << 32) if value >> 31 else value


# Of zlib and kafka-python, which prove that the vectors are what others compute too.
FUNCTIONS: dict[str, tuple[str, Callable[[bytes], int]]] = {
    "crc32c": ("crc32c", crc32c),
    "zlib.crc32": ("crc32", zlib.crc32),
    "kafka-python": ("murmur2", lambda key: signed(murmur2(key) & 0xFFFFFFFF)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_hash_equals_javas(name: str) -> None:
    column, function = FUNCTIONS[name]

    assert [function(bytes.fromhex(key["hex"])) for key in KEYS] == [key[column] for key in KEYS]


def test_a_partition_is_the_positive_hash_modulo_their_number() -> None:
    for key in KEYS:
        for count, partition in key["partition_of"].items():
            assert partition == (key["murmur2"] & 0x7FFFFFFF) % int(count)
