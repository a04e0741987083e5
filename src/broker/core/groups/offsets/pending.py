"""Offsets that were committed in open transactions (KIP-98, KIP-447).

They become committed offsets with the commit marker of their producer. An offset that was committed
outside of the transaction meanwhile is newer and stays, as in Kafka; so does one that another
transaction wrote later and committed first. Until the marker is written the partition is unstable
in either case.
"""

from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from broker.core.groups.records.offsets import OffsetRecord
from broker.model.limits import OFFSET_BYTES

_Place: TypeAlias = tuple[str, int]  # topic and partition


class PendingOffsets:
    """The offsets of open transactions in one coordinator partition."""

    def __init__(self, commit: Callable[[OffsetRecord], None]) -> None:
        """Begin without offsets; `commit` is called with each offset that a marker commits."""
        self._commit = commit
        # By producer and group; None: superseded by a newer offset.
        self._producers: dict[int, dict[str, dict[_Place, OffsetRecord | None]]] = {}
        # By group and partition: the producers whose marker is missing, by their last commit.
        self._unstable: dict[str, dict[_Place, dict[int, None]]] = {}
        self.memory_bytes = 0  # size in memory, as memory.py counts it

    def replay_pending(self, producer_id: int, record: OffsetRecord) -> None:
        """Keep an offset until its producer's marker."""
        place = (record.topic, record.partition)
        groups = self._producers.setdefault(producer_id, {})
        places = groups.setdefault(record.group_id, {})
        self.memory_bytes += _pending_bytes(record) - (
            _pending_bytes(places[place]) if place in places else 0
        )
        places[place] = record
        unstable = self._unstable.setdefault(record.group_id, {})
        producers = unstable.setdefault(place, {})
        producers.pop(producer_id, None)
        producers[producer_id] = None

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> set[str]:
        """Commit or drop a producer's pending offsets; return the groups that they belong to."""
        ended = self._producers.pop(producer_id, {})
        for group_id, places in ended.items():
            for place, record in places.items():
                self.memory_bytes -= _pending_bytes(record)
                if is_committed and record is not None:
                    self._supersede(group_id, place, producer_id)
                    self._commit(record)
                self._end(producer_id, group_id, place)
        return set(ended)

    def supersede(self, record: OffsetRecord) -> None:
        """Discard the pending offsets of a partition: a later offset is in the log."""
        if not self._unstable:
            return
        place = (record.topic, record.partition)
        self._supersede(record.group_id, place)

    def _supersede(self, group_id: str, place: _Place, until: int | None = None) -> None:
        """Discard a partition's pending offsets: all, or those of producers before one."""
        for producer_id in self._unstable.get(group_id, {}).get(place, ()):
            if producer_id == until:
                break
            places = self._producers[producer_id][group_id]
            self.memory_bytes += _pending_bytes(None) - _pending_bytes(places[place])
            places[place] = None

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether a partition has an offset pending in an open transaction."""
        return (topic, partition) in self._unstable.get(group_id, {})

    def has_group(self, group_id: str) -> bool:
        """Return whether a group has pending offsets."""
        return group_id in self._unstable

    def places(self, group_id: str) -> Collection[_Place]:
        """Return the partitions of a group with pending offsets."""
        return self._unstable.get(group_id, {}).keys()

    def groups(self) -> list[str]:
        """Return the groups that have pending offsets."""
        return list(self._unstable)

    def may_be_committed(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether a partition has a pending offset that is not superseded."""
        return next(self.committable(group_id, topic, partition), None) is not None

    def committable(self, group_id: str, topic: str, partition: int) -> Iterator[OffsetRecord]:
        """Yield a partition's pending offsets that are not superseded."""
        for producer_id in self._unstable.get(group_id, {}).get((topic, partition), ()):
            record = self._producers[producer_id][group_id][topic, partition]
            if record is not None:
                yield record

    def of_group(self, group_id: str) -> Iterator[_Place]:
        """Yield the partitions of a group with a pending offset that is not superseded."""
        for place in self._unstable.get(group_id, ()):
            if self.may_be_committed(group_id, *place):
                yield place

    def partitions(self, group_id: str, topic: str) -> list[int]:
        """Return those partitions of one topic."""
        return [partition for each, partition in self.of_group(group_id) if each == topic]

    def _end(self, producer_id: int, group_id: str, place: _Place) -> None:
        """Remove a producer from a partition, which is stable when none is left."""
        unstable = self._unstable[group_id]
        del unstable[place][producer_id]
        if not unstable[place]:
            del unstable[place]
        if not unstable:
            del self._unstable[group_id]


def _pending_bytes(record: OffsetRecord | None) -> int:
    """Return the size of a pending offset in memory; None: superseded."""
    committed = None if record is None else record.committed
    return 2 * OFFSET_BYTES + (0 if committed is None else len(committed.metadata))
