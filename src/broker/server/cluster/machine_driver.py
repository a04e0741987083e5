"""Runs a state machine of this broker: another one for each of its incarnations."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from broker.core.cluster.image import Delta
from broker.core.cluster.machine import BrokerMachine
from broker.core.cluster.records import NO_EPOCH
from broker.core.service import Service
from broker.server.cluster.node import Node
from broker.server.cluster.writing import Writing

_MachineT = TypeVar("_MachineT", bound=BrokerMachine)


class MachineDriver(Service, ABC, Generic[_MachineT]):
    """What the drivers of these machines have in common."""

    is_essential = True

    def __init__(self, node: Node) -> None:
        """Do nothing before `run`."""
        self._node = node
        self._writing = Writing(node.store, node.clock)
        self._machine: _MachineT | None = None  # None: the broker is not registered
        self._epoch = NO_EPOCH  # of the incarnation whose machine that is
        node.metadata.when_changed(self._image_changed)
        node.member.when_phase_changes(self._writing.something.set)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            machine = self._present()
            if machine is not None:
                machine.tick(self._node.clock.monotonic_ms())
                await self._work(machine)
            await self._writing.wait(None if machine is None else machine.due_ms)

    async def stop(self) -> None:
        """Give up what is being written."""
        await self._writing.stop()

    @abstractmethod
    def _begin(self, broker: tuple[int, int]) -> _MachineT:
        """Return a new machine; `broker` is this one's id and epoch."""

    async def _work(self, machine: _MachineT) -> None:
        """Work until there is nothing to do now."""
        await self._writing.work(machine)

    def _present(self) -> _MachineT | None:
        """Return the machine of the present incarnation."""
        epoch = self._node.member.epoch
        if self._epoch != epoch:
            self._epoch = epoch
            is_registered = epoch != NO_EPOCH
            self._machine = self._begin((self._node.broker_id, epoch)) if is_registered else None
        return self._machine

    def _image_changed(self, delta: Delta) -> None:
        if self._machine is not None:
            self._machine.image_changed(delta)
        self._writing.something.set()
