"""How far groups are behind, of what was committed through this door last."""

from collections.abc import Iterator
from typing import NamedTuple

from broker.core.topics import Topics
from broker.model.limits import RUSTLOG_LAGS_MAX


class Lag(NamedTuple):
    """How many offsets a group has not read of a partition."""

    topic: str
    partition: int
    group: str
    offsets: int


class Lags:
    """Remembers the newest commits, so many and no more."""

    def __init__(self) -> None:
        """Start with none."""
        self._offsets: dict[tuple[str, int, str], int] = {}

    def committed(self, topic: str, partition: int, group: str, offset: int) -> None:
        """Note a commit; the oldest one makes room."""
        key = topic, partition, group
        self._offsets.pop(key, None)
        self._offsets[key] = offset
        if len(self._offsets) > RUSTLOG_LAGS_MAX:
            del self._offsets[next(iter(self._offsets))]

    def of(self, topics: Topics) -> Iterator[Lag]:
        """Compare with where the partitions end now; of those that are there and in service."""
        for (name, partition, group), offset in sorted(self._offsets.items()):
            topic = topics.get(name)
            log = None if topic is None else topic.log(partition)
            if log is not None and not (log.is_loading or log.is_offline):
                yield Lag(name, partition, group, max(0, log.last_stable_offset - offset))
