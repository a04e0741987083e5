"""The check of a segment as in `broker segment verify`, from the page cache, on one core.

It is compared with the hash alone over bytes in memory, and with a copy of them.
"""

import time
from pathlib import Path

from broker._native.log.segment_check import SegmentCheck, digest_of
from broker.codec import encode
from broker.model.limits import SEGMENT_CHECK_STEP_BYTES

SEGMENT_BYTES = 256 << 20
RECORD_BYTES = 1_000
RECORDS_PER_BATCH = 16
GOAL = 3.0
CHECK, HASH, COPY = "verify", "xxh3 alone", "memcpy"


def measure(folder: Path, rounds: int, scale: float) -> dict[str, list[float]]:
    """Return GB per second of processor time of each round, measured alternately."""
    file = folder / f"{0:020}.log"
    _write(file, int(SEGMENT_BYTES * scale))
    data = file.read_bytes()
    target = memoryview(bytearray(len(data)))

    def copy() -> None:
        target[:] = data

    functions = {
        CHECK: lambda: _check(file),
        HASH: lambda: digest_of(data),
        COPY: copy,
    }
    found: dict[str, list[float]] = {name: [] for name in functions}
    for round_ in range(rounds + 1):
        for name, run in functions.items():
            began = time.thread_time_ns()
            run()
            if round_:  # the first round warms up
                found[name].append(len(data) / (time.thread_time_ns() - began))
    file.unlink()
    return found


def _check(file: Path) -> None:
    check = SegmentCheck(file, 0)
    while check.step(SEGMENT_CHECK_STEP_BYTES):
        continue
    if check.damages or not check.batches:
        raise AssertionError(f"{file}: {check.damages}")


def _write(file: Path, size: int) -> None:
    """Write batches with ascending offsets, which the CRC does not cover."""
    values = [(None, bytes([number]) * RECORD_BYTES) for number in range(RECORDS_PER_BATCH)]
    [batch] = encode(values, timestamp_ms=0)
    with file.open("wb") as target:
        for number in range(size // len(batch)):
            target.write((number * RECORDS_PER_BATCH).to_bytes(8) + batch[8:])
