"""Retention of 10,000 segments: how long the loop stands still meanwhile, and how long it takes.

The log and its files are real, and so are the I/O thread and the log start checkpoint. A ticker on
the same loop asks for the next millisecond again and again; how much too late it is woken is what a
connection would have waited. Part of that is the machine's doing: the time that the thread could
run and got no core, which the kernel counts (/proc/thread-self/schedstat). The rest is ours: work
on the loop, and waiting for a lock or the GIL.
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
from broker.core.io_thread import IoThread
from broker.core.retention import Retention
from broker.model.clock import ManualClock
from broker.model.config import load
from broker.model.topic_config import TopicConfig
from broker.storage import checkpoint, segment_files

SEGMENTS = 10_000
TICK_SECONDS = 0.001
QUIET_SECONDS = 1.0
STALL_MS_MAX = 5


class Stall(NamedTuple):
    """The longest of a ticker, each of another tick, perhaps."""

    late_ms: float
    own_ms: float  # of that, not for want of a core
    busy_ms: float  # processor time of the loop


class Facts(NamedTuple):
    """What one round came to."""

    check_s: float  # until the segments are off the log and renamed
    check: Stall
    removal_s: float  # their files, after file.delete.delay.ms
    removal: Stall
    quiet: Stall  # nothing done
    left: int  # segments; the active one is to stay


class Ticker:
    """Watches the loop it runs on."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._longest = Stall(0, 0, 0)

    async def tick(self) -> None:
        """Sleep and look, until cancelled."""
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
        """Return the longest so far and start anew."""
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
            (folder / segment_files.file_name(base, suffix)).write_bytes(content)


def measure(folder: Path, rounds: int, segments: int = SEGMENTS) -> list[Facts]:
    """Return what each round came to."""
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
    # By size: all segments but the active one go, which a bound on time would roll and empty.
    config = TopicConfig({"retention.bytes": "0", "file.delete.delay.ms": "0"}, load())
    io_thread = IoThread()

    async def on_disk(work: Callable[[], None]) -> bool:
        await io_thread.run(work)
        return True

    def logs() -> Iterable[tuple[PartitionLog, TopicConfig]]:
        return [(log, config)]

    async def save(moved: Sequence[tuple[PartitionLog, int]]) -> bool:
        starts = {(each.topic, each.partition): start for each, start in moved}
        write = partial(checkpoint.write_offsets, folder / checkpoint.LOG_START_OFFSETS, starts)
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
    begun = time.monotonic()
    await work()
    await asyncio.sleep(2 * TICK_SECONDS)  # a tick that is late now is seen
    return time.monotonic() - begun
