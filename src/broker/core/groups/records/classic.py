"""The record of a classic group (GroupMetadata): its generation and members.

Assigned groups are stored in this record too, so that Kafka's tools can read them.

One difference: Kafka writes a group when its leader has assigned; this broker also writes it when a
join has completed, so that no generation is used twice and a rebalance survives a restart. Such a
group has members and no `current_state_timestamp` (-1, Kafka's "unknown").
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from broker.codec.coordinator_records import CoordinatorRecord
from broker.codec.schema import Fields
from broker.model.errors import Corrupt

RECORD_NAME = "GroupMetadata"
CONSUMER_PROTOCOL = "consumer"  # the protocol type of consumers, in Kafka's clients
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


class GroupRecord(NamedTuple):
    """The new content of a group; image None: it was deleted."""

    group_id: str
    image: GroupImage | None


def to_log(record: GroupRecord) -> CoordinatorRecord:
    """Return the record as it is stored."""
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
    return CoordinatorRecord(RECORD_NAME, _GROUP_METADATA_VALUE_VERSION, key, value)


def from_log(record: CoordinatorRecord) -> GroupRecord:
    """Return the record that was stored; raise Corrupt if its values are not those of a group."""
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
