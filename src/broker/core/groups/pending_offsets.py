"""Offsets that were committed in a transaction which has not ended (kafka.md 2.9, KIP-98, KIP-447).

They count when the marker of their producer commits them. An offset that was committed outside of
the transaction meanwhile is the newer one and stays, as in Kafka; until the marker has come the
partition is unstable either way.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from broker.core.groups.records import OffsetRecord


class _Place(NamedTuple):
    """What an offset is committed for."""

    group_id: str
    topic: str
    partition: int


class PendingOffsets:
    """The offsets of open transactions in one coordinator partition."""

    def __init__(self, commit: Callable[[OffsetRecord], None]) -> None:
        """Hold none; `commit` is given what a marker makes true."""
        self._commit = commit
        self._producers: dict[int, dict[_Place, OffsetRecord | None]] = {}  # None: overtaken
        self._unstable: dict[_Place, set[int]] = {}  # the producers that wait for a marker
        self._groups: dict[str, int] = {}  # how many of its partitions are unstable

    def replay_pending(self, producer_id: int, record: OffsetRecord) -> None:
        """Keep an offset until its producer's marker."""
        place = _Place(record.group_id, record.topic, record.partition)
        self._producers.setdefault(producer_id, {})[place] = record
        if place not in self._unstable:
            self._groups[place.group_id] = self._groups.get(place.group_id, 0) + 1
        self._unstable.setdefault(place, set()).add(producer_id)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> set[str]:
        """Commit what a producer has pending and nobody has overtaken, or drop it; whose it was."""
        ended = self._producers.pop(producer_id, {})
        for place, record in ended.items():
            waiting = self._unstable[place]
            waiting.discard(producer_id)
            if not waiting:
                self._stable(place)
            if is_committed and record is not None:
                self._commit(record)
        return {place.group_id for place in ended}

    def overtaken(self, record: OffsetRecord) -> None:
        """A later word on a partition is in the log: what was pending before it does not count."""
        if not self._unstable:
            return
        place = _Place(record.group_id, record.topic, record.partition)
        for producer_id in self._unstable.get(place, ()):
            self._producers[producer_id][place] = None

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction that has not ended will decide about a partition."""
        return _Place(group_id, topic, partition) in self._unstable

    def has_group(self, group_id: str) -> bool:
        """Whether a group has an offset pending."""
        return group_id in self._groups

    def groups(self) -> list[str]:
        """The groups that have an offset pending."""
        return list(self._groups)

    def of_group(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Topics and partitions whose pending offsets of a group may still come to count."""
        if group_id in self._groups:
            for place, producers in self._unstable.items():
                if place.group_id == group_id and any(
                    self._producers[each][place] is not None for each in producers
                ):
                    yield place.topic, place.partition

    def partitions(self, group_id: str, topic: str) -> list[int]:
        """The same of one topic."""
        return [partition for each, partition in self.of_group(group_id) if each == topic]

    def _stable(self, place: _Place) -> None:
        del self._unstable[place]
        self._groups[place.group_id] -= 1
        if not self._groups[place.group_id]:
            del self._groups[place.group_id]
