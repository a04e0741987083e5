"""The committed offsets of groups: the next offset to read in each partition.

They are keyed by topic name, as the records are. Only `replay` changes them; the other functions
look offsets up, or return the records that a command needs. The group decides whether a consumer
may commit.
"""

from collections.abc import Iterable, Iterator, Mapping

from broker.core.groups.commands.offsets import CommitRequest, FetchOffsetsRequest, OffsetToCommit
from broker.core.groups.memory import GroupMemoryBudget
from broker.core.groups.offsets.pending import PendingOffsets
from broker.core.groups.records.offsets import CommittedOffset, OffsetRecord
from broker.core.groups.settings import GroupSettings
from broker.model.errors import ErrorCode
from broker.model.limits import COMMIT_AHEAD_MS, OFFSET_BYTES

_INT64_MAX = (1 << 63) - 1
_NOTHING: Mapping[str, Mapping[int, CommittedOffset]] = {}


class CommittedOffsets:
    """The committed offsets of the groups of one coordinator partition."""

    def __init__(
        self, settings: GroupSettings, memory_budget: GroupMemoryBudget | None = None
    ) -> None:
        """Begin without offsets."""
        self._settings = settings
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._memory_budget = memory_budget or GroupMemoryBudget(settings.memory_bytes_max)
        self._committed_bytes = 0
        self.pending = PendingOffsets(self._apply)

    @property
    def memory_bytes(self) -> int:
        """Their size in memory, as memory.py counts it."""
        return self._committed_bytes + self.pending.memory_bytes

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return a group's committed offsets by topic and partition."""
        return self._groups.get(group_id, _NOTHING)

    def has_any(self, group_id: str) -> bool:
        """Return whether a group has offsets, committed or pending in an open transaction."""
        return group_id in self._groups or self.pending.has_group(group_id)

    def replay(self, record: OffsetRecord) -> None:
        """Apply a record; it supersedes offsets pending in open transactions."""
        self.pending.supersede(record)
        self._apply(record)

    def _apply(self, record: OffsetRecord) -> None:
        """Store or delete an offset; drop topics and groups without offsets."""
        before = self._groups.get(record.group_id, _NOTHING).get(record.topic, {})
        self._committed_bytes += offset_bytes(record.committed)
        self._committed_bytes -= offset_bytes(before.get(record.partition))
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
        """Return whether a partition has an offset pending in an open transaction."""
        return self.pending.has_pending(group_id, topic, partition)

    def commit(
        self, request: CommitRequest, wall_ms: int
    ) -> tuple[list[OffsetRecord], tuple[ErrorCode, ...]]:
        """Return the records of a commit that its group allows, and an error for each offset.

        For a partition that is named more than once, one record is written, with the last offset
        that is accepted: a request may name a million partitions, and its records are one batch.
        """
        records: dict[tuple[str, int], OffsetRecord] = {}
        errors = []
        topics = self.of_group(request.group_id)
        partitions_left = self._new_partitions_left(request.group_id, len(request.offsets))
        bytes_left: int | None = None  # computed only if an offset needs more memory
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
                bytes_left = self._memory_budget.bytes_left
            is_full = (is_new and partitions_left <= 0) or growth > max(bytes_left or 0, 0)
            error = self._refusal(each, is_full=is_full)
            errors.append(error)
            if error is ErrorCode.NONE:
                partitions_left -= is_new
                if growth > 0 and bytes_left is not None:
                    bytes_left -= growth
                expire_ms = self._expiry(request.retention_ms, each.commit_timestamp_ms, wall_ms)
                committed = CommittedOffset(
                    each.offset, each.leader_epoch, each.metadata, wall_ms, expire_ms
                )
                records[place] = OffsetRecord(request.group_id, *place, committed)
        return list(records.values()), tuple(errors)

    def _expiry(
        self, retention_ms: int | None, commit_timestamp_ms: int, wall_ms: int
    ) -> int | None:
        """Return when an offset with a retention or a time of its own expires, as an int64.

        A time of the client's own only keeps an offset longer, if it is no matter of its clock. The
        time of the commit stays that of its receipt: by it the offsets of a deleted topic differ
        from those of the next one.
        """
        if retention_ms is None:
            if commit_timestamp_ms <= wall_ms + COMMIT_AHEAD_MS:
                return None
            wall_ms, retention_ms = commit_timestamp_ms, self._settings.offsets_retention_ms
        return min(max(wall_ms + retention_ms, 0), _INT64_MAX)

    def _new_partitions_left(self, group_id: str, wanted: int) -> int:
        """Return how many more partitions a group may commit; exact if fewer than wanted."""
        topics = self.of_group(group_id)
        pending = self.pending.places(group_id)
        left = self._settings.offsets_max - sum(map(len, topics.values())) - len(pending)
        if left < wanted:  # Correct for partitions counted twice, committed and pending.
            left += sum(partition in topics.get(topic, {}) for topic, partition in pending)
        return left

    def fetch(self, request: FetchOffsetsRequest) -> dict[str, dict[int, CommittedOffset | None]]:
        """Return the requested offsets; None for a partition without one."""
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
        """Yield those of the partitions with an offset pending in an open transaction."""
        if self.pending.has_group(group_id):
            for topic, partitions in topics.items():
                for partition in partitions:
                    if self.has_pending(group_id, topic, partition):
                        yield topic, partition

    def groups(self) -> list[str]:
        """Return all groups that have offsets, committed or pending in an open transaction."""
        return list(dict.fromkeys([*self._groups, *self.pending.groups()]))

    def partitions(self, group_id: str, topic: str) -> list[int]:
        """Return the partitions of a topic with a committed or pending offset of a group."""
        committed = self.of_group(group_id).get(topic, {})
        return list(dict.fromkeys([*committed, *self.pending.partitions(group_id, topic)]))

    def removals(self, group_id: str, topic: str, partitions: Iterable[int]) -> list[OffsetRecord]:
        """Return the tombstones of a group's offsets of these partitions, of those that exist."""
        committed = self.of_group(group_id).get(topic, {})
        return [
            OffsetRecord(group_id, topic, each, None)
            for each in partitions
            if each in committed or self.pending.may_be_committed(group_id, topic, each)
        ]

    def removals_until(
        self, group_id: str, topic: str, partitions: Iterable[int], wall_ms: int
    ) -> list[OffsetRecord]:
        """Return the same, without partitions with a later commit, even a pending one."""
        return [
            each
            for each in self.removals(group_id, topic, partitions)
            if self._last_commit_ms(each) <= wall_ms
        ]

    def _last_commit_ms(self, place: OffsetRecord) -> int:
        """Return the latest commit time of a partition, of committed and of pending offsets."""
        group_id, topic, partition, _ = place
        found = [each.committed for each in self.pending.committable(group_id, topic, partition)]
        found.append(self.of_group(group_id).get(topic, {}).get(partition))
        return max((each.commit_timestamp_ms for each in found if each is not None), default=0)

    def removals_of_group(self, group_id: str) -> Iterator[OffsetRecord]:
        """Yield the tombstones of all offsets of a group; consume it before replaying them."""
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


def offset_bytes(committed: CommittedOffset | None) -> int:
    """Return the size of a committed offset in memory; 0 for None."""
    return 0 if committed is None else OFFSET_BYTES + len(committed.metadata)
