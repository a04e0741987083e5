"""The stored state of an assigned group: Kafka's GroupMetadata, which Kafka's tools can read.

    protocol_type  the protocol (`AssignedProtocol`)
    protocol       the assignor; without members followed by a space and the topic, which the
                   members' subscriptions have otherwise
    leader         the first member that joined; it has no function
    members        in the order in which they joined, each with a subscription and an assignment
                   in the format of Kafka's consumers

The time of a member's last request is not stored: after a load each has a full session timeout.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from broker.codec.coordinator_records import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from broker.core.groups.commands.assigned import (
    NEW_GROUP_GENERATION,
    NO_GENERATION,
    AssignedProtocol,
    Assignor,
)
from broker.core.groups.records.classic import GroupImage, Member
from broker.model import limits
from broker.model.errors import Corrupt

_VERSION = 0  # of subscriptions and assignments; later ones add fields of clients
_PROTOCOL_TYPES = frozenset(each.value for each in AssignedProtocol)


class AssignedMember(NamedTuple):
    """A member of a generation."""

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    partitions: tuple[int, ...] = ()


class AssignedImage(NamedTuple):
    """The content of a group's last record."""

    protocol: AssignedProtocol
    topic: str
    assignor: Assignor = Assignor.ROUND_ROBIN
    generation: int = NEW_GROUP_GENERATION
    members: Mapping[str, AssignedMember] = MappingProxyType({})
    timestamp_ms: int = 0  # wall time of the last change

    @property
    def partition_count(self) -> int:
        """The number of assigned partitions."""
        return sum(len(each.partitions) for each in self.members.values())


def first_image(protocol: AssignedProtocol, topic: str, assignor: Assignor | None) -> AssignedImage:
    """Return the state of a group before its first member joins.

    Cursus assigns ranges by default and counts generations from 1. The group begins with the
    requested assignor, because a change of it would increment the generation.
    """
    if protocol is AssignedProtocol.CURSUS:
        return AssignedImage(protocol, topic, assignor or Assignor.RANGE, NO_GENERATION)
    return AssignedImage(protocol, topic, assignor or Assignor.ROUND_ROBIN)


def is_assigned(protocol_type: str) -> bool:
    """Return whether groups of this protocol type are assigned groups."""
    return protocol_type in _PROTOCOL_TYPES


def fits(group_id: str, topic: str, member_id: str) -> bool:
    """Return whether these names fit a record; the rules of topic names are not checked."""
    bounded = (
        (group_id, limits.GROUP_ID_BYTES_MAX),
        (topic, limits.TOPIC_NAME_BYTES_MAX),
        (member_id, limits.CLIENT_ID_BYTES_MAX),
    )
    try:
        return all(0 < len(name.encode()) <= bytes_max for name, bytes_max in bounded)
    except UnicodeEncodeError:  # a surrogate, from bytes that are not UTF-8
        return False


def to_log(image: AssignedImage) -> GroupImage:
    """Return the state as Kafka's record has it."""
    subscription = encode_subscription(_VERSION, {"topics": [image.topic], "user_data": None})
    members = {
        each.member_id: Member(
            each.member_id,
            None,
            each.client_id,
            each.client_host,
            each.session_timeout_ms,
            each.session_timeout_ms,
            subscription,
            _encode_partitions(image.topic, each.partitions),
        )
        for each in image.members.values()
    }
    assignor = image.assignor.value
    return GroupImage(
        image.generation,
        image.protocol.value,
        assignor if members else f"{assignor} {image.topic}",
        next(iter(members), None),
        image.timestamp_ms,
        members,
    )


def from_log(stored: GroupImage) -> AssignedImage:
    """Return the state from a record.

    Raises:
        CodecError: it is not the record of an assigned group, or was not written by this broker.
    """
    assignor, _, topic = (stored.protocol or "").partition(" ")
    for each in stored.members.values():
        [topic] = decode_subscription(each.subscription).body["topics"] or [topic]
        break  # All members have the same subscription.
    try:
        known = AssignedProtocol(stored.protocol_type), Assignor(assignor)
    except ValueError as error:
        raise Corrupt(f"not an assigned group: {error}", 0) from error
    members = {
        each.member_id: AssignedMember(
            each.member_id,
            each.client_id,
            each.client_host,
            each.session_timeout_ms,
            _decode_partitions(each.assignment),
        )
        for each in stored.members.values()
    }
    return AssignedImage(
        known[0], topic, known[1], stored.generation, members, stored.state_timestamp_ms or 0
    )


def _encode_partitions(topic: str, partitions: tuple[int, ...]) -> bytes:
    topics = [{"topic": topic, "partitions": list(partitions)}] if partitions else []
    return encode_assignment(_VERSION, {"assigned_partitions": topics, "user_data": None})


def _decode_partitions(assignment: bytes) -> tuple[int, ...]:
    embedded = decode_assignment(assignment)
    topics = embedded.body["assigned_partitions"] if embedded is not None else []
    return tuple(number for each in topics for number in each["partitions"])
