"""The kernels of the guard: deterministic calls.

python -m benchmarks.guard.kernels NAME TIMES runs one; guard.py does so under callgrind.
"""

import sys
from collections.abc import Callable
from typing import TypeAlias

from broker import codec
from broker._native.records.record_batch import validate
from broker.codec import hashes

Kernel: TypeAlias = Callable[[], object]

ROWS = 1_000
NOW_MS = 1_700_000_000_000
PAIRS = [(b"key-%04d" % row, b"v" * 100) for row in range(ROWS)]
METADATA = 3
OFFSET_COMMIT = 8


def one_batch() -> bytes:
    """Return a batch with the records of all kernels."""
    (batch,) = codec.encode(PAIRS, timestamp_ms=NOW_MS)
    return batch


def checksum() -> Kernel:
    """Compute the CRC-32C of 4 MiB."""
    data = bytes(range(256)) * 16_384
    return lambda: hashes.crc32c(data)


def validate_batch() -> Kernel:
    """Validate a producer's batch of 1,000 records as an append does: CRC and every record."""
    data = one_batch()
    return lambda: validate(data)


def scan_headers() -> Kernel:
    """Scan the headers of 1,000 batches."""
    data = one_batch() * 1_000
    return lambda: codec.scan_headers(data)


def decode_columns() -> Kernel:
    """Decode 1,000 records to four columns, with the CRC."""
    data = one_batch()
    return lambda: codec.decode_columns(data)


def decode_headers() -> Kernel:
    """Decode 1,000 records with two headers each to columns."""
    headers = [("trace", b"0123456789abcdef"), ("empty", None)]
    (data,) = codec.encode([(*pair, headers) for pair in PAIRS], timestamp_ms=NOW_MS)
    return lambda: codec.decode_columns(data, columns=["offset", "headers"])


def read_objects() -> Kernel:
    """Read the keys and values of 1,000 records as objects."""
    data = one_batch()
    return lambda: [(record.key, record.value) for record in codec.records(data)]


def encode_pairs() -> Kernel:
    """Encode 1,000 records from tuples."""
    return lambda: codec.encode(PAIRS, timestamp_ms=NOW_MS)


def encode_columns() -> Kernel:
    """Encode 1,000 records from columns."""
    columns = codec.decode_columns(one_batch())
    return lambda: codec.encode(columns)


def partition_keys() -> Kernel:
    """Compute the partitions of 1,000 keys by murmur2."""
    columns = codec.decode_columns(one_batch())
    keys = hashes.Spans.of(columns, "key")
    return lambda: hashes.partition_column(keys, 12)


def metadata() -> codec.Fields:
    """Return the metadata of a cluster with 100 topics."""
    partition = {"replica_nodes": [0, 1, 2], "isr_nodes": [0, 1, 2]}
    partitions = [{"partition_index": index, **partition} for index in range(8)]
    topics = [{"name": f"topic-{index}", "partitions": partitions} for index in range(100)]
    return {"cluster_id": "guard", "topics": topics}


def encode_message() -> Kernel:
    """Encode a Metadata response of 100 topics."""
    fields = metadata()
    return lambda: codec.encode_response(METADATA, 12, fields)


def decode_message() -> Kernel:
    """Decode a Metadata response of 100 topics."""
    data = codec.encode_response(METADATA, 12, metadata())
    return lambda: codec.decode_response(METADATA, 12, data)


KERNELS: dict[str, Callable[[], Kernel]] = {
    "crc32c": checksum,
    "validate_batch": validate_batch,
    "scan_headers": scan_headers,
    "decode_columns": decode_columns,
    "decode_headers": decode_headers,
    "read_objects": read_objects,
    "encode_pairs": encode_pairs,
    "encode_columns": encode_columns,
    "partition_keys": partition_keys,
    "encode_message": encode_message,
    "decode_message": decode_message,
}


if __name__ == "__main__":
    kernel = KERNELS[sys.argv[1]]()
    for _ in range(int(sys.argv[2])):
        kernel()
