"""How far each group has read: the next offset of every partition it committed (kafka.md 2.6).

Keyed by topic name, as the log is. Only `replay` changes it; what else is here looks things up or
says which records a command needs. Whether a group lets a consumer commit is the group's business.
"""

from collections.abc import Iterator, Mapping

from broker.core.groups.commands import (
    CommitRequest,
    FetchOffsetsRequest,
    GroupSettings,
    OffsetToCommit,
)
from broker.core.groups.pending_offsets import PendingOffsets
from broker.core.groups.records import CommittedOffset, OffsetRecord
from broker.model.errors import ErrorCode

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
        room = self._settings.offsets_max - sum(map(len, topics.values()))
        for each in request.offsets:
            is_new = each.partition not in topics.get(each.topic, {})
            error = self._refusal(each, is_full=is_new and room <= 0)
            errors.append(error)
            if error is ErrorCode.NONE:
                room -= is_new
                committed = CommittedOffset(each.offset, each.leader_epoch, each.metadata, wall_ms)
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

    def removals_of_topic(self, topic: str) -> Iterator[list[OffsetRecord]]:
        """The records that make each group forget a topic, group by group."""
        for group_id in [each for each, topics in self._groups.items() if topic in topics]:
            partitions = self._groups[group_id][topic]
            yield [OffsetRecord(group_id, topic, each, None) for each in partitions]
        yield from self.pending.of_topic(topic)

    def removals_before(self, group_id: str, horizon_ms: int) -> list[OffsetRecord]:
        """The records that make a group forget what it committed up to that time."""
        return [
            OffsetRecord(group_id, topic, partition, None)
            for topic, partitions in self.of_group(group_id).items()
            for partition, committed in partitions.items()
            if committed.commit_timestamp_ms <= horizon_ms
        ]

    def _refusal(self, offset: OffsetToCommit, *, is_full: bool) -> ErrorCode:
        if len(offset.metadata.encode()) > self._settings.offset_metadata_bytes_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if is_full else ErrorCode.NONE
