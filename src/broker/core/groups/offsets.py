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
from broker.core.groups.group_sizes import GroupMemoryBudget
from broker.core.groups.pending_offsets import PendingOffsets
from broker.core.groups.records import CommittedOffset, OffsetRecord
from broker.model.errors import ErrorCode
from broker.model.limits import OFFSET_BYTES

_INT64_MAX = (1 << 63) - 1
_NOTHING: Mapping[str, Mapping[int, CommittedOffset]] = {}


class CommittedOffsets:
    """The committed offsets of the groups of one coordinator partition."""

    def __init__(self, settings: GroupSettings, budget: GroupMemoryBudget | None = None) -> None:
        """Begin with none."""
        self._settings = settings
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._budget = budget or GroupMemoryBudget(settings.held_bytes_max)
        self._held_bytes = 0
        self.pending = PendingOffsets(self._apply)

    @property
    def weight(self) -> int:
        """What they take, as group_sizes.py counts it."""
        return self._held_bytes + self.pending.weight

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
        before = self._groups.get(record.group_id, _NOTHING).get(record.topic, {})
        self._held_bytes += offset_weight(record.committed)
        self._held_bytes -= offset_weight(before.get(record.partition))
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
        """The records of a commit that its group allows, and an error for each of its offsets.

        Of a partition that is named more than once the last offset that can be kept counts, and it
        is one record: a request has room for a million names, and its records are one batch.
        """
        records: dict[tuple[str, int], OffsetRecord] = {}
        errors = []
        topics = self.of_group(request.group_id)
        expire_ms = _expiry(request.retention_ms, wall_ms)
        offsets_left = self._offsets_left(request.group_id, len(request.offsets))
        bytes_left: int | None = None  # it is only asked for where something grows
        for each in request.offsets:
            place = (each.topic, each.partition)
            is_new = not (
                place in records
                or each.partition in topics.get(each.topic, {})
                or self.has_pending(request.group_id, *place)
            )
            before = topics.get(each.topic, {}).get(each.partition)
            growth = len(each.metadata) - (0 if before is None else len(before.metadata))
            growth += OFFSET_BYTES * is_new
            if growth > 0 and bytes_left is None:
                bytes_left = self._budget.bytes_left
            is_full = (is_new and offsets_left <= 0) or growth > max(bytes_left or 0, 0)
            error = self._refusal(each, is_full=is_full)
            errors.append(error)
            if error is ErrorCode.NONE:
                offsets_left -= is_new
                if growth > 0 and bytes_left is not None:
                    bytes_left -= growth
                committed = CommittedOffset(
                    each.offset, each.leader_epoch, each.metadata, wall_ms, expire_ms
                )
                records[place] = OffsetRecord(request.group_id, *place, committed)
        return list(records.values()), tuple(errors)

    def _offsets_left(self, group_id: str, wanted: int) -> int:
        """How many more partitions a group may commit; exact where it is fewer than wanted."""
        topics = self.of_group(group_id)
        pending = self.pending.places(group_id)
        offsets_left = self._settings.offsets_max - sum(map(len, topics.values())) - len(pending)
        if offsets_left < wanted:  # Only now it matters that some are counted twice.
            offsets_left += sum(partition in topics.get(topic, {}) for topic, partition in pending)
        return offsets_left

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
        committed = self.of_group(group_id).get(topic, {})
        return [
            OffsetRecord(group_id, topic, each, None)
            for each in partitions
            if each in committed or self.pending.may_count(group_id, topic, each)
        ]

    def removals_until(
        self, group_id: str, topic: str, partitions: Iterable[int], wall_ms: int
    ) -> list[OffsetRecord]:
        """The same, but of partitions with a commit after that time, even a pending one, none."""
        return [
            each
            for each in self.removals(group_id, topic, partitions)
            if self._last_commit_ms(each) <= wall_ms
        ]

    def _last_commit_ms(self, place: OffsetRecord) -> int:
        """When what counts of a partition was committed, or what may still come to count."""
        group_id, topic, partition, _ = place
        found = [each.committed for each in self.pending.may_come(group_id, topic, partition)]
        found.append(self.of_group(group_id).get(topic, {}).get(partition))
        return max((each.commit_timestamp_ms for each in found if each is not None), default=0)

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


def offset_weight(committed: CommittedOffset | None) -> int:
    """What a committed offset takes; nothing, if there is none."""
    return 0 if committed is None else OFFSET_BYTES + len(committed.metadata)


def _expiry(retention_ms: int | None, wall_ms: int) -> int | None:
    """When an offset with a retention of its own expires, as an int64 that cannot wrap."""
    return None if retention_ms is None else min(max(wall_ms + retention_ms, 0), _INT64_MAX)
