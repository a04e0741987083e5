"""The topics that this broker serves, by name and by id, and their place in the native table.

A topic is registered once its logs can be looked up, so clients never see a partition that has no
log; after a start, `is_loading` of each log tells whether it can serve.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from broker.core.topics.interfaces import TopicTable
from broker.core.topics.topic import Topic


class Registry:
    """All registered topics.

    Attributes:
        version: grows when a topic is registered, removed or gets partitions.
        partition_count: of all topics together.
    """

    __slots__ = (
        "_by_id",
        "_by_name",
        "_colliding",
        "_names",
        "_table",
        "partition_count",
        "version",
    )

    def __init__(self, table: TopicTable) -> None:
        """Start empty; `table` is the native table."""
        self._table = table
        self._by_name: dict[str, Topic] = {}
        self._names: list[str] = []  # sorted
        self._by_id: dict[bytes, Topic] = {}
        self._colliding: dict[str, str] = {}  # name as in metrics ("." as "_") → name
        self.partition_count = 0
        self.version = 0

    def get(self, name: str) -> Topic | None:
        """Return the topic of that name, or None."""
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with that id, or None."""
        return self._by_id.get(topic_id)

    def names(self) -> list[str]:
        """Return every topic's name, in order, as of this call."""
        return list(self._names)

    def from_name(self, first: str) -> Iterator[Topic]:
        """Return the topics with this name and greater ones, by name, as of this call.

        The caller may yield to other work between two of them: a topic that is deleted meanwhile is
        skipped, one that is created is not included.
        """
        names = self._names[bisect_left(self._names, first) :]
        return (topic for name in names if (topic := self._by_name.get(name)) is not None)

    def in_any_order(self) -> list[Topic]:
        """Return all topics."""
        return list(self._by_name.values())

    def colliding(self, name: str) -> str | None:
        """Return a topic whose name is the same in Kafka's metrics."""
        return self._colliding.get(metric_name(name))

    def add(self, topic: Topic) -> None:
        """Register a topic."""
        insort(self._names, topic.name)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._colliding[metric_name(topic.name)] = topic.name
        self._changed(topic, len(topic.logs))

    def extended(self, topic: Topic, partitions: int) -> None:
        """Register so many more partitions of a topic, which has their logs already."""
        self._changed(topic, partitions)

    def _changed(self, topic: Topic, partitions: int) -> None:
        self.partition_count += partitions
        self.version += 1
        self._table.add(topic.name, topic.topic_id, topic.logs, topic.followed)

    def log_changed(self, topic: Topic) -> None:
        """Note that a log of a topic is another one, or none, now."""
        self._changed(topic, 0)

    def remove(self, topic: Topic) -> None:
        """Forget a topic."""
        self._table.remove(topic.name)
        self.partition_count -= len(topic.logs)
        self.version += 1
        del self._colliding[metric_name(topic.name)]
        del self._by_id[topic.topic_id]
        del self._by_name[topic.name]
        del self._names[bisect_left(self._names, topic.name)]


def metric_name(name: str) -> str:
    """Return the name with dots replaced, as in Kafka's metrics, where two names may collide."""
    return name.replace(".", "_")
