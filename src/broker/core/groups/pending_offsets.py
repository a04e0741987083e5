"""Offsets that were committed in a transaction which has not ended (kafka.md 2.9, KIP-98, KIP-447).

They count when the marker of their producer commits them. An offset that was committed outside of
the transaction meanwhile is the newer one and stays, as in Kafka, and so does one that another
transaction said later and committed first; until the marker has come the partition is unstable
either way.
"""

from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from broker.core.groups.records import OffsetRecord
from broker.model.limits import OFFSET_BYTES

_Place: TypeAlias = tuple[str, int]  # topic and partition


class PendingOffsets:
    """The offsets of open transactions in one coordinator partition."""

    def __init__(self, commit: Callable[[OffsetRecord], None]) -> None:
        """Hold none; `commit` is given what a marker makes true."""
        self._commit = commit
        # By producer and group; None: overtaken.
        self._producers: dict[int, dict[str, dict[_Place, OffsetRecord | None]]] = {}
        # By group: the producers that wait for a marker, in the order of what they said last.
        self._unstable: dict[str, dict[_Place, dict[int, None]]] = {}
        self.weight = 0  # what they take, as group_sizes.py counts it

    def replay_pending(self, producer_id: int, record: OffsetRecord) -> None:
        """Keep an offset until its producer's marker."""
        place = (record.topic, record.partition)
        groups = self._producers.setdefault(producer_id, {})
        places = groups.setdefault(record.group_id, {})
        self.weight += _weight(record) - (_weight(places[place]) if place in places else 0)
        places[place] = record
        unstable = self._unstable.setdefault(record.group_id, {})
        producers = unstable.setdefault(place, {})
        producers.pop(producer_id, None)
        producers[producer_id] = None

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> set[str]:
        """Commit what a producer has pending and nobody has overtaken, or drop it; whose it was."""
        ended = self._producers.pop(producer_id, {})
        for group_id, places in ended.items():
            for place, record in places.items():
                self.weight -= _weight(record)
                if is_committed and record is not None:
                    self._overtake(group_id, place, producer_id)
                    self._commit(record)
                self._end(producer_id, group_id, place)
        return set(ended)

    def overtaken(self, record: OffsetRecord) -> None:
        """A later word on a partition is in the log: what was pending before it does not count."""
        if not self._unstable:
            return
        place = (record.topic, record.partition)
        self._overtake(record.group_id, place)

    def _overtake(self, group_id: str, place: _Place, until: int | None = None) -> None:
        """What producers have pending of a partition does not count: all, or those before one."""
        for producer_id in self._unstable.get(group_id, {}).get(place, ()):
            if producer_id == until:
                break
            places = self._producers[producer_id][group_id]
            self.weight += _weight(None) - _weight(places[place])
            places[place] = None

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction that has not ended will decide about a partition."""
        return (topic, partition) in self._unstable.get(group_id, {})

    def has_group(self, group_id: str) -> bool:
        """Whether a group has an offset pending."""
        return group_id in self._unstable

    def places(self, group_id: str) -> Collection[_Place]:
        """The partitions of a group about which such a transaction will decide."""
        return self._unstable.get(group_id, {}).keys()

    def groups(self) -> list[str]:
        """The groups that have an offset pending."""
        return list(self._unstable)

    def may_count(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a pending offset of a partition may still come to count."""
        return next(self.may_come(group_id, topic, partition), None) is not None

    def may_come(self, group_id: str, topic: str, partition: int) -> Iterator[OffsetRecord]:
        """The pending offsets of a partition that may still come to count."""
        for producer_id in self._unstable.get(group_id, {}).get((topic, partition), ()):
            record = self._producers[producer_id][group_id][topic, partition]
            if record is not None:
                yield record

    def of_group(self, group_id: str) -> Iterator[_Place]:
        """Topics and partitions of which that is so, of a group."""
        for place in self._unstable.get(group_id, ()):
            if self.may_count(group_id, *place):
                yield place

    def partitions(self, group_id: str, topic: str) -> list[int]:
        """The same of one topic."""
        return [partition for each, partition in self.of_group(group_id) if each == topic]

    def _end(self, producer_id: int, group_id: str, place: _Place) -> None:
        """A producer decides about a partition no more; what nobody decides about is stable."""
        unstable = self._unstable[group_id]
        del unstable[place][producer_id]
        if not unstable[place]:
            del unstable[place]
        if not unstable:
            del self._unstable[group_id]


def _weight(record: OffsetRecord | None) -> int:
    """What one of them takes; None: overtaken."""
    committed = None if record is None else record.committed
    return 2 * OFFSET_BYTES + (0 if committed is None else len(committed.metadata))
