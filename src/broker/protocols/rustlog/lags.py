"""The lags of groups for MetricsFetch, computed from the latest commits through this protocol."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from broker.core.topics.topics import Topics
from broker.model.limits import RUSTLOG_LAGS_MAX


class Lag(NamedTuple):
    """The lag of a group in a partition: last stable offset minus committed offset."""

    topic: str
    partition: int
    group: str
    offsets: int


class Lags:
    """The newest RUSTLOG_LAGS_MAX commits."""

    def __init__(self) -> None:
        """Start without commits."""
        self._offsets: dict[tuple[str, int, str], int] = {}

    def committed(self, topic: str, partition: int, group: str, offset: int) -> None:
        """Record a commit; evict the oldest one if there are too many."""
        key = topic, partition, group
        self._offsets.pop(key, None)
        self._offsets[key] = offset
        if len(self._offsets) > RUSTLOG_LAGS_MAX:
            del self._offsets[next(iter(self._offsets))]

    def topics(self) -> set[str]:
        """Return the names of the topics that have commits."""
        return {name for name, _, _ in self._offsets}

    def of(
        self, topics: Topics, elsewhere: Mapping[tuple[str, int], int] | None = None
    ) -> Iterator[Lag]:
        """Yield the current lag of each commit whose partition exists and is online.

        `elsewhere` has the last stable offsets of partitions that other brokers lead.
        """
        for (name, partition, group), offset in sorted(self._offsets.items()):
            topic = topics.get(name)
            log = None if topic is None else topic.log(partition)
            end = None if elsewhere is None else elsewhere.get((name, partition))
            if log is not None:
                end = None if log.is_loading or log.is_offline else log.last_stable_offset
            if end is not None:
                yield Lag(name, partition, group, max(0, end - offset))
