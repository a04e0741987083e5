"""Moves leaderships away from this broker: stops what it serves, then writes the successor."""

import asyncio
import logging
from typing import Protocol

from broker.core.cluster.handover import HandOver
from broker.core.cluster.writes import Item
from broker.core.scheduling.steps import in_steps
from broker.core.scheduling.tasks import Tasks
from broker.model.errors import StorageError
from broker.model.identifiers import id_to_text
from broker.model.limits import CLUSTER_RETRY_MS
from broker.server.cluster.machine_driver import MachineDriver
from broker.server.cluster.node import Node

_STOPS_PER_STEP = 64  # a task each
_log = logging.getLogger(__name__)


class Served(Protocol):
    """The partitions that this broker serves."""

    def is_served(self, topic_id: bytes, partition: int) -> bool:
        """Return whether a partition is served, or has not been stopped yet."""

    async def stop_serving(self, topic_id: bytes, partition: int) -> None:
        """Stop to serve a partition: accept no batch, and make durable what was accepted."""


class HandingOver(MachineDriver[HandOver]):
    """The hand-overs of this broker, in each of its incarnations."""

    name = "hand-over"

    def __init__(self, node: Node, served: Served) -> None:
        """Do nothing before `run`."""
        super().__init__(node)
        self._served = served
        self._stopping: set[Item] = set()
        self._stops = Tasks()

    async def stop(self) -> None:
        """Give up what is being stopped and written: the broker closes all logs next."""
        await self._stops.stop()
        await super().stop()

    async def _work(self, machine: HandOver) -> None:
        await super()._work(machine)
        async for item in in_steps(machine.take_stops(), _STOPS_PER_STEP):
            if item not in self._stopping:
                self._stopping.add(item)
                self._stops.begin(self._stop_serving(item))

    def _begin(self, broker: tuple[int, int]) -> HandOver:
        node = self._node
        is_served = self._served.is_served
        return HandOver(node.metadata.image, broker, is_served, is_shared=node.is_shared)

    async def _stop_serving(self, item: Item) -> None:
        try:
            while self._machine is not None and self._machine.must_stop(item):
                try:
                    await self._served.stop_serving(*item)
                except StorageError as error:
                    _log.error(
                        "partition not stopped, tried again: topic_id=%s partition=%d error=%s",
                        *(id_to_text(item[0]), item[1], error),
                    )
                    await asyncio.sleep(CLUSTER_RETRY_MS / 1000)
        finally:
            self._stopping.discard(item)
        if self._machine is not None:  # it may be that of a later incarnation
            self._machine.stopped(item)
        self._writing.something.set()
