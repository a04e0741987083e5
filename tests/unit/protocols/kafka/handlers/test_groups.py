"""FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup: from fields to commands and back.

What a group decides is tested with its state machine.
"""

from typing import Any

import pytest

from broker.core.groups.commands.classic import (
    GroupProtocol,
    HeartbeatRequest,
    JoinedMember,
    JoinResponse,
    LeaveResponse,
    LeavingMember,
    SyncResponse,
)
from broker.core.topics.topic import OFFSETS_TOPIC
from broker.model.errors import ErrorCode
from tests.support.fakes import FakeBroker, only


@pytest.mark.parametrize("version", range(4))
def test_the_coordinator_of_a_group_is_this_broker(version: int) -> None:
    answer = FakeBroker().ask(10, version, key="g")

    assert (answer["error_code"], answer["node_id"]) == (0, 1)
    assert (answer["host"], answer["port"]) == ("broker.example", 9092)


@pytest.mark.parametrize("version", range(4, 7))
def test_several_coordinators_are_returned_in_the_order_of_the_request(version: int) -> None:
    answer = FakeBroker().ask(10, version, coordinator_keys=["b", "a", "b"])

    assert [each["key"] for each in answer["coordinators"]] == ["b", "a"]
    assert [each["node_id"] for each in answer["coordinators"]] == [1, 1]


def test_finding_a_coordinator_creates_the_offsets_topic() -> None:
    broker = FakeBroker({"offsets.topic.num.partitions": "7", "polylog.durability": "os"})

    broker.ask(10, 0, key="g")

    topic = broker.topics.get(OFFSETS_TOPIC)
    assert topic is not None
    assert len(topic.logs) == 7
    assert topic.config.text("polylog.durability") == "group-commit"
    assert topic.config.words("cleanup.policy") == ("compact",)


def test_an_offsets_topic_that_cannot_be_created_is_coordinator_not_available() -> None:
    broker = FakeBroker()
    broker.broken_partition = 0

    answer = broker.ask(10, 4, coordinator_keys=["g"])

    assert only(answer["coordinators"])["error_code"] == 15


def test_this_broker_coordinates_every_transactional_id() -> None:
    broker = FakeBroker()

    old = broker.ask(10, 2, key="t", key_type=1)
    new = only(broker.ask(10, 4, coordinator_keys=["t"], key_type=1)["coordinators"])

    for answer in (old, new):
        assert (answer["error_code"], answer["port"]) == (0, 9092)
    assert broker.topics.get("__transaction_state") is not None


@pytest.mark.parametrize("key_type", [2, 3, -1])
def test_an_unknown_coordinator_type_is_an_invalid_request(key_type: int) -> None:
    answer = FakeBroker().ask(10, 6, coordinator_keys=["x"], key_type=key_type)

    assert only(answer["coordinators"])["error_code"] == 42


JOIN: dict[str, Any] = {
    "group_id": "g",
    "session_timeout_ms": 10_000,
    "member_id": "m",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"\x01"}],
}


def test_a_join_before_version_1_uses_the_session_timeout_as_rebalance_timeout() -> None:
    broker = FakeBroker()

    broker.ask(11, 0, **JOIN)
    broker.ask(11, 1, **JOIN, rebalance_timeout_ms=20_000)

    assert [each.rebalance_timeout_ms for each in broker.groups.commands] == [10_000, 20_000]


@pytest.mark.parametrize("version", range(10))
def test_a_join_passes_on_the_capabilities_of_its_version(version: int) -> None:
    broker = FakeBroker()

    broker.ask(11, version, **JOIN, client_id="c")

    command = only(broker.groups.commands)
    assert command.protocols == (GroupProtocol("range", b"\x01"),)
    assert (command.client_id, command.client_host) == ("c", "/127.0.0.1")
    assert command.requires_member_id == (version >= 4)
    assert command.supports_skip_assignment == (version >= 9)


def test_a_join_carries_the_static_members_instance_id() -> None:
    broker = FakeBroker()

    broker.ask(11, 5, **JOIN, group_instance_id="i", client_id=None)

    assert only(broker.groups.commands).instance_id == "i"
    assert only(broker.groups.commands).client_id == ""


def test_the_leader_gets_the_members() -> None:
    broker = FakeBroker()
    joined = JoinResponse(
        ErrorCode.NONE,
        "m",
        3,
        "consumer",
        "range",
        "m",
        (JoinedMember("m", "i", b"\x01"),),
        skip_assignment=True,
    )
    broker.groups.answers = [joined]

    answer = broker.ask(11, 9, **JOIN)

    assert (answer["generation_id"], answer["leader"], answer["protocol_name"]) == (3, "m", "range")
    assert answer["members"] == [{"member_id": "m", "group_instance_id": "i", "metadata": b"\x01"}]
    assert answer["skip_assignment"]


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_missing_protocol_is_null_since_version_7_and_empty_before(
    version: int, name: str | None
) -> None:
    broker = FakeBroker()
    broker.groups.answers = [JoinResponse(ErrorCode.UNKNOWN_MEMBER_ID)]

    answer = broker.ask(11, version, **JOIN)

    assert (answer["error_code"], answer["protocol_name"]) == (25, name)


def test_a_sync_carries_the_leaders_assignments() -> None:
    broker = FakeBroker()
    broker.groups.answers = [SyncResponse(ErrorCode.NONE, b"\x02", "consumer", "range")]

    answer = broker.ask(
        14,
        5,
        group_id="g",
        generation_id=3,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": "m", "assignment": b"\x02"}],
    )

    command = only(broker.groups.commands)
    assert (command.generation, command.assignments) == (3, {"m": b"\x02"})
    assert (answer["assignment"], answer["protocol_name"]) == (b"\x02", "range")


def test_a_sync_since_version_5_must_name_its_protocol() -> None:
    broker = FakeBroker()

    assert broker.ask(14, 5, group_id="g", protocol_type="consumer")["error_code"] == 23
    assert broker.ask(14, 4, group_id="g")["error_code"] == 0


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_returns_the_error_of_the_group(version: int) -> None:
    broker = FakeBroker()
    broker.groups.answers = [ErrorCode.REBALANCE_IN_PROGRESS]

    answer = broker.ask(12, version, group_id="g", generation_id=3, member_id="m")

    assert answer["error_code"] == 27
    assert only(broker.groups.commands) == HeartbeatRequest("g", "m", None, 3)


@pytest.mark.parametrize("version", [0, 2])
def test_the_error_of_a_single_leaving_member_is_the_error_of_the_response(version: int) -> None:
    broker = FakeBroker()
    left = LeaveResponse(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,))
    broker.groups.answers = [left]

    answer = broker.ask(13, version, group_id="g", member_id="m")

    assert answer["error_code"] == 25
    assert only(broker.groups.commands).members == (LeavingMember("m"),)


@pytest.mark.parametrize("version", [3, 5])
def test_members_that_leave_together_have_separate_errors(version: int) -> None:
    broker = FakeBroker()
    left = LeaveResponse(ErrorCode.NONE, (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID))
    broker.groups.answers = [left]
    members = [{"member_id": "m"}, {"member_id": "", "group_instance_id": "i"}]

    answer = broker.ask(13, version, group_id="g", members=members)

    assert answer["error_code"] == 0
    assert [each["error_code"] for each in answer["members"]] == [0, 25]
    assert [each["group_instance_id"] for each in answer["members"]] == [None, "i"]


def test_a_group_error_of_a_leave_is_the_error_of_the_response() -> None:
    broker = FakeBroker()
    broker.groups.answers = [LeaveResponse(ErrorCode.NOT_COORDINATOR)]

    answer = broker.ask(13, 5, group_id="g", members=[{"member_id": "m"}])

    assert (answer["error_code"], answer["members"]) == (16, [])


@pytest.mark.parametrize(("version", "reason"), [(7, ""), (8, "rebalance enforced")])
def test_a_join_has_a_reason_since_version_8(version: int, reason: str) -> None:
    """KIP-800."""
    broker = FakeBroker()

    broker.ask(11, version, **JOIN, **({"reason": reason} if reason else {}))

    assert only(broker.groups.commands).reason == reason


@pytest.mark.parametrize(("version", "reason"), [(4, ""), (5, "closed")])
def test_a_leave_has_a_reason_since_version_5(version: int, reason: str) -> None:
    """KIP-800."""
    broker = FakeBroker()
    member = {"member_id": "m", **({"reason": reason} if reason else {})}

    broker.ask(13, version, group_id="g", members=[member])

    assert only(only(broker.groups.commands).members).reason == reason
