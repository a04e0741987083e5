"""The logs of this broker, by the ids of their partitions, as the drivers of a cluster see them."""

from broker._native.log.partition_log import PartitionLog
from broker.core.logs.log import Log
from broker.core.topics.topics import Topics


class Logs:
    """The logs of all topics."""

    def __init__(self, topics: Topics) -> None:
        """Keep the topics."""
        self._topics = topics

    def led(self, topic_id: bytes, partition: int) -> PartitionLog | None:
        """Return the log of a partition that this broker leads, or None."""
        topic = self._topics.by_id(topic_id)
        return None if topic is None else _native(topic.log(partition))

    def held(self, topic_id: bytes, partition: int) -> PartitionLog | None:
        """Return the log of a partition that this broker leads or follows, or None."""
        topic = self._topics.by_id(topic_id)
        return None if topic is None else _native(topic.held_log(partition))

    def is_served(self, topic_id: bytes, partition: int) -> bool:
        """Return whether a partition is served, or has not been stopped yet."""
        return self.led(topic_id, partition) is not None

    async def stop_serving(self, topic_id: bytes, partition: int) -> None:
        """Stop to serve a partition: accept no batch, and make durable what was accepted."""
        topic = self._topics.by_id(topic_id)
        if topic is not None and topic.log(partition) is not None:
            await self._topics.follow(topic.name, (partition,))


def _native(log: Log | None) -> PartitionLog | None:
    return log if isinstance(log, PartitionLog) else None
