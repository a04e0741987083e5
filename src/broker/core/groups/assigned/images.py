"""What the log says of an assigned group: Kafka's GroupMetadata, so that Kafka's tools read it.

    protocol_type  the family
    protocol       the assignor; of a group without members, a space and the topic too, which
                   nothing else would say then
    leader         the first member to have joined; it has nothing to do
    members        in the order in which they joined, each with a subscription to the topic and an
                   assignment as consumers write them

When a member was last heard of is not written: after a load each has its session timeout to show
itself.
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
from broker.core.groups.assigned.commands import (
    NEW_GROUP_GENERATION,
    NO_GENERATION,
    AssignedProtocol,
    Assignor,
)
from broker.core.groups.records import GroupImage, Member
from broker.model import limits
from broker.model.errors import Corrupt

_VERSION = 0  # of subscriptions and assignments: later ones say what only clients know
_PROTOCOLS = frozenset(each.value for each in AssignedProtocol)


class AssignedMember(NamedTuple):
    """A member of a generation."""

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    partitions: tuple[int, ...] = ()


class AssignedImage(NamedTuple):
    """A group as its last record says."""

    protocol: AssignedProtocol
    topic: str
    assignor: Assignor = Assignor.ROUND_ROBIN
    generation: int = NEW_GROUP_GENERATION
    members: Mapping[str, AssignedMember] = MappingProxyType({})
    timestamp_ms: int = 0  # wall, when it came to be so

    @property
    def partition_count(self) -> int:
        """How many partitions its members share."""
        return sum(len(each.partitions) for each in self.members.values())


def first_image(protocol: AssignedProtocol, topic: str, assignor: Assignor | None) -> AssignedImage:
    """A group before its first member has joined; Cursus assigns ranges and counts from 1.

    It begins with the assignor it is given: a change of it would be a generation (v1.md 1.6).
    """
    if protocol is AssignedProtocol.CURSUS:
        return AssignedImage(protocol, topic, assignor or Assignor.RANGE, NO_GENERATION)
    return AssignedImage(protocol, topic, assignor or Assignor.ROUND_ROBIN)


def is_assigned(protocol_type: str) -> bool:
    """Whether groups of this protocol type are the broker's to assign."""
    return protocol_type in _PROTOCOLS


def fits(group_id: str, topic: str, member_id: str) -> bool:
    """Whether these names can stand in a record; whether a topic may be called so is not asked."""
    bounded = (
        (group_id, limits.GROUP_ID_BYTES_MAX),
        (topic, limits.TOPIC_NAME_BYTES_MAX),
        (member_id, limits.CLIENT_ID_BYTES_MAX),
    )
    try:
        return all(0 < len(name.encode()) <= bytes_max for name, bytes_max in bounded)
    except UnicodeEncodeError:  # a surrogate, of bytes that were no text
        return False


def to_log(image: AssignedImage) -> GroupImage:
    """The image as Kafka's record has it."""
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
    """The image that a record of such a group has.

    Raises:
        CodecError: it is no such group's, or not written by this broker.
    """
    assignor, _, topic = (stored.protocol or "").partition(" ")
    for each in stored.members.values():
        [topic] = decode_subscription(each.subscription).body["topics"] or [topic]
        break  # They are all the same.
    try:
        known = AssignedProtocol(stored.protocol_type), Assignor(assignor)
    except ValueError as error:
        raise Corrupt(f"no group that is assigned here: {error}", 0) from error
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
