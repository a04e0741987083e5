"""The controller's office: every broker tries to take it when it is vacant, one holds it."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from broker.core.cluster.controller import Controller, ControllerSettings, claim
from broker.core.cluster.image import Delta
from broker.core.cluster.writes import Item
from broker.core.replica_ends import End, ReplicaEnds, in_order
from broker.core.scheduling.steps import in_parts
from broker.core.scheduling.tasks import Tasks
from broker.core.service import Service
from broker.model.errors import StorageError
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP, CLUSTER_RETRY_MS, WORKERS_TOGETHER_MS
from broker.server.cluster.node import Node
from broker.server.cluster.writing import Writing

_log = logging.getLogger(__name__)


class Office(Service):
    """Claims the office, and does the controller's work while this broker holds it."""

    name = "controller"
    is_essential = True

    def __init__(
        self,
        node: Node,
        settings: Callable[[], ControllerSettings],
        workers: Collection[int] = (),
        ends: ReplicaEnds | None = None,
    ) -> None:
        """Do nothing before `run`.

        Args:
            node: this broker.
            settings: returns those in force.
            workers: brokers that start together. None of them takes the office before all are
                registered, because a partition would be moved soon after its first election.
            ends: of replicas, which are asked before an unclean election; None: they are not.
        """
        self._together = frozenset(workers)
        self._node = node
        self._settings = settings
        self._ends = ends
        self._asking = Tasks()
        self._writing = Writing(node.store, node.clock)
        self._controller: Controller | None = None
        self._alone_from_ms = 0
        node.metadata.when_changed(self._image_changed)
        node.member.when_phase_changes(self._writing.something.set)

    async def run(self) -> None:
        """Work until cancelled."""
        node = self._node
        self._alone_from_ms = node.clock.monotonic_ms() + WORKERS_TOGETHER_MS
        while True:
            if node.metadata.image.is_controller(node.broker_id, node.member.epoch):
                await self._hold()
            else:
                await self._claim()

    async def stop(self) -> None:
        """Give up what is being asked and written."""
        await self._asking.stop()
        await self._writing.stop()

    async def _claim(self) -> None:
        node = self._node
        if self._must_wait():
            await self._writing.wait(self._alone_from_ms)
            return
        transaction = claim(
            node.metadata.image, node.broker_id, node.member.epoch, node.member.lease_id
        )
        due_ms = None
        if transaction is not None:
            due_ms = node.clock.monotonic_ms() + CLUSTER_RETRY_MS
            try:
                await node.store.transact(*transaction)
            except StorageError as error:
                _log.warning("the controller's office is not claimed, tried again: error=%s", error)
        await self._writing.wait(due_ms)

    def _must_wait(self) -> bool:
        """Return whether the brokers that start together are not all registered yet."""
        if self._together <= self._node.metadata.image.brokers.keys():
            self._together = frozenset()
        is_waiting = bool(self._together)
        return is_waiting and self._node.clock.monotonic_ms() < self._alone_from_ms

    async def _hold(self) -> None:
        clock, settings = self._node.clock, self._settings()
        controller = Controller(
            *(self._node.metadata.image, settings, clock.monotonic_ms(), clock.wall_ms()),
            asks_for_ends=self._ends is not None,
        )
        self._controller = controller
        _log.info("this broker is the controller: epoch=%d", controller.epoch)
        try:
            while controller.is_in_office and self._settings() == settings:
                controller.tick(clock.monotonic_ms(), clock.wall_ms())
                await self._writing.work(controller)
                asked = controller.take_asked()
                if asked and self._ends is not None:
                    self._asking.begin(self._ask(controller, self._ends, asked))
                if controller.growths:
                    _log.info(
                        "partitions of internal topics get more replicas: partitions=%d",
                        controller.growths,
                    )
                    controller.growths = 0
                if controller.is_in_office:
                    await self._writing.wait(controller.due_ms)
        finally:
            self._controller = None
        if not controller.is_in_office:
            _log.info("this broker is not the controller any more: epoch=%d", controller.epoch)

    async def _ask(self, controller: Controller, ends: ReplicaEnds, items: Sequence[Item]) -> None:
        """Ask how much the replicas of partitions have; those that do not answer are the last."""
        known: Mapping[Item, Mapping[int, End]] = {}
        try:
            known = await ends.of(items)
        finally:
            image = self._node.metadata.image
            async for part in in_parts(items, CLUSTER_PARTITIONS_PER_STEP):
                states = {item: image.state(*item) for item in part}
                controller.answered(
                    {
                        item: in_order(state.replicas if state else (), known.get(item, {}))
                        for item, state in states.items()
                    }
                )
            self._writing.something.set()

    def _image_changed(self, delta: Delta) -> None:
        if self._controller is not None:
            self._controller.image_changed(delta)
        self._writing.something.set()
