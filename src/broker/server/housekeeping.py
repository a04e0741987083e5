"""Periodic work on connections and logs: stale ones are closed, events of logs are processed."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker._native.wire.poller import Poller
from broker.core.configs.broker_configs import BrokerConfigs
from broker.core.maintenance.scrub import Scrub
from broker.core.scheduling.steps import in_steps
from broker.core.service import Service
from broker.model import limits
from broker.model.log_results import LogEvent
from broker.server.coordinators import Coordinators
from broker.server.small_files import SmallFiles
from broker.storage.recovery.partitions import Partitions


class LogEvents(NamedTuple):
    """Processes what the native logs have reported since the last time."""

    turn: Turn
    partitions: Partitions
    small_files: SmallFiles
    coordinators: Coordinators
    scrub: Scrub
    when_failed: Callable[[PartitionLog], object] = lambda _: None  # gets each that is offline
    # Gets those that have gone offline, once they were reported.
    look_further: Callable[[list[PartitionLog]], Awaitable[object]] | None = None

    async def take(self) -> None:
        """Write snapshots of producers for rolled logs; probe the disk for those gone offline."""
        events, self.turn.events = self.turn.events, []
        self.scrub.rolled(log for kind, log in events if kind is LogEvent.ROLLED)
        self.scrub.broken(log for kind, log in events if kind is LogEvent.BROKEN)
        offline = [log for kind, log in events if kind is LogEvent.OFFLINE]
        async for log in in_steps(offline, limits.LOGS_ANNOUNCED_PER_STEP):
            self.when_failed(log)
        if offline:
            self.coordinators.tick()  # requests that wait for these logs are refused now
            await self.small_files.probe()
            if self.look_further is not None:
                await self.look_further(offline)
        for kind, log in events:
            if kind is LogEvent.ROLLED:
                await self._write_snapshot(log)

    async def _write_snapshot(self, log: PartitionLog) -> None:
        offset, content = log.producer_snapshot()
        write = partial(self.partitions.write_snapshot, log, offset, content)
        await self.small_files.write(write)


class Housekeeping(Service):
    """Closes stale connections and idle files, syncs aged records, takes the events of logs."""

    name = "housekeeping"

    def __init__(
        self, configs: BrokerConfigs, poller: Poller, turn: Turn, events: LogEvents
    ) -> None:
        """Keep what it needs."""
        self._configs = configs
        self._poller = poller
        self._turn = turn
        self._events = events

    async def run(self) -> None:
        """Do all of it every HOUSEKEEPING_SECONDS."""
        seconds = 0
        while True:
            await asyncio.sleep(limits.HOUSEKEEPING_SECONDS)
            seconds += limits.HOUSEKEEPING_SECONDS
            self._poller.sweep(
                self._configs.current.integer("connections.max.idle.ms"),
                limits.STALLED_SECONDS * 1000,
                limits.FIRST_REQUEST_SECONDS * 1000,
            )
            self._poller.close_stalled_frames(limits.CONTENDED_FRAME_SECONDS * 1000)
            await self._events.take()
            if seconds % limits.OPEN_SEGMENT_TICK_SECONDS == 0:
                self._turn.files.begin_tick()
            self._turn.files.close_idle(limits.CLOSE_IDLE_MICROSECONDS)
            self._poller.read_clocks()
            self._turn.sync_aged(self._turn.steady_ms)
