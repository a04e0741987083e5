"""The bytes that classic members send and receive."""

from collections.abc import Iterable

import pytest

from broker.codec.coordinator_records import (
    decode_assignment,
    encode_subscription,
)
from broker.core.coordination.machine import Moment
from broker.core.groups.commands.classic import GroupProtocol, JoinRequest, JoinResponse
from broker.core.groups.consumer.classic_members import ClassicMembers, assignment_bytes, by_id
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.records.classic import GroupRecord
from broker.core.groups.records.offsets import OffsetRecord
from broker.core.groups.settings import ConsumerSettings
from broker.model import limits
from broker.model.errors import ErrorCode
from tests.support.fakes import FakeTopics

SUBSCRIPTION = encode_subscription(3, {"topics": ["t"], "user_data": None})


@pytest.fixture
def topics() -> FakeTopics:
    topics = FakeTopics()
    topics.put("t", 2)
    return topics


def test_unknown_partitions_are_omitted(topics: FakeTopics) -> None:
    [numbers] = by_id({"t": [-1, 0, 1, 2, -(1 << 31)], "u": [0]}, topics).values()

    assert numbers == (0, 1)


@pytest.mark.parametrize(
    ("subscription", "version"),
    [
        (SUBSCRIPTION, 3),
        (b"\x00\x7f" + SUBSCRIPTION[2:] + b"what comes later", 3),
        (b"?", 0),
        (b"\xff\xff" + SUBSCRIPTION[2:], 0),
    ],
    ids=["known", "newer", "no subscription", "no version"],
)
def test_an_assignment_is_written_in_a_supported_version(
    subscription: bytes, version: int, topics: FakeTopics
) -> None:
    topic = topics.get("t")
    assert topic is not None

    embedded = decode_assignment(assignment_bytes(subscription, {topic.topic_id: (1,)}, topics))

    assert embedded is not None
    assert embedded.version == version
    assert embedded.body["assigned_partitions"] == [{"topic": "t", "partitions": [1]}]


def joining(names: Iterable[str], member_id: str = "m") -> JoinRequest:
    protocols = tuple(GroupProtocol(name, SUBSCRIPTION) for name in names)
    return JoinRequest("g", member_id, None, "c", "h", 10_000, 10_000, "consumer", protocols)


class Members:
    """One group, and the responses to its classic members."""

    def __init__(self, topics: FakeTopics) -> None:
        self.group = ConsumerGroup("g", ConsumerSettings(), topics)
        self.classic = ClassicMembers(self.group, topics, limits.GROUP_METADATA_BYTES_MAX)

    def join(self, request: JoinRequest) -> ErrorCode:
        decision = self.classic.join_to_consumer_group(request, "token", Moment(0, 0))
        for record in decision.records:
            assert not isinstance(record, (GroupRecord, OffsetRecord))
            self.group.replay(record)
        [(_, response)] = decision.replies
        assert isinstance(response, JoinResponse)
        return response.error


@pytest.mark.parametrize(
    ("count", "error"),
    [
        (0, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (limits.GROUP_PROTOCOLS_PER_MEMBER_MAX, ErrorCode.NONE),
        (limits.GROUP_PROTOCOLS_PER_MEMBER_MAX + 1, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_member_may_offer_as_many_protocols_as_in_a_classic_group(
    count: int, error: ErrorCode, topics: FakeTopics
) -> None:
    assert Members(topics).join(joining(f"p{each}" for each in range(count))) is error


def test_all_classic_members_need_a_common_protocol(topics: FakeTopics) -> None:
    members = Members(topics)
    assert members.join(joining(["range", "sticky"], "a")) is ErrorCode.NONE
    assert members.join(joining(["sticky", "sticky"], "b")) is ErrorCode.NONE

    assert members.join(joining(["range"], "c")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert members.join(joining(["range"], "a")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert members.join(joining(["range", "sticky"], "b")) is ErrorCode.NONE
    assert members.join(joining(["range"], "a")) is ErrorCode.NONE


def test_the_protocol_names_of_members_count_towards_the_memory_limit(topics: FakeTopics) -> None:
    members = Members(topics)
    third = "n" * (limits.GROUP_METADATA_BYTES_MAX // 3)
    assert members.join(joining(["a" + third, "b"], "a")) is ErrorCode.NONE

    assert members.join(joining(["b", third, "c" + third])) is ErrorCode.GROUP_MAX_SIZE_REACHED
