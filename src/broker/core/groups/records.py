"""What a group remembers, and its records in `__consumer_offsets`, which Kafka's tools read too.

    key    int16 version, then the body of that key type
             1 = OffsetCommitKey   group, topic, partition
             2 = GroupMetadataKey  group
    value  int16 version, then the body; a null value deletes what the key names

Written as a Kafka 4.3 broker writes them: OffsetCommitValue 3 (4 adds a topic id), and
GroupMetadataValue 3. Key types of other kinds of group are skipped while loading, as Kafka does.

One use of a field is ours: Kafka writes a group when its leader has assigned; we also write it when
a join has completed, so that no generation is ever given out twice and a rebalance survives a
restart. Such a group has members and no `current_state_timestamp` (-1, Kafka's "unknown").
"""

from collections.abc import Mapping
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from broker.codec import schema
from broker.model.errors import Truncated, Unsupported

_OFFSET_COMMIT_KEY = 1
_GROUP_METADATA_KEY = 2
_OFFSET_COMMIT_VALUE_VERSION = 3
_GROUP_METADATA_VALUE_VERSION = 3
# Versions before this had no timestamp: a group of theirs does not await assignments.
_FIRST_VERSION_WITH_TIMESTAMP = 2
_UNKNOWN_TIMESTAMP = -1
_VERSION = Struct(">h")


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


class GroupImage(NamedTuple):
    """A group as its last record says; members in the order in which they joined."""

    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int | None = None  # None: the leader has not assigned yet
    members: Mapping[str, Member] = MappingProxyType({})


class CommittedOffset(NamedTuple):
    """The next offset that a group will read of a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int


class GroupRecord(NamedTuple):
    """A group is now as its image says; without one it is gone."""

    group_id: str
    image: GroupImage | None


class OffsetRecord(NamedTuple):
    """A group's offset for a partition is now this; without one it is gone."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


Record: TypeAlias = GroupRecord | OffsetRecord


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """The key and value that say it in the log."""
    if isinstance(record, OffsetRecord):
        return _encode_offset(record)
    return _encode_group(record)


def decode(key: bytes, value: bytes | None) -> Record | None:
    """The record of a key and value from the log; None if it is of a kind that is not ours.

    Raises:
        CodecError: the bytes are no such record.
    """
    kind = _version_of(key)
    if kind == _OFFSET_COMMIT_KEY:
        return _decode_offset(key, value)
    if kind == _GROUP_METADATA_KEY:
        return _decode_group(key, value)
    return None


def _encode_offset(record: OffsetRecord) -> tuple[bytes, bytes | None]:
    named = {"group": record.group_id, "topic": record.topic, "partition": record.partition}
    key = _encode_key("OffsetCommitKey", _OFFSET_COMMIT_KEY, named)
    committed = record.committed
    if committed is None:
        return key, None
    body = {
        "offset": committed.offset,
        "leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "commit_timestamp": committed.commit_timestamp_ms,
    }
    return key, _encode_value("OffsetCommitValue", _OFFSET_COMMIT_VALUE_VERSION, body)


def _decode_offset(key: bytes, value: bytes | None) -> OffsetRecord:
    named = _decode_key("OffsetCommitKey", key)
    committed = None
    if value is not None:
        _, body = _decode_value("OffsetCommitValue", value)
        committed = CommittedOffset(
            body["offset"], body["leader_epoch"], body["metadata"], body["commit_timestamp"]
        )
    return OffsetRecord(named["group"], named["topic"], named["partition"], committed)


def _encode_group(record: GroupRecord) -> tuple[bytes, bytes | None]:
    key = _encode_key("GroupMetadataKey", _GROUP_METADATA_KEY, {"group": record.group_id})
    image = record.image
    if image is None:
        return key, None
    timestamp_ms = image.state_timestamp_ms
    body = {
        "protocol_type": image.protocol_type,
        "generation": image.generation,
        "protocol": image.protocol,
        "leader": image.leader,
        "current_state_timestamp": _UNKNOWN_TIMESTAMP if timestamp_ms is None else timestamp_ms,
        "members": [_encode_member(member) for member in image.members.values()],
    }
    return key, _encode_value("GroupMetadataValue", _GROUP_METADATA_VALUE_VERSION, body)


def _decode_group(key: bytes, value: bytes | None) -> GroupRecord:
    group_id = _decode_key("GroupMetadataKey", key)["group"]
    if value is None:
        return GroupRecord(group_id, None)
    version, body = _decode_value("GroupMetadataValue", value)
    timestamp_ms: int | None = body["current_state_timestamp"]
    if timestamp_ms == _UNKNOWN_TIMESTAMP:
        timestamp_ms = None if version >= _FIRST_VERSION_WITH_TIMESTAMP else 0
    members = [_decode_member(version, each) for each in body["members"]]
    image = GroupImage(
        body["generation"],
        body["protocol_type"],
        body["protocol"],
        body["leader"],
        timestamp_ms,
        {member.member_id: member for member in members},
    )
    return GroupRecord(group_id, image)


def _encode_member(member: Member) -> schema.Fields:
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


def _decode_member(version: int, body: schema.Fields) -> Member:
    return Member(
        body["member_id"],
        body["group_instance_id"],
        body["client_id"],
        body["client_host"],
        # Version 0 had no rebalance timeout: the session timeout stood for it.
        body["rebalance_timeout"] if version > 0 else body["session_timeout"],
        body["session_timeout"],
        body["subscription"],
        body["assignment"],
    )


def _encode_key(name: str, kind: int, body: schema.Fields) -> bytes:
    return _VERSION.pack(kind) + schema.record(name).encode(0, body)


def _decode_key(name: str, key: bytes) -> schema.Fields:
    body, _ = schema.record(name).decode(0, key, _VERSION.size)
    return body


def _encode_value(name: str, version: int, body: schema.Fields) -> bytes:
    return _VERSION.pack(version) + schema.record(name).encode(version, body)


def _decode_value(name: str, value: bytes) -> tuple[int, schema.Fields]:
    version = _version_of(value)
    message = schema.record(name)
    if version not in message.versions:
        raise Unsupported(f"expected {message!r}, got version {version}")
    body, _ = message.decode(version, value, _VERSION.size)
    return version, body


def _version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise Truncated(f"a coordinator record begins with an int16 version, got {data!r}")
    (version,) = _VERSION.unpack_from(data)
    return int(version)
