"""OffsetCommit and OffsetFetch (KIP-211, KIP-709)."""

from typing import Any

import pytest

from broker.core.groups.commands.offsets import CommitResponse, FetchOffsetsResponse, OffsetToCommit
from broker.core.groups.records.offsets import CommittedOffset
from broker.model.errors import ErrorCode
from broker.model.limits import OFFSETS_COMMITTED_PER_STEP, PARTITIONS_ANSWERED_PER_STEP
from tests.support.fakes import FakeBroker, LeadsNothing, only


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create("a", 2)
    return broker


def at(partition: int, offset: int = 5, **more: Any) -> dict[str, Any]:
    return {"partition_index": partition, "committed_offset": offset, **more}


def codes(answer: dict[str, Any]) -> list[int]:
    return [each["error_code"] for topic in answer["topics"] for each in topic["partitions"]]


@pytest.mark.parametrize("version", range(10))
def test_a_commit_becomes_one_command(broker: FakeBroker, version: int) -> None:
    topics = [{"name": "a", "partitions": [at(0, 5, committed_metadata="x"), at(1, 6)]}]

    answer = broker.ask(8, version, group_id="g", topics=topics)

    command = only(broker.groups.commands)
    assert command.group_id == "g"
    assert command.generation == -1
    assert command.offsets == (
        OffsetToCommit("a", 0, 5, -1, "x"),
        OffsetToCommit("a", 1, 6, -1, ""),
    )
    assert codes(answer) == [0, 0]


def test_a_members_commit_names_it_and_its_generation(broker: FakeBroker) -> None:
    topics = [{"name": "a", "partitions": [at(0, 5, committed_leader_epoch=3)]}]

    broker.ask(
        8,
        9,
        group_id="g",
        generation_id_or_member_epoch=7,
        member_id="m",
        group_instance_id="i",
        topics=topics,
    )

    command = only(broker.groups.commands)
    assert (command.generation, command.member_id, command.instance_id) == (7, "m", "i")
    assert only(command.offsets).leader_epoch == 3


def test_unknown_partitions_have_separate_errors_and_the_others_are_committed(
    broker: FakeBroker,
) -> None:
    broker.groups.answers = [CommitResponse((ErrorCode.OFFSET_METADATA_TOO_LARGE,))]
    topics = [
        {"name": "b", "partitions": [at(0)]},
        {"name": "a", "partitions": [at(2), at(1)]},
    ]

    answer = broker.ask(8, 8, group_id="g", topics=topics)

    assert [topic["name"] for topic in answer["topics"]] == ["b", "a"]
    assert codes(answer) == [3, 3, 12]
    assert [each.partition for each in only(broker.groups.commands).offsets] == [1]


def test_a_commit_of_unknown_partitions_only_is_not_passed_to_the_group(broker: FakeBroker) -> None:
    topics = [{"name": "b", "partitions": [at(0)]}]

    assert codes(broker.ask(8, 8, group_id="g", topics=topics)) == [3]
    assert broker.groups.commands == []


def test_many_offsets_are_committed_in_parts_with_separate_errors() -> None:
    broker = FakeBroker()
    count = 2 * OFFSETS_COMMITTED_PER_STEP + PARTITIONS_ANSWERED_PER_STEP
    broker.create("many", count)
    refusals = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    sizes = (OFFSETS_COMMITTED_PER_STEP, OFFSETS_COMMITTED_PER_STEP)
    broker.groups.answers = [
        CommitResponse((code,) * size) for code, size in zip(refusals, sizes, strict=True)
    ]
    wanted = [{"partition_index": each, "committed_offset": each} for each in range(count)]

    answer = broker.ask(8, 8, group_id="g", topics=[{"name": "many", "partitions": wanted}])

    committed = [each for command in broker.groups.commands for each in command.offsets]
    assert [each.offset for each in committed] == list(range(count))
    assert {command.group_id for command in broker.groups.commands} == {"g"}
    assert max(len(each.offsets) for each in broker.groups.commands) == OFFSETS_COMMITTED_PER_STEP
    codes = [each["error_code"] for each in only(answer["topics"])["partitions"]]
    refused = range(OFFSETS_COMMITTED_PER_STEP, 2 * OFFSETS_COMMITTED_PER_STEP)
    assert codes == [27 if place in refused else 0 for place in range(count)]


def test_version_10_commits_by_topic_id(broker: FakeBroker) -> None:
    topic = broker.topics.get("a")
    assert topic is not None
    topics = [
        {"topic_id": topic.topic_id, "partitions": [at(0)]},
        {"topic_id": bytes(range(16)), "partitions": [at(0)]},
    ]

    answer = broker.ask(8, 10, group_id="g", topics=topics)

    assert [each["topic_id"] for each in answer["topics"]] == [topic.topic_id, bytes(range(16))]
    assert codes(answer) == [0, 100]
    assert only(only(broker.groups.commands).offsets).topic == "a"


def committed(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, 2, "x", 0)


def test_a_partition_without_a_commit_has_offset_minus_1_and_no_error(broker: FakeBroker) -> None:
    """Librdkafka takes any error here for a failure of the whole group."""
    topics = [{"name": "a", "partition_indexes": [1, 0]}]
    broker.groups.answers = [
        FetchOffsetsResponse(ErrorCode.NONE, {"a": {0: committed(5), 1: None}})
    ]

    answer = broker.ask(9, 7, group_id="g", topics=topics)

    empty, found = only(answer["topics"])["partitions"]
    assert (empty["partition_index"], empty["committed_offset"], empty["metadata"]) == (1, -1, "")
    assert (empty["committed_leader_epoch"], empty["error_code"]) == (-1, 0)
    assert (found["committed_offset"], found["committed_leader_epoch"]) == (5, 2)
    assert found["metadata"] == "x"


@pytest.mark.parametrize("version", range(8))
def test_topics_are_requested_by_name(broker: FakeBroker, version: int) -> None:
    topics = [{"name": "a", "partition_indexes": [0]}, {"name": "b", "partition_indexes": [3]}]

    answer = broker.ask(9, version, group_id="g", topics=topics)

    assert only(broker.groups.commands).topics == {"a": (0,), "b": (3,)}
    assert [topic["name"] for topic in answer["topics"]] == ["a", "b"]
    assert codes(answer) == [0, 0]


@pytest.mark.parametrize("version", [2, 7])
def test_null_topics_mean_all_of_the_group(broker: FakeBroker, version: int) -> None:
    broker.groups.answers = [FetchOffsetsResponse(ErrorCode.NONE, {"a": {0: committed(5)}})]

    answer = broker.ask(9, version, group_id="g", topics=None)

    assert only(broker.groups.commands).topics is None
    assert only(only(answer["topics"])["partitions"])["committed_offset"] == 5


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups_are_returned_in_the_order_of_the_request(
    broker: FakeBroker, version: int
) -> None:
    topics = [{"name": "a", "partition_indexes": [0]}]
    groups = [{"group_id": "h", "topics": topics}, {"group_id": "g", "topics": None}]

    answer = broker.ask(9, version, groups=groups)

    assert [each["group_id"] for each in answer["groups"]] == ["h", "g"]
    assert [len(each["topics"]) for each in answer["groups"]] == [1, 0]


@pytest.mark.parametrize("topics", [None, [{"name": "a", "partition_indexes": [0]}]])
@pytest.mark.parametrize("version", range(2, 8))
def test_a_group_with_an_error_has_no_topics(broker: FakeBroker, version: int, topics: Any) -> None:
    broker.groups.answers = [FetchOffsetsResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]

    answer = broker.ask(9, version, group_id="g", topics=topics)

    assert (answer["error_code"], answer["topics"]) == (14, [])


@pytest.mark.parametrize("version", [8, 9, 10])
def test_one_of_several_groups_with_an_error_has_no_topics(
    broker: FakeBroker, version: int
) -> None:
    broker.groups.answers = [FetchOffsetsResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    groups = [{"group_id": "g", "topics": [{"name": "a", "partition_indexes": [0]}]}]

    group = only(broker.ask(9, version, groups=groups)["groups"])

    assert (group["error_code"], group["topics"]) == (14, [])


@pytest.mark.parametrize("version", [0, 1])
def test_an_error_of_the_group_is_repeated_per_partition_before_version_2(
    broker: FakeBroker, version: int
) -> None:
    broker.groups.answers = [FetchOffsetsResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    topics = [{"name": "a", "partition_indexes": [0]}]

    answer = broker.ask(9, version, group_id="g", topics=topics)

    assert codes(answer) == [14]


def test_version_10_fetches_by_topic_id(broker: FakeBroker) -> None:
    topic = broker.topics.get("a")
    assert topic is not None
    broker.groups.answers = [FetchOffsetsResponse(ErrorCode.NONE, {"a": {0: committed(5)}})]
    topics = [
        {"topic_id": topic.topic_id, "partition_indexes": [0]},
        {"topic_id": bytes(range(16)), "partition_indexes": [0]},
    ]

    group = only(broker.ask(9, 10, groups=[{"group_id": "g", "topics": topics}])["groups"])

    assert [each["topic_id"] for each in group["topics"]] == [topic.topic_id, bytes(range(16))]
    assert codes(group) == [0, 100]
    assert only(broker.groups.commands).topics == {"a": (0,)}


def test_an_offset_is_committed_even_while_the_partition_is_loading() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.log("a").is_loading = True

    partitions = [{"partition_index": 0, "committed_offset": 5}]
    answer = broker.ask(8, 2, group_id="g", topics=[{"name": "a", "partitions": partitions}])

    assert only(only(answer["topics"])["partitions"])["error_code"] == 0


def test_an_offset_is_committed_whoever_leads_the_partition() -> None:
    broker = FakeBroker(leadership=LeadsNothing())
    broker.create("a")

    answer = broker.ask(8, 2, group_id="g", topics=[{"name": "a", "partitions": [at(0), at(1)]}])

    assert codes(answer) == [0, 3]
    assert [each.partition for each in only(broker.groups.commands).offsets] == [0]


@pytest.mark.parametrize(
    ("version", "asked", "retention_ms"),
    [(2, 1_000, 1_000), (4, -2, -2), (4, -1, None), (1, None, None), (5, None, None)],
)
def test_a_retention_time_is_applied_in_versions_that_have_one(
    broker: FakeBroker, version: int, asked: int | None, retention_ms: int | None
) -> None:
    more: dict[str, Any] = {} if asked is None else {"retention_time_ms": asked}

    broker.ask(8, version, group_id="g", topics=[{"name": "a", "partitions": [at(0)]}], **more)

    assert only(broker.groups.commands).retention_ms == retention_ms


@pytest.mark.parametrize("version", range(7, 10))
def test_a_partition_with_a_pending_transactional_offset_is_unstable(
    broker: FakeBroker, version: int
) -> None:
    """KIP-447."""
    committed = CommittedOffset(5, 3, "x", 0)
    broker.groups.answers = [
        FetchOffsetsResponse(
            ErrorCode.NONE, {"a": {0: committed, 1: committed}}, frozenset({("a", 1)})
        )
    ]
    group = {"group_id": "g", "topics": [{"name": "a", "partition_indexes": [0, 1]}]}
    fields = group if version < 8 else {"groups": [group]}

    answer = broker.ask(9, version, require_stable=True, **fields)

    stable, unstable = only((answer if version < 8 else only(answer["groups"]))["topics"])[
        "partitions"
    ]
    assert (stable["committed_offset"], stable["error_code"]) == (5, 0)
    assert (unstable["committed_offset"], unstable["error_code"]) == (-1, 88)
    assert (unstable["committed_leader_epoch"], unstable["metadata"]) == (-1, "")
    assert only(broker.groups.commands).requires_stable


def test_without_require_stable_the_committed_offsets_are_returned(broker: FakeBroker) -> None:
    broker.ask(9, 7, group_id="g", topics=None)

    assert not only(broker.groups.commands).requires_stable
