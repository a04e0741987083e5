"""Assigned groups behind the coordinator's face, over its log."""

import asyncio
from collections.abc import Iterator

import pytest

from broker.codec.control_records import Marker
from broker.core import coordinator_load
from broker.core.coordinator import Callback
from broker.core.coordinator_partitions import Environment
from broker.core.groups.assigned.commands import (
    AssignedCall,
    AssignedCommit,
    AssignedCommits,
    AssignedError,
    AssignedJoin,
    AssignedProtocol,
    AssignedResponse,
)
from broker.core.groups.assigned.images import AssignedImage, AssignedMember
from broker.core.groups.commands import (
    CommitRequest,
    FetchOffsetsRequest,
    GroupProtocol,
    GroupSettings,
    JoinRequest,
    ListGroupsRequest,
    OffsetToCommit,
)
from broker.core.groups.coordinator import GroupCoordinator
from broker.model.clock import ManualClock
from broker.model.errors import ErrorCode
from tests.memory_log import MemoryLog

PRODUCER = 7
CALL = AssignedCall(AssignedProtocol.V1, "g", "t", "a", 2, 3)


PROTOCOLS = (GroupProtocol("range", b""),)
KAFKA_JOIN = JoinRequest("g", "", None, "c", "", 10_000, 60_000, "consumer", PROTOCOLS)


class Broker:
    """A coordinator with one log, a clock that stands, and a loop that nobody runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.groups = self.start()

    def start(self) -> GroupCoordinator:
        """A broker that finds the log as it is."""
        return GroupCoordinator(
            Environment(lambda _: self.log, self.loop.create_future, self.clock, lambda _: None),
            settings=GroupSettings(initial_rebalance_delay_ms=0),
            fresh_id=iter("123456789").__next__,
        )

    def join(self, member_id: str = "a") -> "asyncio.Future[AssignedResponse]":
        return self.groups.assigned_join(AssignedJoin(AssignedProtocol.V1, "g", "t", member_id, 3))


@pytest.fixture
def world() -> Iterator[Broker]:
    loop = asyncio.new_event_loop()
    yield Broker(loop)
    loop.close()


def test_a_join_is_answered_when_its_generation_is_durable(world: Broker) -> None:
    world.log.syncs = False

    answer = world.join()

    assert not answer.done()
    world.log.sync()
    assert answer.result() == AssignedResponse(AssignedError.NONE, "a", 2, (0, 1, 2))


def test_heartbeats_write_nothing(world: Broker) -> None:
    world.join().result()
    written = len(world.log.batches)

    for _ in range(5):
        world.clock.advance(2_000)
        assert world.groups.assigned_heartbeat(CALL).result().error is AssignedError.NONE

    assert len(world.log.batches) == written


def test_a_committed_offset_is_everybodys(world: Broker) -> None:
    world.join().result()

    committed = world.groups.assigned_commit(AssignedCommit(CALL, 1, 42)).result()

    assert committed.error is AssignedError.NONE
    fetched = world.groups.fetch_offsets(FetchOffsetsRequest("g", {"t": (1,)})).result()
    found = fetched.topics["t"][1]
    assert found is not None
    assert found.offset == 42


def test_a_group_that_has_all_offsets_it_may_refuses_one_more(world: Broker) -> None:
    world.groups = GroupCoordinator(
        Environment(lambda _: world.log, world.loop.create_future, world.clock, lambda _: None),
        settings=GroupSettings(offsets_max=1),
    )
    world.join().result()
    world.groups.assigned_commit(AssignedCommit(CALL, 0, 1)).result()

    again = world.groups.assigned_commit(AssignedCommit(CALL, 0, 2)).result()
    one_more = world.groups.assigned_commit(AssignedCommit(CALL, 1, 1)).result()

    assert again.error is AssignedError.NONE
    assert one_more.error is AssignedError.OFFSET_REFUSED


def test_a_group_survives_a_restart(world: Broker) -> None:
    world.join().result()
    world.join("b").result()

    world.groups = world.start()

    call = CALL._replace(generation=3)
    assert world.groups.assigned_sync(call).result().partitions == (0, 2)
    assert world.groups.assigned_leave(call).result() == AssignedResponse(
        AssignedError.NONE, "a", 4
    )


def test_a_member_of_kafka_that_died_does_not_keep_others_out(world: Broker) -> None:
    """Also when no timer has rung yet: the join itself ends the session."""
    world.groups.join(KAFKA_JOIN).result()
    assert world.join().result().error is AssignedError.OTHER_FAMILY

    world.clock.advance(120_000)

    assert world.join().result().error is AssignedError.NONE


def test_a_commit_without_membership_is_refused_while_members_live(world: Broker) -> None:
    world.join().result()
    request = CommitRequest("g", "", None, -1, (OffsetToCommit("t", 0, 1),))

    refused = world.groups.commit_offsets(request).result()
    world.clock.advance(10_001)
    allowed = world.groups.commit_offsets(request).result()

    assert refused.errors == (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert allowed.errors == (ErrorCode.NONE,)


def test_a_producer_commits_for_nobody_while_members_live(world: Broker) -> None:
    """Not even in a transaction, which in a group of Kafka's needs no member."""
    world.join().result()
    request = CommitRequest("g", "", None, -1, (OffsetToCommit("t", 0, 1),), (PRODUCER, 0))

    refused = world.groups.commit_offsets(request).result()
    world.clock.advance(10_001)
    allowed = world.groups.commit_offsets(request).result()

    assert refused.errors == (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert allowed.errors == (ErrorCode.NONE,)


def test_an_offset_that_comes_to_count_with_its_transaction_is_a_change(world: Broker) -> None:
    world.join().result()
    world.clock.advance(10_001)
    request = CommitRequest("g", "", None, -1, (OffsetToCommit("t", 0, 1),), (PRODUCER, 0))
    world.groups.commit_offsets(request).result()
    before = world.groups.assigned_changes

    answer: asyncio.Future[ErrorCode] = world.loop.create_future()
    number = world.groups.partition_for("g")
    world.groups.end_transaction(number, Marker(PRODUCER, 0, True, 0), answer)

    assert answer.result() is ErrorCode.NONE
    assert world.groups.assigned_changes > before


def test_who_only_asks_for_a_member_id_ends_no_group(world: Broker) -> None:
    world.join().result()
    world.groups.assigned_leave(CALL).result()
    asked = KAFKA_JOIN._replace(requires_member_id=True)

    answer = world.groups.join(asked).result()

    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert world.join("b").result().generation == 4  # it goes on


def test_a_member_id_that_was_asked_for_lets_its_member_in(world: Broker) -> None:
    world.join().result()
    world.groups.assigned_leave(CALL).result()
    asked = KAFKA_JOIN._replace(requires_member_id=True)
    member_id = world.groups.join(asked).result().member_id

    unknown = world.groups.join(asked._replace(member_id="somebody")).result()
    joined = world.groups.join(asked._replace(member_id=member_id)).result()

    assert unknown.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert (joined.error, joined.generation) == (ErrorCode.NONE, 1)
    assert world.join().result().error is AssignedError.OTHER_FAMILY


def test_a_member_id_that_nobody_has_joined_with_keeps_nobody_out(world: Broker) -> None:
    asked = KAFKA_JOIN._replace(requires_member_id=True)
    assert world.groups.join(asked).result().error is ErrorCode.MEMBER_ID_REQUIRED

    assert world.join().result().error is AssignedError.NONE


def test_a_group_that_was_restored_before_stays_as_it_is(world: Broker) -> None:
    image = AssignedImage(
        AssignedProtocol.V1,
        "t",
        generation=7,
        members={"a": AssignedMember("a", "", "", 10_000, (0, 1, 2))},
    )
    assert world.groups.restore_assigned("g", image).result().error is AssignedError.NONE
    world.groups = world.start()
    world.groups.describe("g").result()  # its members' sessions begin
    world.clock.advance(10_001)

    again = world.groups.restore_assigned("g", image).result()
    joined = world.join("b").result()
    world.clock.advance(10_001)

    assert again.error is AssignedError.OTHER_FAMILY
    assert (joined.generation, joined.partitions) == (9, (0, 1, 2))  # a has died, b came
    assert world.join("c").result().partitions == (0, 1, 2)  # b has died


def test_lists_show_it_with_its_family(world: Broker) -> None:
    world.join().result()

    number = world.groups.partition_for("g")
    [listed] = world.groups.list_groups(number, ListGroupsRequest()).result().groups

    assert listed == ("g", "polylog-v1", "Stable", "classic")


def test_while_its_partition_loads_every_command_is_told_so(
    world: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_load, "LOAD_BYTES_PER_STEP", 1)  # one batch a step
    world.join().result()
    world.join("b").result()
    world.groups = world.start()

    world.groups.recovered(world.groups.partition_for("g"), is_empty=False)

    loading = AssignedResponse(AssignedError.LOADING, "a")
    assert world.join().result() == loading
    assert world.groups.assigned_sync(CALL).result() == loading
    assert world.groups.assigned_heartbeat(CALL).result() == loading
    assert world.groups.assigned_leave(CALL).result() == loading
    assert world.groups.assigned_commit(AssignedCommit(CALL, 0, 1)).result() == loading


def test_over_a_log_that_has_failed_every_command_is_told_so(world: Broker) -> None:
    world.join().result()

    world.log.fail()

    unavailable = AssignedResponse(AssignedError.UNAVAILABLE, "a")
    assert world.join().result() == unavailable
    assert world.groups.assigned_sync(CALL).result() == unavailable


def test_what_cursus_asks_while_its_partition_loads_is_told_so(
    world: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_load, "LOAD_BYTES_PER_STEP", 1)  # one batch a step
    world.join().result()
    world.join("b").result()
    world.groups = world.start()

    world.groups.recovered(world.groups.partition_for("g"), is_empty=False)

    loading = AssignedResponse(AssignedError.LOADING, "a")
    assert world.groups.assigned_check(CALL).result() == loading
    assert world.groups.assigned_commit_all(AssignedCommits(CALL, ())).result() == loading
    assert world.groups.assigned_status(CALL).result().error is AssignedError.LOADING


def test_a_group_that_has_all_offsets_it_may_takes_nothing_of_several_commits(
    world: Broker,
) -> None:
    world.groups = GroupCoordinator(
        Environment(lambda _: world.log, world.loop.create_future, world.clock, lambda _: None),
        settings=GroupSettings(offsets_max=1),
    )
    join = AssignedJoin(AssignedProtocol.CURSUS, "g", "t", "a", 3, suffix="1111")
    member_id = world.groups.assigned_join(join).result().member_id
    call = CALL._replace(family=AssignedProtocol.CURSUS, member_id=member_id, generation=1)

    answer = world.groups.assigned_commit_all(AssignedCommits(call, ((0, 1), (1, 1)))).result()

    assert answer.error is AssignedError.OFFSET_REFUSED
    fetched = world.groups.fetch_offsets(FetchOffsetsRequest("g", None)).result()
    assert fetched.topics == {}


@pytest.mark.parametrize("is_committed", [True, False])
def test_offsets_in_a_transaction_count_when_it_is_committed(
    world: Broker, *, is_committed: bool
) -> None:
    join = AssignedJoin(AssignedProtocol.CURSUS, "g", "t", "a", 3, suffix="1111")
    member_id = world.groups.assigned_join(join).result().member_id
    call = CALL._replace(family=AssignedProtocol.CURSUS, member_id=member_id, generation=1)
    world.groups.assigned_commit_all(AssignedCommits(call, ((0, 4), (1, 4))))

    staged = AssignedCommits(call, ((0, 5), (1, 4)), (PRODUCER, 0))
    assert world.groups.assigned_commit_all(staged).result().error is AssignedError.NONE
    refused = AssignedCommits(call, ((0, 3),), (PRODUCER, 0))
    lower = world.groups.assigned_commit_all(refused).result()
    before = world.groups.fetch_offsets(FetchOffsetsRequest("g", None)).result()
    ended: list[ErrorCode] = []
    place = world.groups.partition_for("g")
    world.groups.end_transaction(
        place, Marker(PRODUCER, 0, is_committed, 0), Callback(ended.append)
    )

    assert lower.error is AssignedError.OFFSET_REGRESSION
    assert {number: each.offset for number, each in before.topics["t"].items() if each} == {
        0: 4,
        1: 4,
    }
    assert ended == [ErrorCode.NONE]
    after = world.groups.fetch_offsets(FetchOffsetsRequest("g", {"t": (0,)})).result()
    committed = after.topics["t"][0]
    assert committed is not None
    assert committed.offset == (5 if is_committed else 4)


def test_a_group_is_shown_to_its_own_dialect_without_the_silent(world: Broker) -> None:
    join = AssignedJoin(AssignedProtocol.CURSUS, "g", "t", "a", 3, suffix="1111")
    world.groups.assigned_join(join).result()
    call = CALL._replace(family=AssignedProtocol.CURSUS)

    shown = world.groups.assigned_status(call).result()
    world.clock.advance(10_001)
    later = world.groups.assigned_status(call).result()

    [member] = shown.members
    assert (shown.generation, member.member_id, member.partitions) == (1, "a-1111", (0, 1, 2))
    assert later.members == ()
    assert world.groups.assigned_status(CALL).result().error is AssignedError.GROUP_NOT_FOUND
