"""Reports the state of a broker to the service manager that has started it."""

import asyncio
from typing import Final

from broker._native.wire.poller import Poller
from broker.core.broker import Broker
from broker.core.service import Service
from broker.server.service_manager import ALIVE, EXTENSION, READY, ServiceManager

_LOOK_SECONDS: Final = 1.0  # between two reports before the broker is ready
_STATUS_SECONDS: Final = 5.0  # between two reports of a broker that is ready


class Reporting(Service):
    """Reports the state of a broker."""

    name = "reports to the service manager"

    def __init__(self, manager: ServiceManager, broker: Broker, poller: Poller) -> None:
        """Report nothing yet."""
        self.is_announced = False  # it has joined its cluster, or waits no longer for that
        self._manager = manager
        self._broker = broker
        self._poller = poller
        self._is_ready = False
        self._status = ""

    def start(self) -> None:
        """Ask for time to open all logs."""
        self._manager.tell(EXTENSION)

    async def run(self) -> None:
        """Report until cancelled."""
        pause = min(self._manager.watchdog_seconds or 2 * _STATUS_SECONDS, 2 * _STATUS_SECONDS) / 2
        while True:
            self.report()
            await asyncio.sleep(pause if self._is_ready else min(pause, _LOOK_SECONDS))

    def report(self) -> None:
        """Send what is due now."""
        lines = [] if self._manager.watchdog_seconds is None else [ALIVE]
        if not self._is_ready:
            self._is_ready = self.is_announced and not self._broker.topics.is_loading
            lines.append(READY if self._is_ready else EXTENSION)
        status = self._described()
        if status != self._status:
            self._status = status
            lines.append(f"STATUS={status}")
        if lines:
            self._manager.tell(*lines)

    def _described(self) -> str:
        """Return one line for people."""
        broker = self._broker
        reasons = broker.health.not_ready(is_loading=broker.topics.is_loading)
        state = ", ".join(each.reason for each in reasons) or "ready"
        health = broker.health
        return (
            f"{state}: partitions={broker.topics.registry.partition_count}"
            f" connections={len(self._poller.connections)} disk={health.disk_level.name}"
            f" free_mib={health.disk_free_bytes >> 20}"
        )
