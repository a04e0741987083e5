"""Decoding and encoding of record batches, compared with clients of PyPI.

All read and write the same batches: 1,000 records each, keys of 8 bytes, values of 100 bytes. All
check or compute the CRC. extra_info has `ns_per_record` of the fastest round.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords
from pytest_benchmark.fixture import BenchmarkFixture

from broker import codec
from broker.codec import compression
from broker.model.compressions import COMPRESSIONS

BATCH_ROWS = 1_000
CHUNK_BYTES = 8 << 20
NOW_MS = 1_700_000_000_000
NOISE = random.Random(6)
KEYS = [NOISE.randbytes(8) for _ in range(BATCH_ROWS)]
VALUES = [NOISE.randbytes(50).hex().encode() for _ in range(BATCH_ROWS)]
PAIRS = list(zip(KEYS, VALUES, strict=True))


def batch(compression_name: str = "none") -> bytes:
    """Return one batch of the records above."""
    (whole,) = codec.encode(
        PAIRS, compression=compression_name, timestamp_ms=NOW_MS, batch_bytes_max=1 << 20
    )
    return whole


BATCH = batch()
CHUNK = BATCH * (CHUNK_BYTES // len(BATCH))
CHUNK_ROWS = BATCH_ROWS * (CHUNK_BYTES // len(BATCH))


def per_record(benchmark: BenchmarkFixture, rows: int) -> None:
    """Note the time per record and the records per second."""
    assert benchmark.stats is not None
    seconds = benchmark.stats.stats.min
    benchmark.extra_info["ns_per_record"] = seconds / rows * 1e9
    benchmark.extra_info["million_records_per_second"] = rows / seconds / 1e6


# ---- decode --------------------------------------------------------------------------------------


def read_columns(data: bytes) -> int:
    """Decode offsets, timestamps and the spans of keys and values."""
    return len(codec.decode_columns(data))


def client_batches(records: Any) -> Iterator[Any]:  # noqa: ANN401 - clients have no types
    """Yield the batches of a client's reader, with their CRC checked."""
    while (each := records.next_batch()) is not None:
        assert each.validate_crc()
        yield each


def read_with(reader: Callable[[bytes], Any], data: bytes) -> int:
    """Read all keys and values with a client."""
    rows = 0
    for each in client_batches(reader(data)):
        for record in each:
            record.key, record.value  # noqa: B018 - consumers read both
            rows += 1
    return rows


def read_objects(data: bytes) -> int:
    """Read all keys and values with broker.codec."""
    rows = 0
    for record in codec.records(data):
        record.key, record.value  # noqa: B018
        rows += 1
    return rows


def read_aiokafka(data: bytes) -> int:
    """Read with aiokafka's reader in Cython."""
    return read_with(AiokafkaRecords, data)


def read_kafka_python(data: bytes) -> int:
    """Read with kafka-python's reader in Python."""
    return read_with(KafkaPythonRecords, data)


@pytest.mark.parametrize(
    ("peer", "read"),
    [("polylog", read_columns), ("aiokafka", read_aiokafka), ("kafka-python", read_kafka_python)],
)
def test_decode_to_columns(
    benchmark: BenchmarkFixture, peer: str, read: Callable[[bytes], int]
) -> None:
    """Decode several batches, as in a fetch response."""
    benchmark.group, benchmark.name = "decode to columns", peer
    data = BATCH * 10

    assert benchmark(read, data) == 10 * BATCH_ROWS

    per_record(benchmark, 10 * BATCH_ROWS)


@pytest.mark.parametrize(("peer", "read"), [("polylog", read_objects), ("aiokafka", read_aiokafka)])
def test_lazy_objects(benchmark: BenchmarkFixture, peer: str, read: Callable[[bytes], int]) -> None:
    """Read the key and value of one record at a time."""
    benchmark.group, benchmark.name = "records as objects", peer
    data = BATCH * 10

    assert benchmark(read, data) == 10 * BATCH_ROWS

    per_record(benchmark, 10 * BATCH_ROWS)


@pytest.mark.parametrize("peer", ["polylog", "polylog, fresh memory"])
def test_decode_to_arrow(benchmark: BenchmarkFixture, peer: str) -> None:
    """Decode chunks of 8 MiB to a pyarrow.RecordBatch, with and without reuse of memory."""
    benchmark.group, benchmark.name = "decode to Arrow, 8 MiB chunks", peer
    previous: list[codec.Columns | None] = [None]

    def read() -> int:
        columns = codec.decode_columns(CHUNK, reuse=previous[0])
        rows: int = columns.to_arrow().num_rows
        if peer == "polylog":
            previous[0] = columns
        return rows

    assert benchmark(read) == CHUNK_ROWS

    per_record(benchmark, CHUNK_ROWS)


@pytest.mark.parametrize("peer", ["bare library", "polylog"])
@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_decode(benchmark: BenchmarkFixture, peer: str, name: str) -> None:
    """Decode compressed batches to columns, compared with the decompressor alone."""
    benchmark.group, benchmark.name = f"decode {name} to columns", peer
    data = batch(name) * 10
    (number,) = [each.number for each in COMPRESSIONS if each.name == name]
    payload = batch(name)[61:]
    output = bytearray(len(BATCH))
    previous: list[codec.Columns | None] = [None]

    def decompress() -> int:
        for _ in range(10):
            compression.decompress_into(number, payload, output)
        return 10 * BATCH_ROWS

    def read() -> int:
        columns = previous[0] = codec.decode_columns(data, reuse=previous[0])
        return len(columns)

    assert benchmark(read if peer == "polylog" else decompress) == 10 * BATCH_ROWS

    per_record(benchmark, 10 * BATCH_ROWS)


# ---- encode --------------------------------------------------------------------------------------


def write_with(builder: Callable[..., Any]) -> int:
    """Encode the records with a client's builder."""
    made = builder(2, 0, 0, -1, -1, -1, 1 << 20)
    for row, (key, value) in enumerate(PAIRS):
        made.append(row, NOW_MS, key, value, [])
    return len(made.build())


def write_aiokafka() -> int:
    """Encode with aiokafka's builder in Cython."""
    return write_with(AiokafkaBuilder)


def write_kafka_python() -> int:
    """Encode with kafka-python's builder in Python."""
    return write_with(KafkaPythonBuilder)


def write_pairs() -> int:
    """Encode with broker.codec from the same tuples."""
    return sum(map(len, codec.encode(PAIRS, timestamp_ms=NOW_MS, batch_bytes_max=1 << 20)))


@pytest.mark.parametrize(
    ("peer", "write"),
    [("polylog", write_pairs), ("aiokafka", write_aiokafka), ("kafka-python", write_kafka_python)],
)
def test_encode_from_python(
    benchmark: BenchmarkFixture, peer: str, write: Callable[[], int]
) -> None:
    """Encode a batch from keys and values that are bytes objects."""
    benchmark.group, benchmark.name = "encode from an iterable", peer

    assert benchmark(write) == len(BATCH)

    per_record(benchmark, BATCH_ROWS)


@pytest.mark.parametrize("peer", ["polylog, columns", "polylog, Arrow", "aiokafka"])
def test_encode_from_columns(benchmark: BenchmarkFixture, peer: str) -> None:
    """Encode from columns of 10,000 records."""
    benchmark.group, benchmark.name = "encode from columns", peer
    columns = codec.decode_columns(BATCH * 10)
    table = pa.record_batch([pa.array(KEYS * 10), pa.array(VALUES * 10)], ["key", "value"])
    if peer == "aiokafka":
        benchmark(write_aiokafka)
        per_record(benchmark, BATCH_ROWS)
        return

    benchmark(codec.encode, columns if peer == "polylog, columns" else table, timestamp_ms=NOW_MS)

    per_record(benchmark, 10 * BATCH_ROWS)
