"""Gives up what this broker is for partitions whose logs are offline here (core/cluster)."""

from typing import Protocol

from broker._native.log.partition_log import PartitionLog
from broker.core.cluster.failed_logs import FailedLogs
from broker.core.cluster.image import Delta
from broker.core.cluster.records import NO_EPOCH
from broker.core.cluster.topic_settings import TopicSettings
from broker.core.service import Service
from broker.server.cluster.node import Node
from broker.server.cluster.writing import Writing


class Held(Protocol):
    """The partitions of which this broker has a replica."""

    def log(self, topic_id: bytes, partition: int) -> PartitionLog | None:
        """Return the log of a partition, whether it leads or follows."""


class GivingUp(Service):
    """The failed logs of this broker, in each of its incarnations."""

    name = "leaderships of failed logs"
    is_essential = True

    def __init__(self, node: Node, held: Held, settings: TopicSettings) -> None:
        """Do nothing before `run`."""
        self._node = node
        self._held = held
        self._settings = settings
        self._writing = Writing(node.store, node.clock)
        self._machine: FailedLogs | None = None
        self._epoch = NO_EPOCH  # of the incarnation whose machine that is
        self._failed: dict[tuple[bytes, int], None] = {}
        node.metadata.when_changed(self._image_changed)
        node.member.when_phase_changes(self._writing.something.set)

    def log_failed(self, log: PartitionLog) -> None:
        """Report a log that has gone offline."""
        item = log.topic_id, log.partition
        self._failed[item] = None
        if self._machine is not None:
            self._machine.failed(item)
        self._writing.something.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            machine = self._present()
            if machine is not None:
                machine.tick(self._node.clock.monotonic_ms())
                await self._writing.work(machine)
            await self._writing.wait(None if machine is None else machine.due_ms)

    async def stop(self) -> None:
        """Give up what is being written."""
        await self._writing.stop()

    def _present(self) -> FailedLogs | None:
        """Return the machine of the present incarnation."""
        node = self._node
        if self._epoch != node.member.epoch:
            self._epoch = node.member.epoch
            self._machine = None
            if self._epoch != NO_EPOCH:
                self._machine = FailedLogs(
                    node.metadata.image,
                    (node.broker_id, self._epoch),
                    self._failed,
                    self._is_failed,
                    self._settings,
                )
        return self._machine

    def _is_failed(self, topic_id: bytes, partition: int, epoch: int) -> bool:
        log = self._held.log(topic_id, partition)
        return log is not None and log.is_offline and log.leader_epoch <= epoch

    def _image_changed(self, delta: Delta) -> None:
        if delta.deleted_topics:
            topics = self._node.metadata.image.topics
            self._failed = {each: None for each in self._failed if each[0] in topics}
        if self._machine is not None:
            self._machine.image_changed(delta)
        self._writing.something.set()
