"""Checksums and hashes from Python, compared with packages of PyPI and the standard library.

A group is one row of the table: all of its members process the same bytes. The JSON report has
`ns_per_row` or `gigabytes_per_second` of the fastest round under extra_info.
"""

import random
import zlib
from array import array
from collections.abc import Callable
from typing import Any

import google_crc32c
import pyarrow as pa
import pytest
import xxhash
from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python
from pytest_benchmark.fixture import BenchmarkFixture

from broker.codec.hashes import Spans, crc32, crc32c, partition_column, xxh3_64_column

NOISE = random.Random(4).randbytes(1 << 20)
SIZES = {"1 KB": 1 << 10, "16 KB": 1 << 14, "1 MB": 1 << 20}
PARTITIONS = 12
ROWS = 10_000
VALUE_SIZES = {"16 B": 16, "100 B": 100, "1 KB": 1024}
SECONDS_A_ROUND = {"kafka-python", "aiokafka"}  # at 1 KB; skipped there

CHECKSUMS: list[tuple[str, str, Callable[[bytes], int]]] = [
    ("crc32c", "google-crc32c", google_crc32c.value),
    ("crc32c", "polylog", crc32c),
    ("crc32", "zlib", zlib.crc32),
    ("crc32", "polylog", crc32),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("row", "peer", "checksum"), CHECKSUMS, ids=[f"{row} {peer}" for row, peer, _ in CHECKSUMS]
)
def test_checksum(
    benchmark: BenchmarkFixture, row: str, peer: str, checksum: Callable[[bytes], int], size: str
) -> None:
    """Compute the checksum of one bytes object."""
    data = NOISE[: SIZES[size]]
    benchmark.group = f"{row}, {size}"
    benchmark.name = peer

    benchmark(checksum, data)

    benchmark.extra_info["gigabytes_per_second"] = len(data) / fastest(benchmark) / 1e9


def values_of(size: int) -> list[bytes]:
    """Return the values of a column."""
    noise = random.Random(5)
    return [noise.randbytes(size) for _ in range(ROWS)]


def spans_of(values: list[bytes]) -> Spans:
    """Return values as spans over one buffer."""
    size = len(values[0])
    starts = array("i", range(0, size * len(values), size))
    return Spans(b"".join(values), starts, array("i", [size]) * len(values))


def arrow_of(values: list[bytes]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return values as an Arrow array."""
    return pa.array(values, pa.binary())


def whole(values: list[bytes]) -> list[bytes]:
    """Return values unchanged."""
    return values


def xxhash_each(values: list[bytes]) -> list[int]:
    """Hash one value at a time, since the package has no other function."""
    return [xxhash.xxh3_64_intdigest(value) for value in values]


def partition_with(murmur2: Callable[[bytes], int]) -> Callable[[list[bytes]], list[int]]:
    """Return a function that computes the partition of one key at a time, as Python clients do."""
    return lambda keys: [(murmur2(key) & 0x7FFFFFFF) % PARTITIONS for key in keys]


def partition_each(keys: Any) -> Any:  # noqa: ANN401 - any column in, a Column out
    """Compute the partitions of a whole column."""
    return partition_column(keys, PARTITIONS)


COLUMNS: list[tuple[str, str, Callable[[list[bytes]], Any], Callable[[Any], Any]]] = [
    ("partition", "kafka-python", whole, partition_with(murmur2_of_kafka_python)),
    ("partition", "aiokafka", whole, partition_with(murmur2_of_aiokafka)),
    ("partition", "polylog, objects", whole, partition_each),
    ("partition", "polylog, spans", spans_of, partition_each),
    ("partition", "polylog, Arrow", arrow_of, partition_each),
    ("xxh3_64", "xxhash", whole, xxhash_each),
    ("xxh3_64", "polylog, objects", whole, xxh3_64_column),
    ("xxh3_64", "polylog, spans", spans_of, xxh3_64_column),
    ("xxh3_64", "polylog, Arrow", arrow_of, xxh3_64_column),
]


@pytest.mark.parametrize("size", VALUE_SIZES)
@pytest.mark.parametrize(
    ("row", "peer", "form", "hashed"), COLUMNS, ids=[f"{row} {peer}" for row, peer, *_ in COLUMNS]
)
def test_column(
    benchmark: BenchmarkFixture,
    row: str,
    peer: str,
    form: Callable[[list[bytes]], Any],
    hashed: Callable[[Any], Any],
    size: str,
) -> None:
    """Hash every row of a column."""
    if peer in SECONDS_A_ROUND and size == "1 KB":
        pytest.skip("seconds a round")
    column = form(values_of(VALUE_SIZES[size]))
    benchmark.group = f"{row} of a column, {size}"
    benchmark.name = peer

    benchmark(hashed, column)

    benchmark.extra_info["ns_per_row"] = fastest(benchmark) / ROWS * 1e9


def fastest(benchmark: BenchmarkFixture) -> float:
    """Return the seconds of the fastest round, which was disturbed least."""
    stats = benchmark.stats
    assert stats is not None
    return float(stats.stats.min)
