"""Processor time per batch: validation, offset, append, index, and its part of a turn's end.

The source of all batches stays in the core's cache, as received bytes do. Files are new, and all
participants run in every round. `thread` is the time of the appending thread, `process` that of all
threads, which includes syncs and the population of pages.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.end_to_end import machine
from benchmarks.storage import loops
from benchmarks.storage.folder import Logs
from broker import codec

SOURCE_BYTES = 256 << 10  # of distinct batches
NOW_MS = 1_700_000_000_000

OS, GROUP_COMMIT = "os", "group-commit"
MEMORY, PWRITE, STAGED, MAPPED = FLOORS = ("memory", "pwrite", "staged", "mapped")
VALIDATE = "validate"
PARTICIPANTS = (OS, GROUP_COMMIT, VALIDATE, *FLOORS)


class Shape(NamedTuple):
    """The size and number of appended batches."""

    name: str
    batch_bytes: int
    record_bytes: int
    per_turn: int  # batches in one turn of the loop
    megabytes: int


class Goal(NamedTuple):
    """A limit of our cost with `os`: in ns, or as a multiple of a floor."""

    limit: float
    floor: str | None = None


SHAPES = {
    Shape("160 B", 160, 160, 64, 32): (Goal(150),),
    Shape("160 B, alone in its turn", 160, 160, 1, 16): (),
    Shape("1 KB", 1 << 10, 1 << 10, 32, 64): (),
    Shape("16 KB", 16 << 10, 1 << 10, 4, 256): (Goal(1.5, MEMORY), Goal(1.5, MAPPED)),
    Shape("64 KB", 64 << 10, 1 << 10, 1, 256): (Goal(1.5, MEMORY), Goal(1.5, MAPPED)),
}


@dataclass
class Costs:
    """ns per batch of each round, of the appending thread and of the process."""

    thread: list[float] = field(default_factory=list)
    process: list[float] = field(default_factory=list)


Results = dict[str, dict[str, Costs]]  # by shape, by participant


def batch_of(size: int, record_bytes: int) -> bytes:
    """Encode a batch of exactly `size` bytes; all records but the last have one size."""
    count = max(1, size // record_bytes)
    lengths = [max(0, record_bytes - 10)] * count
    while True:
        (batch,) = codec.encode(
            [(None, bytes([65 + i % 26]) * length) for i, length in enumerate(lengths)],
            timestamp_ms=NOW_MS,
        )
        if len(batch) == size:
            return bytes(batch)
        lengths[-1] += size - len(batch)


def measure(folder: Path, rounds: int, scale: float) -> Iterator[tuple[Shape, Results]]:
    """Yield all results so far after each shape."""
    results: Results = {}
    for shape in SHAPES:
        batch = batch_of(shape.batch_bytes, shape.record_bytes)
        batches = bytearray(batch * max(1, SOURCE_BYTES // len(batch)))
        count = int(shape.megabytes * scale * 1e6) // len(batch)
        costs = results[shape.name] = {name: Costs() for name in PARTICIPANTS}
        run(
            MAPPED, folder, shape, batches, count
        )  # a virtual machine gets its memory pages from the host
        for number in range(rounds):
            turn = number % len(PARTICIPANTS)
            for name in (*PARTICIPANTS[turn:], *PARTICIPANTS[:turn]):
                thread_ns, process_ns = run(name, folder, shape, batches, count)
                costs[name].thread.append(thread_ns / count)
                costs[name].process.append(process_ns / count)
        yield shape, results


def run(name: str, folder: Path, shape: Shape, batches: bytearray, count: int) -> tuple[int, int]:
    """Append all batches with one participant to a new file; return (thread, process) in ns."""
    machine.drain()
    if name == VALIDATE:
        return loops.check(batches, shape.batch_bytes, count)
    if name in FLOORS:
        return _floor(name, folder, shape, batches, count)
    logs = Logs(folder)
    try:
        log = logs.create(name, is_group_commit=name == GROUP_COMMIT)
        return loops.append(log, batches, shape.batch_bytes, count, shape.per_turn)
    finally:
        logs.remove()


def _floor(
    name: str, folder: Path, shape: Shape, batches: bytearray, count: int
) -> tuple[int, int]:
    path = folder / name
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        return loops.floor(name, descriptor, batches, shape.batch_bytes, count, shape.per_turn)
    finally:
        os.close(descriptor)
        path.unlink()
