"""Gives up what this broker is for partitions whose logs are offline here (core/cluster)."""

from collections.abc import Callable

from broker._native.log.partition_log import PartitionLog
from broker.core.cluster.failed_logs import FailedLogs
from broker.core.cluster.image import Delta
from broker.core.cluster.topic_settings import TopicSettings
from broker.server.cluster.machine_driver import MachineDriver
from broker.server.cluster.node import Node


class GivingUp(MachineDriver[FailedLogs]):
    """The failed logs of this broker, in each of its incarnations."""

    name = "leaderships of failed logs"

    def __init__(
        self,
        node: Node,
        find_log: Callable[[bytes, int], PartitionLog | None],
        settings: TopicSettings,
    ) -> None:
        """Do nothing before `run`; `find_log` returns the log of a partition that it holds."""
        super().__init__(node)
        self._find_log = find_log
        self._settings = settings
        self._failed: dict[tuple[bytes, int], None] = {}

    def log_failed(self, log: PartitionLog) -> None:
        """Report a log that has gone offline."""
        item = log.topic_id, log.partition
        self._failed[item] = None
        if self._machine is not None:
            self._machine.failed(item)
        self._writing.something.set()

    def _begin(self, broker: tuple[int, int]) -> FailedLogs:
        image = self._node.metadata.image
        return FailedLogs(image, broker, self._failed, self._is_failed, self._settings)

    def _is_failed(self, topic_id: bytes, partition: int, epoch: int) -> bool:
        log = self._find_log(topic_id, partition)
        return log is not None and log.is_offline and log.leader_epoch <= epoch

    def _image_changed(self, delta: Delta) -> None:
        if delta.deleted_topics:
            topics = self._node.metadata.image.topics
            self._failed = {each: None for each in self._failed if each[0] in topics}
        super()._image_changed(delta)
