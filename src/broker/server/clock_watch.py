"""Checks the wall clock for steps every second, and stores the clock state for the next start."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from broker.core.service import Service
from broker.model import limits
from broker.model.guarded_clock import GuardedClock, MachineClock
from broker.storage.checkpoints import clock_checkpoint


class ClockWatch(Service):
    """The guarded clock of a broker and its checkpoint."""

    name = "clock watch"

    def __init__(
        self,
        folder: Path,
        clock: MachineClock,
        on_disk: Callable[[Callable[[], None]], Awaitable[bool]],
        confirmed_ms: int,
    ) -> None:
        """Read the stored state; `on_disk` runs work in the I/O thread: whether it succeeded."""
        self._folder = folder
        self._on_disk = on_disk
        self._changes_written = -1
        seen = clock_checkpoint.read(folder)
        self.clock = GuardedClock(clock, clock_checkpoint.boot_id(), seen, confirmed_ms)

    async def run(self) -> None:
        """Check the clock; store its state at once after a change, otherwise periodically."""
        due_ms = 0
        while True:
            self.clock.aged_ms()
            now_ms = self.clock.monotonic_ms()
            if now_ms >= due_ms or self._changes_written != self.clock.change_count:
                await self.write()
                due_ms = now_ms + limits.CHECKPOINT_SECONDS * 1000
            await asyncio.sleep(limits.HOUSEKEEPING_SECONDS)

    async def stop(self) -> None:
        """Store the clock state for the next start."""
        await self.write()

    async def write(self) -> None:
        """Store the clock state; a failed write is repeated with the next one."""
        count = self.clock.change_count
        await self._on_disk(partial(clock_checkpoint.write, self._folder, self.clock.seen()))
        self._changes_written = count
