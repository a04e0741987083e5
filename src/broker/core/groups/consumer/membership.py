"""The state of a consumer group from the log, and what is derived from it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from broker.core.groups.commands.consumer import ConsumerHeartbeat
from broker.core.groups.records.consumer import (
    ConsumerEpochRecord,
    ConsumerMember,
    ConsumerMemberRecord,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    MemberState,
    Partitions,
    RegexRecord,
    ResolvedRegex,
    TargetEpochRecord,
    TargetRecord,
)
from broker.model import limits

KeyT = TypeVar("KeyT")

_NOBODY: Mapping[int, str] = {}


class Membership:
    """Members, targets and assignments, and counts over them. Only `replay` changes it."""

    def __init__(self, group_id: str) -> None:
        """Begin as a group without records."""
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.target: dict[str, Partitions] = {}
        self.current: dict[str, CurrentAssignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        # Derived from the members: subscribers by topic name and by pattern, preferences by
        # assignor; members of the classic protocol, how many of these support a protocol, and the
        # bytes of their metadata.
        self.by_topic: dict[str, int] = {}
        self.by_regex: dict[str, int] = {}
        self.by_assignor: dict[str, int] = {}
        self.classic_count = 0
        self.by_protocol: dict[str, int] = {}
        self.classic_bytes = 0
        self.memory_bytes = limits.GROUP_BYTES  # size in memory, as core/groups/memory.py counts it
        self._static_ids: dict[str, str] = {}
        self._owners: dict[bytes, dict[int, str]] = {}

    # ---- lookup ----------------------------------------------------------------------------------

    def static_id(self, instance_id: str | None) -> str | None:
        """Return the member id of an instance."""
        return None if instance_id is None else self._static_ids.get(instance_id)

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """Return the member that owns a partition, even if it has to revoke it."""
        return self._owners.get(topic_id, _NOBODY).get(partition)

    def is_reconciled(self, member_id: str) -> bool:
        """Return whether a member has reached its target."""
        current = self.current.get(member_id)
        return (
            current is not None
            and current.state is MemberState.STABLE
            and current.epoch == self.target_epoch
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether any member is subscribed to a topic."""
        return topic in self.by_topic or any(
            topic in self.regexes[regex].topics for regex in self.by_regex if regex in self.regexes
        )

    def removals(self) -> Iterator[ConsumerRecord]:
        """Yield the tombstones of all records of this group."""
        for member_id in list(self.current):
            yield CurrentRecord(self.group_id, member_id, None)
        for member_id in list(self.target):
            yield TargetRecord(self.group_id, member_id, None)
        yield TargetEpochRecord(self.group_id, None)
        for member_id in list(self.members):
            yield ConsumerMemberRecord(self.group_id, member_id, None)
        for regex in list(self.regexes):
            yield RegexRecord(self.group_id, regex, None)
        yield ConsumerEpochRecord(self.group_id, None)

    # ---- the log ---------------------------------------------------------------------------------

    def replay(self, record: ConsumerRecord) -> None:
        """Apply a record."""
        if isinstance(record, CurrentRecord):
            self._set_current(record.member_id, record.current)
        elif isinstance(record, TargetRecord):
            self._set_target(record.member_id, record.partitions)
        elif isinstance(record, ConsumerMemberRecord):
            self._set_member(record.member_id, record.member)
        elif isinstance(record, ConsumerEpochRecord):
            self.epoch = record.epoch or 0
            self.metadata_hash = record.metadata_hash
        elif isinstance(record, TargetEpochRecord):
            self.target_epoch = record.epoch or 0
        else:
            _put(self.regexes, record.regex, record.resolved)

    def _set_member(self, member_id: str, member: ConsumerMember | None) -> None:
        before = self.members.get(member_id)
        _put(self.members, member_id, member)
        if before is not None:
            self._count(before, -1)
            if before.instance_id and self._static_ids.get(before.instance_id) == member_id:
                del self._static_ids[before.instance_id]
        if member is not None:
            self._count(member, 1)
            if member.instance_id:
                self._static_ids[member.instance_id] = member_id

    def _count(self, member: ConsumerMember, change: int) -> None:
        self.memory_bytes += change * member_bytes(member)
        for topic in member.topic_names:
            _add(self.by_topic, topic, change)
        if member.topic_regex:
            _add(self.by_regex, member.topic_regex, change)
        if member.assignor:
            _add(self.by_assignor, member.assignor, change)
        if member.classic is not None:
            self.classic_count += change
            self.classic_bytes += change * member.classic.metadata_bytes
            for name in member.classic.names:
                _add(self.by_protocol, name, change)

    def _set_target(self, member_id: str, partitions: Partitions | None) -> None:
        before = self.target.get(member_id)
        count = _partition_count(partitions) - _partition_count(before)
        self.memory_bytes += count * limits.ASSIGNED_PARTITION_BYTES
        _put(self.target, member_id, partitions)

    def _set_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        before = self.current.get(member_id)
        _put(self.current, member_id, current)
        if before is not None:
            for topic, numbers in _owned_partitions(before):
                owners = self._owners.get(topic, {})
                for number in numbers:
                    if owners.get(number) == member_id:
                        del owners[number]
                if not owners:
                    self._owners.pop(topic, None)
        if current is not None:
            for topic, numbers in _owned_partitions(current):
                self._owners.setdefault(topic, {}).update(dict.fromkeys(numbers, member_id))


def member_bytes(member: ConsumerMember) -> int:
    """Return the size of a member in memory."""
    protocol_bytes = 0 if member.classic is None else member.classic.metadata_bytes
    return (
        protocol_bytes
        + limits.MEMBER_BYTES
        + _subscription_bytes(member.topic_names, member.topic_regex)
    )


def added_bytes_of_heartbeat(request: ConsumerHeartbeat, member: ConsumerMember | None) -> int:
    """Return by how much a heartbeat increases the memory of a member; None: a new one."""
    if member is None:
        return limits.MEMBER_BYTES + _subscription_bytes(request.topic_names, request.topic_regex)
    names, regex = request.topic_names, request.topic_regex
    if names is None and regex is None:
        return 0
    return _subscription_bytes(names, regex) - _subscription_bytes(
        member.topic_names, member.topic_regex
    )


def _subscription_bytes(topic_names: Iterable[str] | None, topic_regex: str | None) -> int:
    names = sum(len(name) + limits.SUBSCRIBED_NAME_BYTES for name in topic_names or ())
    return names + len(topic_regex or "")


def _partition_count(assignment: Partitions | None) -> int:
    return 0 if assignment is None else sum(map(len, assignment.values()))


def _owned_partitions(current: CurrentAssignment) -> Iterable[tuple[bytes, tuple[int, ...]]]:
    yield from current.assigned.items()
    yield from current.revoking.items()


def _put(values: dict[str, KeyT], key: str, value: KeyT | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _add(counts: dict[str, int], key: str, change: int) -> None:
    count = counts.get(key, 0) + change
    if count:
        counts[key] = count
    else:
        del counts[key]
