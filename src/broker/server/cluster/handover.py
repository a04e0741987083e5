"""Moves leaderships away from this broker: stops what it serves, then writes the successor."""

import asyncio
import logging
from typing import Protocol

from broker.core.cluster.handover import HandOver
from broker.core.cluster.image import Delta
from broker.core.cluster.records import NO_EPOCH
from broker.core.cluster.writes import Item
from broker.core.scheduling.steps import in_steps
from broker.core.scheduling.tasks import Tasks
from broker.core.service import Service
from broker.model.errors import StorageError
from broker.model.identifiers import id_to_text
from broker.model.limits import CLUSTER_RETRY_MS
from broker.server.cluster.node import Node
from broker.server.cluster.writing import Writing

_STOPS_PER_STEP = 64  # a task each
_log = logging.getLogger(__name__)


class Served(Protocol):
    """The partitions that this broker serves."""

    def is_served(self, topic_id: bytes, partition: int) -> bool:
        """Return whether a partition is served, or has not been stopped yet."""

    async def stop_serving(self, topic_id: bytes, partition: int) -> None:
        """Stop to serve a partition: accept no batch, and make durable what was accepted."""


class HandingOver(Service):
    """The hand-overs of this broker, in each of its incarnations."""

    name = "hand-over"
    is_essential = True

    def __init__(self, node: Node, served: Served) -> None:
        """Do nothing before `run`."""
        self._node = node
        self._served = served
        self._writing = Writing(node.store, node.clock)
        self._machine: HandOver | None = None
        self._epoch = NO_EPOCH  # of the incarnation whose machine that is
        self._stopping: set[Item] = set()
        self._stops = Tasks()
        node.metadata.when_changed(self._image_changed)
        node.member.when_phase_changes(self._writing.something.set)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            machine = self._present()
            if machine is not None:
                machine.tick(self._node.clock.monotonic_ms())
                await self._writing.work(machine)
                async for item in in_steps(machine.take_stops(), _STOPS_PER_STEP):
                    if item not in self._stopping:
                        self._stopping.add(item)
                        self._stops.begin(self._stop_serving(item))
            await self._writing.wait(None if machine is None else machine.due_ms)

    async def stop(self) -> None:
        """Give up what is being stopped and written: the broker closes all logs next."""
        await self._stops.stop()
        await self._writing.stop()

    def _present(self) -> HandOver | None:
        """Return the machine of the present incarnation."""
        node = self._node
        if self._epoch != node.member.epoch:
            self._epoch = node.member.epoch
            self._machine = None
            if self._epoch != NO_EPOCH:
                self._machine = HandOver(
                    node.metadata.image,
                    (node.broker_id, self._epoch),
                    self._served.is_served,
                    is_shared=node.is_shared,
                )
        return self._machine

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

    def _image_changed(self, delta: Delta) -> None:
        if self._machine is not None:
            self._machine.image_changed(delta)
        self._writing.something.set()
