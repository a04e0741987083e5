"""Bytes as arrays of JSON numbers (the JSON form of RustLog), compared with the module json.

A group is one row of the table: all of its members process the same text. The JSON report has
`megabytes_per_second` of text in the fastest round under extra_info.
"""

import json
import random
import struct
from collections.abc import Callable, Iterable, Sequence

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from broker._native.protocols.rustlog.byte_arrays import JsonRecords, byte_array
from broker.model.limits import RUSTLOG_BYTES_PER_STEP, RUSTLOG_ENVELOPE_BYTES_MAX

RECORD_BYTES, RECORDS = 1_000, 1_000  # about 3.6 MB of text
SOME = random.Random(6)
# All records differ, because branch predictors learn a short repeated input.
VALUES = {
    "noise": SOME.randbytes(RECORD_BYTES * RECORDS),
    "letters": bytes(SOME.choices(b"    abcdefghijklmnopqrstuvwxyz", k=RECORD_BYTES * RECORDS)),
}


def records_of(data: bytes) -> list[bytes]:
    """Split bytes into records."""
    return [data[start : start + RECORD_BYTES] for start in range(0, len(data), RECORD_BYTES)]


def run_of(records: Iterable[Sequence[int]]) -> bytes:
    """Return records in RustLog's binary form."""
    return b"".join(struct.pack(">I", len(each)) + bytes(each) for each in records)


def request(data: bytes) -> bytes:
    """Return a Produce request as JSON without white space, as clients write it."""
    records = [list(each) for each in records_of(data)]
    fields = {"topic": "topic", "partition": 0, "records": records}
    return json.dumps({"Produce": fields}, separators=(",", ":")).encode()


def read(text: bytes) -> bytes:
    """Read the records in steps, as the broker does."""
    records = JsonRecords(text, RUSTLOG_ENVELOPE_BYTES_MAX)
    while not records.step(RUSTLOG_BYTES_PER_STEP):
        pass
    return records.run


def read_with_json(text: bytes) -> bytes:
    """Do the same with the standard library."""
    return run_of(json.loads(text)["Produce"]["records"])


def write_with_json(data: bytes) -> bytes:
    """Write one record with the standard library."""
    return json.dumps(list(data), separators=(",", ":")).encode()


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(
    ("peer", "read_records"), [("polylog", read), ("json", read_with_json)], ids=lambda each: each
)
def test_read(
    benchmark: BenchmarkFixture, peer: str, read_records: Callable[[bytes], bytes], value: str
) -> None:
    """Read the records of a request; the goal is 200 MB/s."""
    benchmark.group, benchmark.name = f"read JSON byte arrays, {value}", peer
    text = request(VALUES[value])

    run = benchmark(read_records, text)

    assert run == run_of(records_of(VALUES[value]))
    note_rate(benchmark, len(text))


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(
    ("peer", "write"), [("polylog", byte_array), ("json", write_with_json)], ids=lambda each: each
)
def test_write(
    benchmark: BenchmarkFixture, peer: str, write: Callable[[bytes], bytes], value: str
) -> None:
    """Write a record as text."""
    benchmark.group, benchmark.name = f"write a JSON byte array, {value}", peer

    text = benchmark(write, VALUES[value])

    assert text == write_with_json(VALUES[value])
    note_rate(benchmark, len(text))


def note_rate(benchmark: BenchmarkFixture, size: int) -> None:
    """Note the text per second of the fastest round, which was disturbed least."""
    stats = benchmark.stats
    assert stats is not None
    benchmark.extra_info["megabytes_per_second"] = size / float(stats.stats.min) / 1e6
