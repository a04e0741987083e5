"""The records of consumer groups in `__consumer_offsets` (KIP-848, Kafka 4.3).

    ConsumerGroupMetadata                   the group epoch, a hash of the subscribed topics
    ConsumerGroupMemberMetadata             a member's subscription, timeouts and client
    ConsumerGroupTargetAssignmentMetadata   the target epoch
    ConsumerGroupTargetAssignmentMember     a member's target assignment
    ConsumerGroupCurrentMemberAssignment    a member's assignment, and partitions to revoke
    ConsumerGroupRegularExpression          the topics that a pattern matches

A null value is a tombstone. Partitions of a topic are sorted, so that equal assignments have equal
bytes. Kafka's older ConsumerGroupPartitionMetadata (before the hash, 4.1) is not needed and is
skipped.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from broker.codec.coordinator_records import CoordinatorRecord
from broker.codec.schema import Fields

# Topic id → its partitions, sorted; no topic without partitions.
Partitions: TypeAlias = Mapping[bytes, tuple[int, ...]]

NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class ClassicProtocol(NamedTuple):
    """An assignment protocol that a member of the classic protocol supports."""

    name: str
    metadata: bytes


class ClassicMetadata(NamedTuple):
    """The additional data of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of its protocols."""
        return frozenset(each.name for each in self.protocols)

    @property
    def metadata_bytes(self) -> int:
        """The bytes of its protocols' names and metadata, which are all stored."""
        return sum(len(each.name.encode()) + len(each.metadata) for each in self.protocols)


class ConsumerMember(NamedTuple):
    """A member, as its heartbeats describe it."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()  # sorted, without duplicates
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None  # None: it uses the consumer protocol


class MemberState(IntEnum):
    """The state of a member's reconciliation; the numbers are those of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it has to revoke partitions first
    UNRELEASED_PARTITIONS = 2  # it waits for partitions of other members


class CurrentAssignment(NamedTuple):
    """A member's epoch and partitions, assigned and to be revoked."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    revoking: Partitions = NO_PARTITIONS


class ConsumerEpochRecord(NamedTuple):
    """The group epoch; None: the group was deleted."""

    group_id: str
    epoch: int | None
    metadata_hash: int = 0


class ConsumerMemberRecord(NamedTuple):
    """A member's data; None: it was removed."""

    group_id: str
    member_id: str
    member: ConsumerMember | None


class TargetEpochRecord(NamedTuple):
    """The target epoch; None: there is no target."""

    group_id: str
    epoch: int | None


class TargetRecord(NamedTuple):
    """A member's target; None: it was removed."""

    group_id: str
    member_id: str
    partitions: Partitions | None


class CurrentRecord(NamedTuple):
    """A member's assignment; None: it was removed."""

    group_id: str
    member_id: str
    current: CurrentAssignment | None


class ResolvedRegex(NamedTuple):
    """The topics that a pattern matched, sorted, and when it was resolved."""

    topics: tuple[str, ...]
    topics_version: int
    timestamp_ms: int


class RegexRecord(NamedTuple):
    """The topics of a pattern; None: no member uses it."""

    group_id: str
    regex: str
    resolved: ResolvedRegex | None


ConsumerRecord: TypeAlias = (
    ConsumerEpochRecord
    | ConsumerMemberRecord
    | TargetEpochRecord
    | TargetRecord
    | CurrentRecord
    | RegexRecord
)


def is_deletion(record: ConsumerRecord) -> bool:
    """Return whether a record is a tombstone."""
    if isinstance(record, (ConsumerEpochRecord, TargetEpochRecord)):
        return record.epoch is None
    return record[2] is None


# Kafka's names of the records.
_EPOCH = "ConsumerGroupMetadata"
_MEMBER = "ConsumerGroupMemberMetadata"
_TARGET_EPOCH = "ConsumerGroupTargetAssignmentMetadata"
_TARGET = "ConsumerGroupTargetAssignmentMember"
_CURRENT = "ConsumerGroupCurrentMemberAssignment"
_REGEX = "ConsumerGroupRegularExpression"
_VALUE_VERSION = 0


def in_order(partitions: Mapping[bytes, Iterable[int]]) -> Partitions:
    """Return the partitions sorted, without empty topics, as they are stored."""
    return {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items() if numbers}


# ---- to the log ----------------------------------------------------------------------------------


def to_log(record: ConsumerRecord) -> CoordinatorRecord:
    """Return the record for the codec."""
    name, key, value = _WRITERS[type(record)](record)
    return CoordinatorRecord(name, _VALUE_VERSION, {"group_id": record.group_id, **key}, value)


def _write_epoch(record: ConsumerEpochRecord) -> tuple[str, Fields, Fields | None]:
    value = None
    if record.epoch is not None:
        value = {"epoch": record.epoch, "metadata_hash": record.metadata_hash}
    return _EPOCH, {}, value


def _write_member(record: ConsumerMemberRecord) -> tuple[str, Fields, Fields | None]:
    member, value = record.member, None
    if member is not None:
        value = {
            "instance_id": member.instance_id,
            "rack_id": member.rack_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "subscribed_topic_names": list(member.topic_names),
            "subscribed_topic_regex": member.topic_regex,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "server_assignor": member.assignor,
            "classic_member_metadata": _write_classic(member.classic),
        }
    return _MEMBER, {"member_id": record.member_id}, value


def _write_classic(classic: ClassicMetadata | None) -> Fields | None:
    if classic is None:
        return None
    return {
        "session_timeout_ms": classic.session_timeout_ms,
        "supported_protocols": [each._asdict() for each in classic.protocols],
    }


def _write_target_epoch(record: TargetEpochRecord) -> tuple[str, Fields, Fields | None]:
    value = None if record.epoch is None else {"assignment_epoch": record.epoch}
    return _TARGET_EPOCH, {}, value


def _write_target(record: TargetRecord) -> tuple[str, Fields, Fields | None]:
    value = None
    if record.partitions is not None:
        value = {"topic_partitions": _write_partitions(record.partitions)}
    return _TARGET, {"member_id": record.member_id}, value


def _write_current(record: CurrentRecord) -> tuple[str, Fields, Fields | None]:
    current, value = record.current, None
    if current is not None:
        value = {
            "member_epoch": current.epoch,
            "previous_member_epoch": current.previous_epoch,
            "state": int(current.state),
            "assigned_partitions": _write_partitions(current.assigned),
            "partitions_pending_revocation": _write_partitions(current.revoking),
        }
    return _CURRENT, {"member_id": record.member_id}, value


def _write_regex(record: RegexRecord) -> tuple[str, Fields, Fields | None]:
    resolved, value = record.resolved, None
    if resolved is not None:
        value = {
            "topics": list(resolved.topics),
            "version": resolved.topics_version,
            "timestamp": resolved.timestamp_ms,
        }
    return _REGEX, {"regular_expression": record.regex}, value


def _write_partitions(partitions: Partitions) -> list[Fields]:
    return [{"topic_id": topic, "partitions": list(each)} for topic, each in partitions.items()]


_WRITERS: Final[Mapping[type, Callable[..., tuple[str, Fields, Fields | None]]]] = {
    ConsumerEpochRecord: _write_epoch,
    ConsumerMemberRecord: _write_member,
    TargetEpochRecord: _write_target_epoch,
    TargetRecord: _write_target,
    CurrentRecord: _write_current,
    RegexRecord: _write_regex,
}


# ---- from the log --------------------------------------------------------------------------------


def _read_epoch(key: Fields, value: Fields | None) -> ConsumerRecord:
    if value is None:
        return ConsumerEpochRecord(key["group_id"], None)
    return ConsumerEpochRecord(key["group_id"], value["epoch"], value["metadata_hash"])


def _read_member(key: Fields, value: Fields | None) -> ConsumerRecord:
    member = None
    if value is not None:
        member = ConsumerMember(
            key["member_id"],
            value["instance_id"],
            value["rack_id"],
            value["client_id"],
            value["client_host"],
            tuple(sorted(set(value["subscribed_topic_names"]))),
            value["subscribed_topic_regex"],
            value["rebalance_timeout_ms"],
            value["server_assignor"],
            _read_classic(value["classic_member_metadata"]),
        )
    return ConsumerMemberRecord(key["group_id"], key["member_id"], member)


def _read_classic(value: Fields | None) -> ClassicMetadata | None:
    if value is None:
        return None
    protocols = value["supported_protocols"]
    return ClassicMetadata(
        value["session_timeout_ms"],
        tuple(ClassicProtocol(each["name"], each["metadata"]) for each in protocols),
    )


def _read_target_epoch(key: Fields, value: Fields | None) -> ConsumerRecord:
    return TargetEpochRecord(key["group_id"], None if value is None else value["assignment_epoch"])


def _read_target(key: Fields, value: Fields | None) -> ConsumerRecord:
    partitions = None if value is None else _read_partitions(value["topic_partitions"])
    return TargetRecord(key["group_id"], key["member_id"], partitions)


def _read_current(key: Fields, value: Fields | None) -> ConsumerRecord:
    current = None
    if value is not None:
        current = CurrentAssignment(
            value["member_epoch"],
            value["previous_member_epoch"],
            _read_state(value["state"]),
            _read_partitions(value["assigned_partitions"]),
            _read_partitions(value["partitions_pending_revocation"]),
        )
    return CurrentRecord(key["group_id"], key["member_id"], current)


def _read_state(state: int) -> MemberState:
    """Return the state; an unknown one makes the next heartbeat reconcile the member."""
    try:
        return MemberState(state)
    except ValueError:
        return MemberState.UNRELEASED_PARTITIONS


def _read_regex(key: Fields, value: Fields | None) -> ConsumerRecord:
    resolved = None
    if value is not None:
        resolved = ResolvedRegex(tuple(value["topics"]), value["version"], value["timestamp"])
    return RegexRecord(key["group_id"], key["regular_expression"], resolved)


def _read_partitions(topics: Iterable[Fields]) -> Partitions:
    return in_order({each["topic_id"]: each["partitions"] for each in topics})


# By the name of the record.
READERS: Final[Mapping[str, Callable[[Fields, Fields | None], ConsumerRecord]]] = {
    _EPOCH: _read_epoch,
    _MEMBER: _read_member,
    _TARGET_EPOCH: _read_target_epoch,
    _TARGET: _read_target,
    _CURRENT: _read_current,
    _REGEX: _read_regex,
}
