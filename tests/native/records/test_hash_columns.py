"""Murmur2 and XXH3 compared with independent ones: all lengths, inputs and implementations."""

import random

import pytest
import xxhash
from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from broker._native.records.hash_columns import (
    XXH3_64,
    hash_objects,
    murmur2,
    partition,
    xxh3_64_by,
    xxh3_names,
)

SEED = 3
NOISE = random.Random(SEED).randbytes(1 << 20)
LENGTHS_MAX = 1100
ALIGNMENTS = 8
NO_SIGN = 0x7FFFFFFF

# From the tests of Apache Kafka: UtilsTest.testMurmur2.
KAFKA_MURMUR2 = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]
# From the tests of kafka-python: what the Java client chooses among 1,000 partitions.
JAVA_PARTITIONS = [
    (b"", 681),
    (b"a", 524),
    (b"ab", 434),
    (b"abc", 107),
    (b"123456789", 566),
    (b"\x00 ", 742),
]


# ---- murmur2 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "signed"), KAFKA_MURMUR2)
def test_the_examples_of_apache_kafka_are_computed(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & NO_SIGN


@pytest.mark.parametrize(("key", "chosen"), JAVA_PARTITIONS)
def test_the_partition_equals_the_java_clients(key: bytes, chosen: int) -> None:
    assert partition(key, 1000) == chosen


def test_murmur2_of_every_length_equals_the_oracle() -> None:
    for length in range(300):
        key = NOISE[length : 2 * length]
        assert murmur2(key) == murmur2_of_kafka_python(key) & NO_SIGN, length


@given(st.binary())
def test_murmur2_equals_that_of_two_other_clients(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & NO_SIGN
    assert murmur2(key) == murmur2_of_aiokafka(key) & NO_SIGN


# ---- XXH3 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("implementation", xxh3_names())
def test_xxh3_of_every_length_at_every_alignment_equals_the_oracle(implementation: str) -> None:
    view = memoryview(NOISE)
    for length in range(LENGTHS_MAX):
        for start in range(ALIGNMENTS):
            part = view[start : start + length]
            assert xxh3_64_by(implementation, part) == xxhash.xxh3_64_intdigest(part), length


@pytest.mark.parametrize("implementation", xxh3_names())
@pytest.mark.parametrize("blocks", [1, 2, 3, 64, 1023])
@pytest.mark.parametrize("more", [-65, -64, -63, -1, 0, 1, 63, 64, 65])
def test_xxh3_around_block_boundaries_equals_the_oracle(
    implementation: str, blocks: int, more: int
) -> None:
    part = NOISE[: 1024 * blocks + more]

    assert xxh3_64_by(implementation, part) == xxhash.xxh3_64_intdigest(part)


@pytest.mark.parametrize("implementation", xxh3_names())
@pytest.mark.parametrize("fill", [b"\x00", b"\xff"])
def test_xxh3_of_repeated_bytes_equals_the_oracle(implementation: str, fill: bytes) -> None:
    for length in range(LENGTHS_MAX):
        part = fill * length
        assert xxh3_64_by(implementation, part) == xxhash.xxh3_64_intdigest(part), length


def test_the_first_listed_implementation_is_in_use() -> None:
    parts = [NOISE[:length] for length in range(LENGTHS_MAX)]

    column = memoryview(hash_objects(XXH3_64, parts)).tolist()

    assert column == [xxh3_64_by(xxh3_names()[0], part) for part in parts]


def test_the_portable_implementation_is_always_available_and_last() -> None:
    assert xxh3_names()[-1] == "portable"


def test_an_unknown_implementation_is_refused() -> None:
    with pytest.raises(ValueError, match="'abacus', expected one of"):
        xxh3_64_by("abacus", b"")
