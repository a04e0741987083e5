"""Partitions to look at, some in each slice: single ones, those of topics, and all.

What is added while it is being returned is returned again: whoever adds it wants it to be looked at
after that.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.unique_queue import UniqueQueue
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP


class Scan:
    """What is left, in this order: single partitions, topics, all partitions."""

    __slots__ = (
        "_all_topics",
        "_done",
        "_image",
        "_is_all_wanted",
        "_partitions",
        "_singles",
        "_topic_id",
        "_topics",
    )

    def __init__(self, image: ClusterImage) -> None:
        """Begin without anything."""
        self._image = image
        self._singles: deque[Iterator[tuple[bytes, int]]] = deque()
        self._topics: UniqueQueue[bytes] = UniqueQueue()
        self._all_topics: deque[bytes] = deque()
        self._is_all_wanted = False
        self._topic_id = b""
        self._partitions: Sequence[int] = ()
        self._done = 0  # of these partitions

    def add_partitions(self, partitions: Collection[tuple[bytes, int]]) -> None:
        """Add single partitions."""
        if partitions:
            self._singles.append(iter(partitions))

    def add_topic(self, topic_id: bytes) -> None:
        """Add a topic, or the id of a deleted one of which states are stored."""
        self._topics.add(topic_id)

    def add_all(self) -> None:
        """Add everything that the image has when it is this scan's turn."""
        self._is_all_wanted = True

    @property
    def has_work(self) -> bool:
        """Whether `next` may return something."""
        return bool(self._singles) or self._has_topics or self._is_all_wanted

    def next(self, count_max: int = CLUSTER_PARTITIONS_PER_STEP) -> list[tuple[bytes, int]]:
        """Return topic ids and numbers of the next partitions: as many as fit into a slice."""
        found: list[tuple[bytes, int]] = []
        while self._singles and len(found) < count_max:
            missing = count_max - len(found)
            part = list(islice(self._singles[0], missing))
            found += part
            if len(part) < missing:
                self._singles.popleft()
        if not found and not self._has_topics:
            self._begin_all()  # a slice of its own
            return []
        while self._has_topics and len(found) < count_max:
            if self._done == len(self._partitions):
                self._begin((self._topics or self._all_topics).popleft())
            end = self._done + count_max - len(found)
            numbers = self._partitions[self._done : end]
            self._done += len(numbers)
            found += [(self._topic_id, each) for each in numbers]
        return found

    @property
    def _has_topics(self) -> bool:
        return self._done < len(self._partitions) or bool(self._topics) or bool(self._all_topics)

    def _begin_all(self) -> None:
        self._is_all_wanted = False
        self._all_topics.extend(self._image.topics)
        self._all_topics.extend(
            each for each in self._image.stored if each not in self._image.topics
        )

    def _begin(self, topic_id: bytes) -> None:
        topic = self._image.topics.get(topic_id)
        self._topic_id, self._done = topic_id, 0
        if topic is None:
            self._partitions = sorted(self._image.stored.get(topic_id, ()))
        else:
            self._partitions = range(topic.record.partitions)
