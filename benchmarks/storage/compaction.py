"""Compaction: MB/s and records/s of its kernel, and of the whole process for a log on the disk.

python -m benchmarks.storage.compaction [--megabytes 256] [-o json]

Megabytes are those of the batches before compression. The rows of the kernel have the CPU time of
the fastest of several rounds over one block in memory, larger than the processor's caches. The
floor copies the same bytes and computes their CRC-32C, the minimum for rewriting a batch. The rows
of the process have wall time from start to end, CPU time and peak memory; it reads from the page
cache and syncs its output.
"""

import argparse
import contextlib
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.end_to_end.machine import describe
from broker import codec
from broker._native.records.compaction import KeyCollector, RecordFilter
from broker._native.records.key_map import KeyMap
from broker.codec import compression
from broker.model.limits import (
    COMPACTION_DECOMPRESSED_BYTES_MAX,
    COMPACTION_MAP_BYTES,
    COMPACTION_READ_BYTES,
)
from broker.storage.maintenance.compactor import Job

BLOCK_BYTES = 16 << 20
BATCH_BYTES = 16 << 10
ROUNDS = 5
NOW_MS = 1_700_000_000_000
MODULE = "broker.storage.maintenance.compactor"


class Row(NamedTuple):
    """One line of the table."""

    name: str
    megabytes: float
    records: int
    seconds: float
    note: str = ""

    def text(self) -> str:
        """Return the printed line."""
        speed = self.megabytes / self.seconds
        records = self.records / self.seconds / 1e6
        return f"{self.name:<44} {speed:>8,.0f} MB/s {records:>8.2f} M records/s  {self.note}"


class Block(NamedTuple):
    """Batches of records; each key occurs once, or `copies` times."""

    data: bytes
    records: int
    megabytes: float


def block(value_bytes: int, copies: int = 1, compression_name: str = "none") -> Block:
    """Return a block of about BLOCK_BYTES before compression."""
    count = BLOCK_BYTES // (value_bytes + 32)
    filler = bytes(range(97, 123)) * (value_bytes // 26 + 1)
    rows = (
        (b"key-%012d" % (i // copies), (b"%d " % i + filler)[:value_bytes]) for i in range(count)
    )
    batches = codec.encode(
        rows, timestamp_ms=NOW_MS, batch_bytes_max=BATCH_BYTES, compression=compression_name
    )
    return Block(b"".join(batches), count, count * (value_bytes + 26) / 1e6)


def fastest(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the fastest round."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


COMMON: dict[str, Any] = {
    "decompress": compression.decompress_into,
    "decompressed_bytes_max": COMPACTION_DECOMPRESSED_BYTES_MAX,
}


def collect(data: bytes, key_map: KeyMap) -> KeyMap:
    """Add the keys of a block to a map."""
    collector = KeyCollector(key_map, first_offset=0, end_offset=1 << 40, **COMMON)
    for piece in pieces(data):
        collector.add(piece)
    return key_map


def filter_records(data: bytes, key_map: KeyMap) -> int:
    """Return the number of records of a block that are retained."""
    record_filter = RecordFilter(
        key_map,
        compress=compression.compress,
        now_ms=NOW_MS,
        delete_retention_ms=86_400_000,
        **COMMON,
    )
    for piece in pieces(data):
        record_filter.filter(piece)
    return record_filter.records_kept


def pieces(data: bytes) -> list[memoryview]:
    """Split a block into whole batches of the size that the process reads."""
    ends = [0]
    for header in codec.scan_headers(data):
        if header.position + header.size - ends[-1] >= COMPACTION_READ_BYTES:
            ends.append(header.position + header.size)
    view = memoryview(data)
    return [view[start:end] for start, end in itertools.pairwise([*ends, len(data)])]


def kernel_rows(value_bytes: int, compression_name: str) -> list[Row]:
    """Measure both passes over a block, and the floor."""
    label = f"{value_bytes} B, {compression_name}"
    unique = block(value_bytes, 1, compression_name)
    twice = block(value_bytes, 2, compression_name)
    size = unique.megabytes
    into = bytearray(len(unique.data))

    def floor() -> None:
        into[:] = unique.data
        codec.crc32c(into)

    of_unique, of_twice = (
        collect(each.data, KeyMap(COMPACTION_MAP_BYTES)) for each in (unique, twice)
    )
    seconds = fastest(lambda: collect(unique.data, of_unique))
    rows = [Row(f"keys added to the map ({label})", size, unique.records, seconds)]
    if compression_name == "none":
        label_of_floor = f"floor: memcpy + CRC ({label})"
        rows.insert(0, Row(label_of_floor, size, unique.records, fastest(floor)))
    for name, each, key_map in (
        ("all records retained", unique, of_unique),
        ("half of them retained", twice, of_twice),
    ):
        kept = filter_records(each.data, key_map)
        seconds = fastest(lambda e=each, m=key_map: filter_records(e.data, m))  # type: ignore[misc]
        note = f"kept {kept / each.records:.0%}"
        rows.append(Row(f"{name} ({label})", each.megabytes, each.records, seconds, note))
    return rows


def write_log(folder: Path, part: Block, copies: int) -> list[tuple[int, int]]:
    """Write segments of one block each with the same keys; return base offsets and sizes."""
    segments = []
    for number in range(copies):
        base = number * part.records
        data = bytearray(part.data)
        for header in codec.scan_headers(part.data):
            place = header.position
            data[place : place + 8] = (base + header.base_offset).to_bytes(8)
        (folder / f"{base:020d}.log").write_bytes(data)
        segments.append((base, len(data)))
    return segments


def process_row(megabytes: int, value_bytes: int, compression_name: str) -> Row:
    """Measure the whole process for a log in which one of all copies is retained."""
    part = block(value_bytes, 1, compression_name)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copies = max(2, round(megabytes / part.megabytes))
        segments = write_log(folder, part, copies)
        job = Job(
            folder=name,
            groups=[[segment] for segment in segments],
            first_dirty_offset=0,
            end_offset=copies * part.records,
            map_bytes=COMPACTION_MAP_BYTES,
            now_ms=NOW_MS,
            delete_retention_ms=0,
            index_interval_bytes=4096,
            decompressed_bytes_max=COMPACTION_DECOMPRESSED_BYTES_MAX,
            producer_ends=[],
            aborted=[],
            parent_pid=os.getpid(),
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        last, peak = run(job)
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert last["kind"] == "done", last
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    note = f"CPU {cpu:.2f} s, peak {peak >> 20} MiB"
    size = copies * part.megabytes
    label = f"process, {size:.0f} MB ({value_bytes} B, {compression_name})"
    return Row(label, size, copies * part.records, seconds, note)


def run(job: Job) -> tuple[dict[str, Any], int]:
    """Run a job in a process; return its last message and its peak memory in bytes."""
    peak = 0
    last: dict[str, Any] = {}
    with subprocess.Popen(
        [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job._asdict()).encode() + b"\n")
        process.stdin.flush()
        for line in process.stdout:
            last = json.loads(line)
            with contextlib.suppress(ProcessLookupError, FileNotFoundError, KeyError):
                status = Path(f"/proc/{process.pid}/status").read_text()
                peak = int(dict(row.split(":", 1) for row in status.splitlines())["VmHWM"][:-3])
    return last, peak << 10


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256, help="of the log on the disk")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    arguments = parser.parse_args()
    rows = [
        row
        for value_bytes, name in ((100, "none"), (1_000, "none"), (100, "lz4"), (100, "zstd"))
        for row in kernel_rows(value_bytes, name)
    ]
    for value_bytes, name in ((100, "none"), (1_000, "none"), (1_000, "zstd")):
        rows.append(process_row(arguments.megabytes, value_bytes, name))
    if arguments.output == "json":
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return
    print(describe())
    for row in rows:
        print(row.text())


if __name__ == "__main__":
    main()
