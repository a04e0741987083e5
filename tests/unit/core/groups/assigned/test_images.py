"""The log record of an assigned group."""

import pytest

from broker.codec.coordinator_records import decode_assignment, decode_subscription
from broker.core.groups.assigned.images import (
    AssignedImage,
    AssignedMember,
    from_log,
    is_assigned,
    to_log,
)
from broker.core.groups.commands.assigned import AssignedProtocol, Assignor
from broker.core.groups.records import encoding
from broker.core.groups.records.classic import GroupImage, GroupRecord
from broker.model.errors import CodecError

MEMBERS = {
    "b": AssignedMember("b", "client", "/127.0.0.1", 10_000, (1, 2)),
    "a": AssignedMember("a", "", "", 30_000, ()),
}


@pytest.mark.parametrize("members", [MEMBERS, {}])
@pytest.mark.parametrize("assignor", Assignor)
def test_a_group_is_restored_from_its_record(
    members: dict[str, AssignedMember], assignor: Assignor
) -> None:
    image = AssignedImage(AssignedProtocol.V1, "orders", assignor, 7, members, 1_234)

    key, value = encoding.encode(GroupRecord("g", to_log(image)))
    record = encoding.decode(key, value)

    assert isinstance(record, GroupRecord)
    assert record.image is not None
    loaded = from_log(record.image)
    assert loaded == image
    assert list(loaded.members) == list(members)


def test_kafka_tools_decode_its_subscriptions_and_assignments() -> None:
    stored = to_log(AssignedImage(AssignedProtocol.V1, "orders", members=MEMBERS))

    assert (stored.protocol_type, stored.protocol, stored.leader) == (
        "polylog-v1",
        "round_robin",
        "b",
    )
    assert decode_subscription(stored.members["a"].subscription).body["topics"] == ["orders"]
    assignment = decode_assignment(stored.members["b"].assignment)
    assert assignment is not None
    assert assignment.body["assigned_partitions"] == [{"topic": "orders", "partitions": [1, 2]}]


@pytest.mark.parametrize("protocol", [None, "", "sticky", "sticky orders"])
def test_a_record_of_another_kind_of_group_is_refused(protocol: str | None) -> None:
    with pytest.raises(CodecError):
        from_log(GroupImage(1, "polylog-v1", protocol))


def test_kafka_protocol_types_are_not_those_of_assigned_groups() -> None:
    assert [each for each in ("consumer", "connect", "", "polylog-v1") if is_assigned(each)] == [
        "polylog-v1"
    ]
