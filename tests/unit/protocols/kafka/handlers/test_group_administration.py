"""DescribeGroups, ListGroups, DeleteGroups, OffsetDelete: from fields to commands and back.

What a group decides is in tests/scenarios/group_administration.txt.
"""

from typing import Any

import pytest

from broker.core.groups.commands.classic import DescribedMember, GroupDescription, GroupState
from broker.core.groups.commands.listing import GroupListing, ListGroupsResponse
from broker.core.groups.commands.offsets import DeleteOffsetsResponse
from broker.model.errors import ErrorCode
from tests.support.fakes import FakeBroker, LeadsNothing, only

DESCRIBE, LIST, DELETE, DELETE_OFFSETS = 15, 16, 42, 47
MEMBER = DescribedMember("m", "i", "client", "/127.0.0.1", b"\x01", b"\x02")
STABLE = GroupDescription(ErrorCode.NONE, "g", GroupState.STABLE, "consumer", "range", (MEMBER,))
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
NOT_ASKED = -(1 << 31)


# ---- DescribeGroups ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_with_its_members(version: int) -> None:
    broker = FakeBroker()
    broker.groups.answers = [STABLE]

    group = only(broker.ask(DESCRIBE, version, groups=["g"])["groups"])

    assert (group["error_code"], group["group_state"]) == (0, "Stable")
    assert (group["protocol_type"], group["protocol_data"]) == ("consumer", "range")
    member = only(group["members"])
    assert (member["member_id"], member["client_id"]) == ("m", "client")
    assert (member["member_metadata"], member["member_assignment"]) == (b"\x01", b"\x02")
    if version >= 4:
        assert member["group_instance_id"] == "i"


@pytest.mark.parametrize(("version", "code"), [(0, 0), (5, 0), (6, 69)])
def test_an_unknown_group_is_dead_and_since_version_6_not_found(version: int, code: int) -> None:
    group = only(FakeBroker().ask(DESCRIBE, version, groups=["g"])["groups"])

    assert (group["error_code"], group["group_state"], group["members"]) == (code, "Dead", [])
    assert (group.get("error_message") or "").startswith("Group g" if version >= 6 else "")


def test_every_requested_group_is_answered_once_in_the_order_of_the_request() -> None:
    groups = FakeBroker().ask(DESCRIBE, 5, groups=["b", "a", "b"])["groups"]

    assert [group["group_id"] for group in groups] == ["b", "a"]


@pytest.mark.parametrize(
    ("description", "is_asked", "operations"),
    [
        (STABLE, True, ALL_OPERATIONS),
        (STABLE, False, NOT_ASKED),
        (GroupDescription(ErrorCode.NONE, "g"), True, NOT_ASKED),
        (GroupDescription(ErrorCode.NOT_COORDINATOR, "g"), True, NOT_ASKED),
    ],
)
def test_authorized_operations_of_a_known_group_are_returned_on_request(
    description: GroupDescription, is_asked: bool, operations: int
) -> None:
    broker = FakeBroker()
    broker.groups.answers = [description]

    answer = broker.ask(DESCRIBE, 5, groups=["g"], include_authorized_operations=is_asked)

    assert only(answer["groups"])["authorized_operations"] == operations


def test_a_loading_group_has_no_state() -> None:
    broker = FakeBroker()
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.groups.answers = [GroupDescription(loading, "g")]

    group = only(broker.ask(DESCRIBE, 6, groups=["g"])["groups"])

    assert (group["error_code"], group["group_state"], group["error_message"]) == (14, "", None)


# ---- ListGroups ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_the_groups_of_all_partitions_are_listed(version: int) -> None:
    broker = FakeBroker()
    broker.groups.answers = [
        ListGroupsResponse(ErrorCode.NONE, (GroupListing("a", "consumer", "Stable", "classic"),)),
        ListGroupsResponse(ErrorCode.NONE, (GroupListing("b", "connect", "Empty", "classic"),)),
    ]

    answer = broker.ask(LIST, version)

    assert answer["error_code"] == 0
    assert [each["group_id"] for each in answer["groups"]] == ["a", "b"]
    assert [each["protocol_type"] for each in answer["groups"]] == ["consumer", "connect"]
    if version >= 4:
        assert [each["group_state"] for each in answer["groups"]] == ["Stable", "Empty"]
    if version >= 5:
        assert [each["group_type"] for each in answer["groups"]] == ["classic", "classic"]


def test_filters_ignore_case() -> None:
    broker = FakeBroker()

    broker.ask(LIST, 5, states_filter=["Stable", "EMPTY"], types_filter=["Classic"])

    _, request = only(broker.groups.commands)
    assert request.states == {"stable", "empty"}
    assert request.types == {"classic"}


def test_an_incomplete_list_is_an_error() -> None:
    broker = FakeBroker()
    broker.groups.answers = [
        ListGroupsResponse(ErrorCode.NONE, (GroupListing("a", "consumer", "Stable", "classic"),)),
        ListGroupsResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ]

    answer = broker.ask(LIST, 4)

    assert (answer["error_code"], answer["groups"]) == (14, [])


# ---- DeleteGroups --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_each_group_is_deleted_separately_and_answered_once(version: int) -> None:
    broker = FakeBroker()
    broker.groups.answers = [ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP]

    answer = broker.ask(DELETE, version, groups_names=["b", "a", "b"])

    results = [(each["group_id"], each["error_code"]) for each in answer["results"]]
    assert results == [("b", 0), ("a", 68)]


# ---- OffsetDelete --------------------------------------------------------------------------------


def delete_offsets(broker: FakeBroker, *topics: tuple[str, list[int]]) -> Any:
    wanted = [
        {"name": name, "partitions": [{"partition_index": each} for each in partitions]}
        for name, partitions in topics
    ]
    return broker.ask(DELETE_OFFSETS, 0, group_id="g", topics=wanted)


def test_offsets_of_unknown_partitions_are_not_deleted() -> None:
    broker = FakeBroker()
    broker.create("t", 2)

    answer = delete_offsets(broker, ("t", [1, 2]), ("u", [0]), ("../bad", [0]), ("t", [0]))

    request = only(broker.groups.commands)
    assert {name: set(each) for name, each in request.topics.items() if each} == {"t": {0, 1}}
    codes = {
        (topic["name"], each["partition_index"]): each["error_code"]
        for topic in answer["topics"]
        for each in topic["partitions"]
    }
    assert codes == {("t", 0): 0, ("t", 1): 0, ("t", 2): 3, ("u", 0): 3, ("../bad", 0): 3}
    assert [topic["name"] for topic in answer["topics"]] == ["t", "u", "../bad"]


def test_offsets_are_deleted_whoever_leads_the_partition() -> None:
    broker = FakeBroker(leadership=LeadsNothing())
    broker.create("t", 1)

    answer = delete_offsets(broker, ("t", [0, 1]))

    codes = [each["error_code"] for each in only(answer["topics"])["partitions"]]
    assert codes == [0, 3]


def test_a_topic_with_a_subscribed_member_keeps_its_offsets() -> None:
    broker = FakeBroker()
    broker.create("t", 1)
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    broker.groups.answers = [DeleteOffsetsResponse(ErrorCode.NONE, {"t": subscribed})]

    answer = delete_offsets(broker, ("t", [0, 1]))

    codes = [each["error_code"] for each in only(answer["topics"])["partitions"]]
    assert (answer["error_code"], codes) == (0, [86, 3])


@pytest.mark.parametrize(
    ("error", "code"), [(ErrorCode.GROUP_ID_NOT_FOUND, 69), (ErrorCode.NON_EMPTY_GROUP, 68)]
)
def test_an_error_of_the_group_is_the_error_of_the_offset_delete_response(
    error: ErrorCode, code: int
) -> None:
    broker = FakeBroker()
    broker.create("t", 1)
    broker.groups.answers = [DeleteOffsetsResponse(error)]

    answer = delete_offsets(broker, ("t", [0]))

    assert (answer["error_code"], answer["topics"]) == (code, [])
