"""How far each group has read: the next offset of every partition it committed (kafka.md 2.6).

Keyed by topic name, as the log is. Only `replay` changes it; what else is here looks things up or
says which records a command needs. Whether a group lets a consumer commit is the group's business.
"""

from collections.abc import Iterable, Iterator, Mapping

from broker.core.groups.commands import (
    CommitRequest,
    FetchOffsetsRequest,
    GroupSettings,
    OffsetToCommit,
)
from broker.core.groups.pending_offsets import PendingOffsets
from broker.core.groups.records import CommittedOffset, OffsetRecord
from broker.model.errors import ErrorCode

_INT64_MAX = (1 << 63) - 1
_NOTHING: Mapping[str, Mapping[int, CommittedOffset]] = {}


class CommittedOffsets:
    """The committed offsets of the groups of one coordinator partition."""

    def __init__(self, settings: GroupSettings) -> None:
        """Begin with none."""
        self._settings = settings
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self.pending = PendingOffsets(self._apply)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All that a group has committed: topic, partition, offset."""
        return self._groups.get(group_id, _NOTHING)

    def has_any(self, group_id: str) -> bool:
        """Whether a group has committed something, be it in a transaction that is open."""
        return group_id in self._groups or self.pending.has_group(group_id)

    def replay(self, record: OffsetRecord) -> None:
        """What the record says is now so, whatever a transaction had in mind before it."""
        self.pending.overtaken(record)
        self._apply(record)

    def _apply(self, record: OffsetRecord) -> None:
        """Make it so; a topic or group without offsets leaves no trace."""
        if record.committed is not None:
            topics = self._groups.setdefault(record.group_id, {})
            topics.setdefault(record.topic, {})[record.partition] = record.committed
            return
        topics = self._groups.get(record.group_id, {})
        partitions = topics.get(record.topic, {})
        partitions.pop(record.partition, None)
        if not partitions:
            topics.pop(record.topic, None)
        if not topics:
            self._groups.pop(record.group_id, None)

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction that has not ended will decide about a partition's offset."""
        return self.pending.has_pending(group_id, topic, partition)

    def commit(
        self, request: CommitRequest, wall_ms: int
    ) -> tuple[list[OffsetRecord], tuple[ErrorCode, ...]]:
        """The records of a commit that its group allows, and an error for each of its offsets."""
        records: list[OffsetRecord] = []
        errors = []
        topics = self.of_group(request.group_id)
        expire_ms = _expiry(request.retention_ms, wall_ms)
        room = self._settings.offsets_max - sum(map(len, topics.values()))
        for each in request.offsets:
            is_new = each.partition not in topics.get(each.topic, {})
            error = self._refusal(each, is_full=is_new and room <= 0)
            errors.append(error)
            if error is ErrorCode.NONE:
                room -= is_new
                committed = CommittedOffset(
                    each.offset, each.leader_epoch, each.metadata, wall_ms, expire_ms
                )
                records.append(
                    OffsetRecord(request.group_id, each.topic, each.partition, committed)
                )
        return records, tuple(errors)

    def fetch(self, request: FetchOffsetsRequest) -> dict[str, dict[int, CommittedOffset | None]]:
        """What was asked for; None where nothing was committed."""
        topics = self.of_group(request.group_id)
        if request.topics is None:
            return {topic: dict(partitions) for topic, partitions in topics.items()}
        return {
            topic: {partition: topics.get(topic, {}).get(partition) for partition in partitions}
            for topic, partitions in request.topics.items()
        }

    def unstable(
        self, group_id: str, topics: Mapping[str, Iterable[int]]
    ) -> Iterator[tuple[str, int]]:
        """Which of these partitions a transaction that has not ended will decide about."""
        if self.pending.has_group(group_id):
            for topic, partitions in topics.items():
                for partition in partitions:
                    if self.has_pending(group_id, topic, partition):
                        yield topic, partition

    def groups(self) -> list[str]:
        """Every group that has committed something, be it in a transaction that is open."""
        return list(dict.fromkeys([*self._groups, *self.pending.groups()]))

    def partitions(self, group_id: str, topic: str) -> list[int]:
        """The partitions of a topic that a group has committed, or will have."""
        committed = self.of_group(group_id).get(topic, {})
        return list(dict.fromkeys([*committed, *self.pending.partitions(group_id, topic)]))

    def removals(self, group_id: str, topic: str, partitions: Iterable[int]) -> list[OffsetRecord]:
        """The records that make a group forget these partitions, as far as it knows them."""
        known = set(self.partitions(group_id, topic))
        return [OffsetRecord(group_id, topic, each, None) for each in partitions if each in known]

    def removals_of_group(self, group_id: str) -> Iterator[OffsetRecord]:
        """The records that make a group forget everything; to be read before any of them is so."""
        topics = self.of_group(group_id)
        for topic, partitions in topics.items():
            for partition in partitions:
                yield OffsetRecord(group_id, topic, partition, None)
        for topic, partition in self.pending.of_group(group_id):
            if partition not in topics.get(topic, {}):
                yield OffsetRecord(group_id, topic, partition, None)

    def _refusal(self, offset: OffsetToCommit, *, is_full: bool) -> ErrorCode:
        if len(offset.metadata.encode()) > self._settings.offset_metadata_bytes_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if is_full else ErrorCode.NONE


def _expiry(retention_ms: int | None, wall_ms: int) -> int | None:
    """When an offset with a retention of its own expires, as an int64 that cannot wrap."""
    return None if retention_ms is None else min(max(wall_ms + retention_ms, 0), _INT64_MAX)
