"""Assigned groups through the group coordinator, over its log."""

import asyncio
from collections.abc import Iterator

import pytest

from broker.codec.control_records import Marker
from broker.core.coordination.partitions import Environment
from broker.core.groups.assigned.images import AssignedImage, AssignedMember
from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommit,
    AssignedCommits,
    AssignedError,
    AssignedJoin,
    AssignedProtocol,
    AssignedResponse,
)
from broker.core.groups.commands.classic import GroupProtocol, JoinRequest
from broker.core.groups.commands.listing import ListGroupsRequest
from broker.core.groups.commands.offsets import CommitRequest, FetchOffsetsRequest, OffsetToCommit
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.groups.settings import GroupSettings
from broker.model import limits
from broker.model.errors import ErrorCode
from tests.support.fakes import FakeTopics
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import MemoryLog

PRODUCER = 7
CALL = AssignedCall(AssignedProtocol.V1, "g", "t", "a", 2, 3)


PROTOCOLS = (GroupProtocol("range", b""),)
KAFKA_JOIN = JoinRequest("g", "", None, "c", "", 10_000, 60_000, "consumer", PROTOCOLS)


class Broker:
    """A coordinator with one log, a stopped clock, and a loop that does not run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.groups = self.start()

    def start(self) -> GroupCoordinator:
        """Return a coordinator that finds the log as it is."""
        return GroupCoordinator(
            Environment(lambda _: self.log, self.loop.create_future, self.clock, lambda _: None),
            topics=FakeTopics(),
            settings=GroupSettings(initial_rebalance_delay_ms=0),
            fresh_id=iter("123456789").__next__,
        )

    def join(self, member_id: str = "a") -> "asyncio.Future[AssignedResponse]":
        return self.groups.assigned_join(AssignedJoin(AssignedProtocol.V1, "g", "t", member_id, 3))


@pytest.fixture
def broker() -> Iterator[Broker]:
    loop = asyncio.new_event_loop()
    yield Broker(loop)
    loop.close()


def test_a_join_is_answered_when_its_generation_is_durable(broker: Broker) -> None:
    broker.log.syncs = False

    answer = broker.join()

    assert not answer.done()
    broker.log.sync()
    assert answer.result() == AssignedResponse(AssignedError.NONE, "a", 2, (0, 1, 2))


def test_heartbeats_write_nothing(broker: Broker) -> None:
    broker.join().result()
    written = len(broker.log.batches)

    for _ in range(5):
        broker.clock.advance(2_000)
        assert broker.groups.assigned_sync(CALL).result().error is AssignedError.NONE

    assert len(broker.log.batches) == written


def test_an_offset_committed_through_one_protocol_is_visible_to_all(broker: Broker) -> None:
    broker.join().result()

    committed = broker.groups.assigned_commit(AssignedCommit(CALL, 1, 42)).result()

    assert committed.error is AssignedError.NONE
    fetched = broker.groups.fetch_offsets(FetchOffsetsRequest("g", {"t": (1,)})).result()
    found = fetched.topics["t"][1]
    assert found is not None
    assert found.offset == 42


def test_a_group_with_the_maximum_number_of_offsets_refuses_one_more(broker: Broker) -> None:
    broker.groups = GroupCoordinator(
        Environment(lambda _: broker.log, broker.loop.create_future, broker.clock, lambda _: None),
        topics=FakeTopics(),
        settings=GroupSettings(offsets_max=1),
    )
    broker.join().result()
    broker.groups.assigned_commit(AssignedCommit(CALL, 0, 1)).result()

    again = broker.groups.assigned_commit(AssignedCommit(CALL, 0, 2)).result()
    one_more = broker.groups.assigned_commit(AssignedCommit(CALL, 1, 1)).result()

    assert again.error is AssignedError.NONE
    assert one_more.error is AssignedError.OFFSET_REFUSED


def test_a_group_survives_a_restart(broker: Broker) -> None:
    broker.join().result()
    broker.join("b").result()

    broker.groups = broker.start()

    call = CALL._replace(generation=3)
    assert broker.groups.assigned_sync(call).result().partitions == (0, 2)
    assert broker.groups.assigned_leave(call).result() == AssignedResponse(
        AssignedError.NONE, "a", 4
    )


def test_an_expired_kafka_member_does_not_keep_other_protocols_out(broker: Broker) -> None:
    """Also when no timer has rung yet: the join itself ends the session."""
    broker.groups.join_group(KAFKA_JOIN).result()
    assert broker.join().result().error is AssignedError.OTHER_PROTOCOL

    broker.clock.advance(120_000)

    assert broker.join().result().error is AssignedError.NONE


def test_a_commit_without_a_member_is_refused_while_the_group_has_members(broker: Broker) -> None:
    broker.join().result()
    request = CommitRequest("g", "", None, -1, (OffsetToCommit("t", 0, 1),))

    refused = broker.groups.commit_offsets(request).result()
    broker.clock.advance(10_001)
    allowed = broker.groups.commit_offsets(request).result()

    assert refused.errors == (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert allowed.errors == (ErrorCode.NONE,)


def test_a_transactional_commit_without_a_member_is_refused_while_the_group_has_members(
    broker: Broker,
) -> None:
    """Not even in a transaction, which in a group of Kafka's needs no member."""
    broker.join().result()
    request = CommitRequest("g", "", None, -1, (OffsetToCommit("t", 0, 1),), (PRODUCER, 0))

    refused = broker.groups.commit_offsets(request).result()
    broker.clock.advance(10_001)
    allowed = broker.groups.commit_offsets(request).result()

    assert refused.errors == (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert allowed.errors == (ErrorCode.NONE,)


def test_an_offset_committed_by_its_transaction_counts_as_a_change(broker: Broker) -> None:
    broker.join().result()
    broker.clock.advance(10_001)
    request = CommitRequest("g", "", None, -1, (OffsetToCommit("t", 0, 1),), (PRODUCER, 0))
    broker.groups.commit_offsets(request).result()
    before = broker.groups.assigned_changes

    answer: asyncio.Future[ErrorCode] = broker.loop.create_future()
    number = broker.groups.partition_for("g")
    broker.groups.end_transaction(number, Marker(PRODUCER, 0, True, 0), answer.set_result)

    assert answer.result() is ErrorCode.NONE
    assert broker.groups.assigned_changes > before


def test_asking_only_for_a_member_id_does_not_end_another_protocols_group(broker: Broker) -> None:
    broker.join().result()
    broker.groups.assigned_leave(CALL).result()
    asked = KAFKA_JOIN._replace(requires_member_id=True)

    answer = broker.groups.join_group(asked).result()

    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert broker.join("b").result().generation == 4  # it continues


def test_a_requested_member_id_lets_its_member_join(broker: Broker) -> None:
    broker.join().result()
    broker.groups.assigned_leave(CALL).result()
    asked = KAFKA_JOIN._replace(requires_member_id=True)
    member_id = broker.groups.join_group(asked).result().member_id

    unknown = broker.groups.join_group(asked._replace(member_id="somebody")).result()
    joined = broker.groups.join_group(asked._replace(member_id=member_id)).result()

    assert unknown.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert (joined.error, joined.generation) == (ErrorCode.NONE, 1)
    assert broker.join().result().error is AssignedError.OTHER_PROTOCOL


def test_an_unused_member_id_does_not_keep_other_protocols_out(broker: Broker) -> None:
    asked = KAFKA_JOIN._replace(requires_member_id=True)
    assert broker.groups.join_group(asked).result().error is ErrorCode.MEMBER_ID_REQUIRED

    assert broker.join().result().error is AssignedError.NONE


def test_a_group_that_was_already_restored_is_unchanged(broker: Broker) -> None:
    image = AssignedImage(
        AssignedProtocol.V1,
        "t",
        generation=7,
        members={"a": AssignedMember("a", "", "", 10_000, (0, 1, 2))},
    )
    assert broker.groups.restore_assigned("g", image).result().error is AssignedError.NONE
    broker.groups = broker.start()
    broker.groups.describe_group("g").result()  # its members' sessions begin
    broker.clock.advance(10_001)

    again = broker.groups.restore_assigned("g", image).result()
    joined = broker.join("b").result()
    broker.clock.advance(10_001)

    assert again.error is AssignedError.OTHER_PROTOCOL
    assert (joined.generation, joined.partitions) == (9, (0, 1, 2))  # a has died, b came
    assert broker.join("c").result().partitions == (0, 1, 2)  # b has died


def test_listed_groups_have_their_protocol_type(broker: Broker) -> None:
    broker.join().result()

    number = broker.groups.partition_for("g")
    [listed] = broker.groups.list_groups(number, ListGroupsRequest()).result().groups

    assert listed == ("g", "polylog-v1", "Stable", "classic")


def test_while_the_partition_loads_every_command_returns_loading(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOAD_BYTES_PER_STEP", 1)  # one batch a step
    broker.join().result()
    broker.join("b").result()
    broker.groups = broker.start()

    broker.groups.recovered(broker.groups.partition_for("g"), is_empty=False)

    loading = AssignedResponse(AssignedError.LOADING, "a")
    assert broker.join().result() == loading
    assert broker.groups.assigned_sync(CALL).result() == loading
    assert broker.groups.assigned_sync(CALL).result() == loading
    assert broker.groups.assigned_leave(CALL).result() == loading
    assert broker.groups.assigned_commit(AssignedCommit(CALL, 0, 1)).result() == loading


def test_with_an_offline_log_every_command_returns_unavailable(broker: Broker) -> None:
    broker.join().result()

    broker.log.fail()

    unavailable = AssignedResponse(AssignedError.UNAVAILABLE, "a")
    assert broker.join().result() == unavailable
    assert broker.groups.assigned_sync(CALL).result() == unavailable


def test_while_the_partition_loads_cursus_commands_return_loading(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOAD_BYTES_PER_STEP", 1)  # one batch a step
    broker.join().result()
    broker.join("b").result()
    broker.groups = broker.start()

    broker.groups.recovered(broker.groups.partition_for("g"), is_empty=False)

    loading = AssignedResponse(AssignedError.LOADING, "a")
    assert broker.groups.assigned_check(CALL).result() == loading
    assert broker.groups.assigned_commit_all(AssignedCommits(CALL, ())).result() == loading
    assert broker.groups.assigned_status(CALL).result().error is AssignedError.LOADING


def test_several_commits_to_a_group_with_the_maximum_of_offsets_are_refused_together(
    broker: Broker,
) -> None:
    broker.groups = GroupCoordinator(
        Environment(lambda _: broker.log, broker.loop.create_future, broker.clock, lambda _: None),
        topics=FakeTopics(),
        settings=GroupSettings(offsets_max=1),
    )
    join = AssignedJoin(AssignedProtocol.CURSUS, "g", "t", "a", 3, suffix="1111")
    member_id = broker.groups.assigned_join(join).result().member_id
    call = CALL._replace(protocol=AssignedProtocol.CURSUS, member_id=member_id, generation=1)

    answer = broker.groups.assigned_commit_all(AssignedCommits(call, ((0, 1), (1, 1)))).result()

    assert answer.error is AssignedError.OFFSET_REFUSED
    fetched = broker.groups.fetch_offsets(FetchOffsetsRequest("g", None)).result()
    assert fetched.topics == {}


@pytest.mark.parametrize("is_committed", [True, False])
def test_offsets_in_a_transaction_become_visible_when_it_is_committed(
    broker: Broker, *, is_committed: bool
) -> None:
    join = AssignedJoin(AssignedProtocol.CURSUS, "g", "t", "a", 3, suffix="1111")
    member_id = broker.groups.assigned_join(join).result().member_id
    call = CALL._replace(protocol=AssignedProtocol.CURSUS, member_id=member_id, generation=1)
    broker.groups.assigned_commit_all(AssignedCommits(call, ((0, 4), (1, 4))))

    staged = AssignedCommits(call, ((0, 5), (1, 4)), (PRODUCER, 0))
    assert broker.groups.assigned_commit_all(staged).result().error is AssignedError.NONE
    refused = AssignedCommits(call, ((0, 3),), (PRODUCER, 0))
    lower = broker.groups.assigned_commit_all(refused).result()
    before = broker.groups.fetch_offsets(FetchOffsetsRequest("g", None)).result()
    ended: list[ErrorCode] = []
    place = broker.groups.partition_for("g")
    broker.groups.end_transaction(place, Marker(PRODUCER, 0, is_committed, 0), ended.append)

    assert lower.error is AssignedError.OFFSET_REGRESSION
    assert {number: each.offset for number, each in before.topics["t"].items() if each} == {
        0: 4,
        1: 4,
    }
    assert ended == [ErrorCode.NONE]
    after = broker.groups.fetch_offsets(FetchOffsetsRequest("g", {"t": (0,)})).result()
    committed = after.topics["t"][0]
    assert committed is not None
    assert committed.offset == (5 if is_committed else 4)


def test_a_group_is_described_to_its_own_protocol_without_expired_members(broker: Broker) -> None:
    join = AssignedJoin(AssignedProtocol.CURSUS, "g", "t", "a", 3, suffix="1111")
    broker.groups.assigned_join(join).result()
    call = CALL._replace(protocol=AssignedProtocol.CURSUS)

    shown = broker.groups.assigned_status(call).result()
    broker.clock.advance(10_001)
    later = broker.groups.assigned_status(call).result()

    [member] = shown.members
    assert (shown.generation, member.member_id, member.partitions) == (1, "a-1111", (0, 1, 2))
    assert later.members == ()
    assert broker.groups.assigned_status(CALL).result().error is AssignedError.GROUP_NOT_FOUND
