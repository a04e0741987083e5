"""Records of groups and offsets in `__consumer_offsets`, which Kafka's tools read too.

    OffsetCommit    key: group, topic, partition    value: the offset
    GroupMetadata   key: group                      value: its generation and members

A null value is a tombstone (the bytes: broker.codec.coordinator_records). The versions are those of
Kafka 4.3: OffsetCommitValue 3 (4 adds a topic id; 1 if the client set a retention time), and
GroupMetadataValue 3. Records of consumer groups are in consumer/records.py. Key types of other
group types are skipped while loading, as in Kafka.

One difference: Kafka writes a group when its leader has assigned; this broker also writes it when a
join has completed, so that no generation is used twice and a rebalance survives a restart. Such a
group has members and no `current_state_timestamp` (-1, Kafka's "unknown").
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from broker.codec.coordinator_records import (
    CoordinatorRecord,
    decode_group_record,
    encode_coordinator_record,
    group_record_name,
)
from broker.codec.schema import Fields
from broker.core.groups.consumer import records as consumer
from broker.model.errors import Corrupt

_OFFSET_COMMIT = "OffsetCommit"
_GROUP_METADATA = "GroupMetadata"
_OFFSET_COMMIT_VALUE_VERSION = 3
# The only version with an expiry time of the client's own; it has no leader epoch.
_EXPIRING_OFFSET_VALUE_VERSION = 1
_GROUP_METADATA_VALUE_VERSION = 3
# Versions before this have no timestamp: their groups are not waiting for assignments.
_FIRST_VERSION_WITH_TIMESTAMP = 2
_UNKNOWN_TIMESTAMP = -1


class Member(NamedTuple):
    """A member of a generation."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes = b""
    assignment: bytes = b""

    def with_assignment(self, subscription: bytes, assignment: bytes) -> "Member":
        """Return the member in another generation; cheaper than `_replace` in large groups."""
        return Member(*self[:6], subscription, assignment)


class GroupImage(NamedTuple):
    """The content of a group's last record; members in the order in which they joined."""

    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int | None = None  # None: the leader has not assigned yet
    members: Mapping[str, Member] = MappingProxyType({})


class CommittedOffset(NamedTuple):
    """The next offset that a group will read in a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None  # None: the broker's retention applies


class GroupRecord(NamedTuple):
    """The new content of a group; image None: it was deleted."""

    group_id: str
    image: GroupImage | None


class OffsetRecord(NamedTuple):
    """A group's new offset of a partition; committed None: it was deleted."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


Record: TypeAlias = GroupRecord | OffsetRecord | consumer.ConsumerRecord


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Return the key and value of a record."""
    if isinstance(record, OffsetRecord):
        return encode_coordinator_record(_from_offset(record))
    if isinstance(record, GroupRecord):
        return encode_coordinator_record(_from_group(record))
    return encode_coordinator_record(consumer.to_log(record))


def decode(key: bytes, value: bytes | None) -> Record | None:
    """Return the record of a key and value; None if its key type is not used here.

    Raises:
        CodecError: the bytes are not a valid record.
    """
    name = group_record_name(key)
    if name == _OFFSET_COMMIT:
        return _to_offset(decode_group_record(key, value))
    if name == _GROUP_METADATA:
        return _to_group(decode_group_record(key, value))
    if name is not None and name in consumer.READERS:
        record = decode_group_record(key, value)
        return consumer.READERS[name](record.key, record.value)
    return None


def _from_offset(record: OffsetRecord) -> CoordinatorRecord:
    key = {"group": record.group_id, "topic": record.topic, "partition": record.partition}
    committed = record.committed
    if committed is None:
        return CoordinatorRecord(_OFFSET_COMMIT, None, key, None)
    value = {
        "offset": committed.offset,
        "metadata": committed.metadata,
        "commit_timestamp": committed.commit_timestamp_ms,
    }
    if committed.expire_timestamp_ms is not None:
        value["expire_timestamp"] = committed.expire_timestamp_ms
        return CoordinatorRecord(_OFFSET_COMMIT, _EXPIRING_OFFSET_VALUE_VERSION, key, value)
    value["leader_epoch"] = committed.leader_epoch
    return CoordinatorRecord(_OFFSET_COMMIT, _OFFSET_COMMIT_VALUE_VERSION, key, value)


def _to_offset(record: CoordinatorRecord) -> OffsetRecord:
    key, value = record.key, record.value
    committed = None
    if value is not None:
        expire_ms = value["expire_timestamp"]
        committed = CommittedOffset(
            value["offset"],
            value["leader_epoch"],
            value["metadata"],
            value["commit_timestamp"],
            None if expire_ms == _UNKNOWN_TIMESTAMP else expire_ms,
        )
    return OffsetRecord(key["group"], key["topic"], key["partition"], committed)


def _from_group(record: GroupRecord) -> CoordinatorRecord:
    image = record.image
    value = None
    if image is not None:
        timestamp_ms = image.state_timestamp_ms
        value = {
            "protocol_type": image.protocol_type,
            "generation": image.generation,
            "protocol": image.protocol,
            "leader": image.leader,
            "current_state_timestamp": _UNKNOWN_TIMESTAMP if timestamp_ms is None else timestamp_ms,
            "members": [_encode_member(member) for member in image.members.values()],
        }
    key = {"group": record.group_id}
    return CoordinatorRecord(_GROUP_METADATA, _GROUP_METADATA_VALUE_VERSION, key, value)


def _to_group(record: CoordinatorRecord) -> GroupRecord:
    group_id, version, value = record.key["group"], record.version, record.value
    if value is None or version is None:
        return GroupRecord(group_id, None)
    timestamp_ms: int | None = value["current_state_timestamp"]
    if timestamp_ms == _UNKNOWN_TIMESTAMP:
        timestamp_ms = None if version >= _FIRST_VERSION_WITH_TIMESTAMP else 0
    members = [_decode_member(version, each) for each in value["members"]]
    image = GroupImage(
        value["generation"],
        value["protocol_type"],
        value["protocol"],
        value["leader"],
        timestamp_ms,
        {member.member_id: member for member in members},
    )
    if image.generation < 0:
        raise Corrupt(f"a group of generation {image.generation}")
    return GroupRecord(group_id, image)


def _encode_member(member: Member) -> Fields:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout": member.rebalance_timeout_ms,
        "session_timeout": member.session_timeout_ms,
        "subscription": member.subscription,
        "assignment": member.assignment,
    }


def _decode_member(version: int, body: Fields) -> Member:
    member = Member(
        body["member_id"],
        body["group_instance_id"],
        body["client_id"],
        body["client_host"],
        # Version 0 has no rebalance timeout: the session timeout was used for both.
        body["rebalance_timeout"] if version > 0 else body["session_timeout"],
        body["session_timeout"],
        body["subscription"],
        body["assignment"],
    )
    if member.session_timeout_ms <= 0:
        raise Corrupt(f"a member with a session timeout of {member.session_timeout_ms} ms")
    return member
