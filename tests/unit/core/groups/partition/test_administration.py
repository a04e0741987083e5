"""Work over many groups is done in small steps; its rules are in tests/scenarios."""

from broker.core.coordination.machine import Moment
from broker.core.groups.commands.classic import HeartbeatRequest
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.commands.listing import ListGroupsRequest, ListGroupsResponse
from broker.core.groups.commands.offsets import DeleteOffsetsRequest, DeleteOffsetsResponse
from broker.core.groups.partition.shard import GroupShard
from broker.core.groups.records.classic import GroupImage, GroupRecord, Member
from broker.core.groups.records.offsets import CommittedOffset, OffsetRecord
from broker.core.groups.settings import GroupSettings
from broker.model.errors import ErrorCode
from broker.model.limits import GROUPS_LISTED_PER_STEP, REMOVALS_PER_STEP
from tests.support.fakes import FakeTopics

MEMBERS = {"m": Member("m", None, "c", "", 60_000, 10_000)}
LATER = Moment(1 << 40, 1 << 40)


def shard_of(offsets: int, *, groups: int = 1, producer_id: int | None = None) -> GroupShard:
    """Return a shard of groups that have only offsets."""
    shard = GroupShard(GroupSettings(), topics=FakeTopics())
    for group in range(groups):
        for partition in range(offsets):
            record = OffsetRecord(f"g{group}", "t", partition, CommittedOffset(1, -1, "", 0))
            if producer_id is None:
                shard.replay(record)
            else:
                shard.replay_pending(producer_id, record)
    return shard


def have_effect(shard: GroupShard, decision: GroupDecision) -> GroupDecision:
    for record in decision.records:
        shard.replay(record)
    return decision


def test_a_group_with_many_offsets_is_deleted_in_steps_and_answered_after_the_last() -> None:
    shard = shard_of(2 * REMOVALS_PER_STEP + 1)

    steps = [have_effect(shard, each) for each in shard.administration.delete_group("g0", "asks")]

    assert [len(each.records) for each in steps] == [REMOVALS_PER_STEP, REMOVALS_PER_STEP, 1]
    assert [each.replies for each in steps] == [[], [], [("asks", ErrorCode.NONE)]]
    assert shard.groups == {}


def test_a_group_joined_during_its_deletion_is_not_deleted() -> None:
    shard = shard_of(REMOVALS_PER_STEP + 1)
    steps = shard.administration.delete_group("g0", "asks")
    have_effect(shard, next(steps))

    shard.replay(GroupRecord("g0", GroupImage(1, "consumer", "range", "m", 1, MEMBERS)))
    last = next(steps)

    assert last.replies == [("asks", ErrorCode.NON_EMPTY_GROUP)]
    assert last.records == []


def test_deleting_a_group_deletes_its_pending_offsets() -> None:
    shard = shard_of(1, producer_id=7)

    for step in shard.administration.delete_group("g0", "asks"):
        have_effect(shard, step)
    shard.end_transaction(7, is_committed=True)

    assert shard.offsets.of_group("g0") == {}


def test_pending_transactional_offsets_do_not_expire() -> None:
    shard = shard_of(1)
    shard.replay_pending(7, OffsetRecord("g0", "t", 0, CommittedOffset(2, -1, "", 0)))

    steps = [have_effect(shard, each) for each in shard.expire(LATER)]

    assert all(each.records == [] for each in steps)


def test_listing_examines_few_groups_per_step() -> None:
    shard = shard_of(1, groups=2 * GROUPS_LISTED_PER_STEP + 1)

    *steps, last = shard.administration.list_groups(ListGroupsRequest(), "asks")

    assert len(steps) == 2
    [(_, response)] = last.replies
    assert isinstance(response, ListGroupsResponse)
    assert len(response.groups) == 2 * GROUPS_LISTED_PER_STEP + 1


def test_expiry_examines_few_offsets_per_step() -> None:
    shard = shard_of(REMOVALS_PER_STEP + 1, groups=2)

    steps = [have_effect(shard, each) for each in shard.expire(LATER)]

    assert max(len(each.records) for each in steps) == REMOVALS_PER_STEP
    assert [note for each in steps for note in each.notes] == [
        f"group offsets expired group=g{group} offsets={REMOVALS_PER_STEP + 1}"
        " reason=older than their retention, and no member is subscribed to them"
        for group in range(2)
    ]
    assert shard.groups == {}


def test_offsets_of_a_deleted_topic_with_many_partitions_are_removed_in_steps() -> None:
    shard = shard_of(REMOVALS_PER_STEP + 1)

    steps = [have_effect(shard, each) for each in shard.administration.forget_topic("t", 0)]

    assert [len(each.records) for each in steps] == [REMOVALS_PER_STEP, 1]


def test_offsets_of_a_deleted_topic_are_removed_from_many_groups_per_step() -> None:
    shard = shard_of(1, groups=REMOVALS_PER_STEP)

    steps = [have_effect(shard, each) for each in shard.administration.forget_topic("t", 0)]

    assert len(steps) == 2
    assert shard.groups == {}


def test_many_offsets_are_deleted_in_steps_and_answered_after_the_last() -> None:
    shard = shard_of(3 * REMOVALS_PER_STEP)
    request = DeleteOffsetsRequest("g0", {"t": tuple(range(2 * REMOVALS_PER_STEP)), "u": (0,)})

    steps = [
        have_effect(shard, each) for each in shard.administration.delete_offsets(request, "asks")
    ]

    assert [len(each.records) for each in steps] == [REMOVALS_PER_STEP, REMOVALS_PER_STEP, 0]
    assert [reply for each in steps for reply in each.replies] == [
        (
            "asks",
            DeleteOffsetsResponse(ErrorCode.NONE, {"t": ErrorCode.NONE, "u": ErrorCode.NONE}),
        )
    ]


def test_offsets_of_a_topic_subscribed_to_during_the_deletion_are_not_deleted() -> None:
    shard = shard_of(2 * REMOVALS_PER_STEP)
    request = DeleteOffsetsRequest("g0", {"t": tuple(range(2 * REMOVALS_PER_STEP))})
    steps = shard.administration.delete_offsets(request, "asks")
    have_effect(shard, next(steps))

    shard.replay(GroupRecord("g0", GroupImage(1, "consumer", "range", "m", 1, MEMBERS)))
    [last] = steps

    subscribed = {"t": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    assert last.replies == [("asks", DeleteOffsetsResponse(ErrorCode.NONE, subscribed))]
    assert len(shard.offsets.of_group("g0")["t"]) == REMOVALS_PER_STEP


def test_after_a_load_sessions_start_one_group_per_step_or_on_the_first_request() -> None:
    shard = GroupShard(GroupSettings(), topics=FakeTopics())
    for name in ("g", "h"):
        shard.replay(GroupRecord(name, GroupImage(1, "consumer", "range", "m", 1, MEMBERS)))

    steps = shard.resume(Moment(0, 0))
    answer = shard.heartbeat(HeartbeatRequest("h", "m", None, 1), "asks", Moment(500, 500))
    count = sum(1 for _ in steps)

    assert answer.replies == [("asks", ErrorCode.NONE)]
    assert count == 2
    assert shard.groups["g"].next_deadline_ms() == 10_000
    assert shard.groups["h"].next_deadline_ms() == 10_500
