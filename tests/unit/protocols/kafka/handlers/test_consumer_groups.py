"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: from fields to commands and back."""

from typing import Any

import pytest

from broker.core.groups.commands.consumer import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    DescribedConsumerMember,
)
from broker.core.groups.records.consumer import (
    ClassicMetadata,
    ConsumerMember,
    CurrentAssignment,
    MemberState,
)
from broker.model.errors import ErrorCode
from broker.model.limits import GROUPS_ASKED_PER_TURN
from tests.support.fakes import FakeBroker, only

TOPIC_ID = b"0123456789abcdef"
GONE_ID = b"fedcba9876543210"
JOIN: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "instance_id": "i",
    "rack_id": "r",
    "rebalance_timeout_ms": 5,
    "subscribed_topic_names": ["t"],
    "server_assignor": "range",
    "topic_partitions": [{"topic_id": TOPIC_ID, "partitions": [2, 0]}],
}


@pytest.mark.parametrize("version", range(2))
def test_every_field_of_a_heartbeat_is_passed_to_the_group(version: int) -> None:
    broker = FakeBroker()
    more = {"subscribed_topic_regex": "t.*"} if version else {}

    broker.ask(68, version, **JOIN, **more)

    command = only(broker.groups.commands)
    assert command == ConsumerHeartbeat(
        "g",
        "m",
        0,
        "i",
        "r",
        5,
        ("t",),
        "t.*" if version else None,
        "range",
        {TOPIC_ID: (0, 2)},
        command.client_id,
        "/127.0.0.1",
        requires_member_id=bool(version),
    )


def test_a_null_field_of_a_heartbeat_means_unchanged() -> None:
    broker = FakeBroker()

    broker.ask(68, 1, group_id="g", member_id="m", member_epoch=3)

    command = only(broker.groups.commands)
    assert (command.topic_names, command.topic_regex, command.owned) == (None, None, None)
    assert (command.rebalance_timeout_ms, command.assignor) == (-1, None)


def test_a_member_gets_its_epoch_and_its_assignment() -> None:
    broker = FakeBroker()
    broker.groups.answers = [
        ConsumerHeartbeatResponse(ErrorCode.NONE, "", "m", 4, 100, {TOPIC_ID: (0, 1)}),
        ConsumerHeartbeatResponse(ErrorCode.NONE, "", "m", 4, 100, {}),
        ConsumerHeartbeatResponse(ErrorCode.NONE, "", "m", 4, 100),
    ]

    some, nothing, unchanged = (broker.ask(68, 1, **JOIN) for _ in range(3))

    assert (some["error_code"], some["member_epoch"], some["heartbeat_interval_ms"]) == (0, 4, 100)
    assert some["assignment"]["topic_partitions"] == [{"topic_id": TOPIC_ID, "partitions": [0, 1]}]
    assert nothing["assignment"] == {"topic_partitions": []}
    assert unchanged["assignment"] is None


def test_a_refused_member_gets_an_error_message() -> None:
    broker = FakeBroker()
    broker.groups.answers = [
        ConsumerHeartbeatResponse(ErrorCode.FENCED_MEMBER_EPOCH, "join again"),
        ConsumerHeartbeatResponse(ErrorCode.UNKNOWN_MEMBER_ID),
    ]

    fenced, unknown = (broker.ask(68, 1, **JOIN) for _ in range(2))

    assert (fenced["error_code"], fenced["error_message"]) == (110, "join again")
    assert unknown["error_code"] == 25
    assert unknown["error_message"]


def test_a_group_description_omits_deleted_topics() -> None:
    broker = FakeBroker()
    current = CurrentAssignment(3, 2, MemberState.STABLE, {TOPIC_ID: (0,), GONE_ID: (1,)})
    consumer = ConsumerMember("m", "i", "r", "c", "h", ("t",), "t.*")
    classic = ConsumerMember("n", classic=ClassicMetadata(1, ()))
    broker.groups.answers = [
        ConsumerGroupDescription(
            ErrorCode.NONE,
            "g",
            "",
            "Stable",
            3,
            2,
            "range",
            (
                DescribedConsumerMember(consumer, current, {TOPIC_ID: (0, 1)}),
                DescribedConsumerMember(classic, CurrentAssignment(), {}),
            ),
            {TOPIC_ID: "t"},
        )
    ]

    group = only(broker.ask(69, 1, group_ids=["g"])["groups"])

    assert (group["group_state"], group["group_epoch"], group["assignment_epoch"]) == (
        "Stable",
        3,
        2,
    )
    first, second = group["members"]
    assert first["assignment"]["topic_partitions"] == [
        {"topic_id": TOPIC_ID, "topic_name": "t", "partitions": [0]}
    ]
    assert first["target_assignment"]["topic_partitions"][0]["partitions"] == [0, 1]
    assert (first["member_type"], second["member_type"]) == (1, 0)
    assert first["subscribed_topic_regex"] == "t.*"


def test_each_group_is_described_once_with_its_own_error() -> None:
    broker = FakeBroker()
    broker.groups.answers = [
        ConsumerGroupDescription(ErrorCode.GROUP_ID_NOT_FOUND, "b", "it is classic"),
        ConsumerGroupDescription(ErrorCode.NONE, "a"),
    ]

    groups = broker.ask(69, 0, group_ids=["b", "a", "b"])["groups"]

    assert [(each["group_id"], each["error_code"]) for each in groups] == [("b", 69), ("a", 0)]


@pytest.mark.parametrize(("is_asked", "bits"), [(False, -(1 << 31)), (True, 0b110101001000)])
def test_authorized_operations_are_returned_on_request(is_asked: bool, bits: int) -> None:
    broker = FakeBroker()

    answer = broker.ask(69, 0, group_ids=["g"], include_authorized_operations=is_asked)

    assert only(answer["groups"])["authorized_operations"] == bits


def test_other_tasks_run_while_many_groups_are_described() -> None:
    wanted = [f"g{number}" for number in range(3 * GROUPS_ASKED_PER_TURN)]

    assert FakeBroker().turns(69, 1, group_ids=wanted) > len(wanted)
