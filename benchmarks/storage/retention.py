"""Retention of 10,000 segments: its duration, and the longest stall of the event loop.

The log, its files, the I/O thread and the log start checkpoint are real. A ticker on the same loop
sleeps for a millisecond repeatedly; its delay is the time that a connection would have waited. A
part of the delay is the time that the thread was runnable without a core, which the kernel counts
(/proc/thread-self/schedstat). The rest is our cost: work on the loop, and waits for a lock or the
GIL.
"""

import asyncio
import gc
import os
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import uvloop

from benchmarks.storage import loops
from benchmarks.storage.folder import NOW_MS, Logs
from broker import codec
from broker._native.log import recovery
from broker._native.log.partition_log import PartitionLog
from broker.core.maintenance.retention import Retention
from broker.core.scheduling.io_thread import IoThread
from broker.model.config import load
from broker.model.topic_config import TopicConfig
from broker.segments import text_files
from broker.segments.names import file_name
from broker.storage.checkpoints import checkpoint
from tests.support.manual_clock import ManualClock

SEGMENTS = 10_000
TICK_SECONDS = 0.001
QUIET_SECONDS = 1.0
STALL_MS_MAX = 5


class Stall(NamedTuple):
    """Maxima of a ticker; each may be of a different tick."""

    late_ms: float
    own_ms: float  # the delay without the time waiting for a core
    busy_ms: float  # processor time of the loop


class Facts(NamedTuple):
    """The results of one round."""

    check_s: float  # until the segments are removed from the log and renamed
    check: Stall
    removal_s: float  # until their files are deleted, after file.delete.delay.ms
    removal: Stall
    quiet: Stall  # without any work
    left: int  # segments left; the active one is expected


class Ticker:
    """Measures the stalls of the loop that it runs on."""

    def __init__(self) -> None:
        """Create a ticker without measurements."""
        self._longest = Stall(0, 0, 0)

    async def tick(self) -> None:
        """Measure until cancelled."""
        schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        try:
            before = loops.moment(schedstat)
            while True:
                await asyncio.sleep(TICK_SECONDS)
                after = loops.moment(schedstat)
                now, busy, waited = (late - soon for late, soon in zip(after, before, strict=True))
                late = now - TICK_SECONDS * 1e9
                found = (ns / 1e6 for ns in (late, late - waited, busy))
                self._longest = Stall(*map(max, self._longest, found))
                before = after
        finally:
            os.close(schedstat)

    def take(self) -> Stall:
        """Return the maxima and reset them."""
        found, self._longest = self._longest, Stall(0, 0, 0)
        return found


def write_segments(folder: Path, count: int) -> None:
    """Write the files of sealed segments of one record each, as a clean stop leaves them."""
    (batch,) = codec.encode([b"record"], timestamp_ms=NOW_MS)
    for base in range(count):
        for suffix, content in (
            (".log", struct.pack(">q", base) + batch[8:12] + bytes(4) + batch[16:]),
            (".index", bytes(8)),
            (".timeindex", struct.pack(">qi", NOW_MS, 0)),
        ):
            (folder / file_name(base, suffix)).write_bytes(content)


def measure(folder: Path, rounds: int, segments: int = SEGMENTS) -> list[Facts]:
    """Return the results of each round."""
    return [_round(folder, segments) for _ in range(rounds)]


def _round(folder: Path, segments: int) -> Facts:
    logs = Logs(folder)
    try:
        log = logs.closed("retained")
        write_segments(Path(log.folder), segments)
        recovery.attach(
            log,
            list(range(segments)),
            log_start_offset=0,
            log_end_offset=segments,
            epochs=[(0, 0)],
            snapshot=b"",
        )
        gc.freeze()  # as a broker does once it has started
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_retain(log, folder))
    finally:
        gc.unfreeze()
        logs.remove()


async def _retain(log: PartitionLog, folder: Path) -> Facts:
    clock = ManualClock(NOW_MS)
    # Retention by size deletes all segments but the active one; by time it would delete that too.
    config = TopicConfig({"retention.bytes": "0", "file.delete.delay.ms": "0"}, load())
    io_thread = IoThread()

    async def on_disk(work: Callable[[], None]) -> bool:
        await io_thread.run(work)
        return True

    def logs() -> Iterable[tuple[PartitionLog, TopicConfig]]:
        return [(log, config)]

    async def save(moved: Sequence[tuple[PartitionLog, int]]) -> bool:
        starts = {(each.topic, each.partition): start for each, start in moved}
        write = partial(checkpoint.write_offsets, folder / text_files.LOG_START_OFFSETS, starts)
        return await on_disk(write)

    retention = Retention(logs, clock, on_disk, save)
    ticker = Ticker()
    ticking = asyncio.create_task(ticker.tick())
    await asyncio.sleep(QUIET_SECONDS)
    quiet = ticker.take()
    check_s = await _timed(retention.apply_retention)
    check = ticker.take()
    removal_s = await _timed(retention.remove_due_files)
    removal = ticker.take()
    ticking.cancel()
    with suppress(asyncio.CancelledError):
        await ticking
    io_thread.stop()
    return Facts(check_s, check, removal_s, removal, quiet, log.segment_count)


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    started = time.monotonic()
    await work()
    await asyncio.sleep(2 * TICK_SECONDS)  # so that a late tick is measured
    return time.monotonic() - started
