"""The group coordinator over its log: when it answers, and what survives."""

import asyncio
from collections.abc import Iterator

import pytest

from broker.codec import scan_headers
from broker.codec.control_records import Marker
from broker.core.coordination import coordinator as driver
from broker.core.coordination.partitions import Environment
from broker.core.groups.classic.group import ClassicGroup
from broker.core.groups.commands.classic import (
    GroupProtocol,
    GroupState,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from broker.core.groups.commands.listing import ListGroupsRequest
from broker.core.groups.commands.offsets import (
    CommitRequest,
    CommitResponse,
    FetchOffsetsRequest,
    OffsetToCommit,
)
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.groups.records.encoding import encode
from broker.core.groups.records.offsets import OffsetRecord
from broker.core.groups.settings import GroupSettings
from broker.model import limits
from broker.model.errors import DiskFull, ErrorCode, RequestError, StorageError, TooManyProducers
from tests.support.batches import batch_of, header
from tests.support.fakes import FakeTopics
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import MemoryLog


class Broker:
    """A coordinator with one log, a stopped clock, and a loop that does not run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.wakes: list[int] = []
        self.opened = 0
        self.has_topic = True
        self.loop = loop
        self.coordinator = self.start()

    def start(self) -> GroupCoordinator:
        """Return a coordinator that finds the log as it is."""
        return GroupCoordinator(
            Environment(self.open, self.loop.create_future, self.clock, self.wakes.append),
            topics=FakeTopics(),
            settings=GroupSettings(initial_rebalance_delay_ms=0),
            fresh_id=iter("123456789").__next__,
        )

    def open(self, _partition: int) -> MemoryLog:
        self.opened += 1
        if not self.has_topic:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.log

    def join(self, member_id: str = "", client_id: str = "c") -> asyncio.Future[JoinResponse]:
        protocols = (GroupProtocol("range", b""),)
        return self.coordinator.join_group(
            JoinRequest("g", member_id, None, client_id, "", 10_000, 60_000, "consumer", protocols)
        )

    def commit(self, offset: int, generation: int = -1) -> asyncio.Future[CommitResponse]:
        offsets = (OffsetToCommit("t", 0, offset),)
        return self.coordinator.commit_offsets(CommitRequest("g", "", None, generation, offsets))

    def heartbeat(self, member_id: str, generation: int) -> ErrorCode:
        request = HeartbeatRequest("g", member_id, None, generation)
        return self.coordinator.heartbeat(request).result()

    def committed(self) -> int | None:
        """Return the offset of the only partition, which is answered at once."""
        response = self.coordinator.fetch_offsets(FetchOffsetsRequest("g", {"t": (0,)})).result()
        assert response.error is ErrorCode.NONE
        found = response.topics["t"][0]
        return None if found is None else found.offset


def refuse(_batch: bytes) -> int:
    raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR)


def unreadable(offset: int, _size: int) -> bytes:
    raise StorageError(f"no bytes at {offset}")


@pytest.fixture
def broker() -> Iterator[Broker]:
    loop = asyncio.new_event_loop()
    yield Broker(loop)
    loop.close()


# ---- the partition of a group ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("", 0),
        ("hello", 99162322 % 50),
        ("my-group", 12),
        ("polygenelubricants", 0),  # hashes to the smallest int, which has no absolute value
        ("größe", 7),
        ("🦜", 30),
    ],
)
def test_a_group_is_stored_in_the_partition_that_kafka_computes(
    broker: Broker, group_id: str, partition: int
) -> None:
    assert broker.coordinator.partition_for(group_id) == partition


def test_the_partition_of_a_group_follows_the_existing_topics_partition_count(
    broker: Broker,
) -> None:
    """The setting may have changed since the topic was made."""
    count: int | None = None
    coordinator = GroupCoordinator(
        Environment(
            broker.open, broker.loop.create_future, broker.clock, broker.wakes.append, lambda: count
        ),
        topics=FakeTopics(),
        partition_count=50,
    )
    before = coordinator.partition_for("hello")

    count = 7

    assert before == 99162322 % 50
    assert coordinator.partition_for("hello") == 99162322 % 7


def test_an_impossible_group_name_is_not_hashed(broker: Broker) -> None:
    longest = "hello" + "\0" * (limits.COORDINATOR_KEY_CHARS_MAX - 5)

    assert broker.coordinator.partition_for(longest) != 0
    assert broker.coordinator.partition_for(longest + "\0") == 0


# ---- durability ----------------------------------------------------------------------------------


def test_a_commit_is_answered_when_it_is_durable(broker: Broker) -> None:
    broker.log.syncs = False

    answer = broker.commit(5)

    assert not answer.done()
    broker.log.sync()
    assert answer.result().errors == (ErrorCode.NONE,)


def test_a_read_waits_until_what_it_saw_is_durable(broker: Broker) -> None:
    """Nobody is told of an offset that a power cut can take back."""
    broker.log.syncs = False
    broker.commit(5)

    answer = broker.coordinator.fetch_offsets(FetchOffsetsRequest("g", None))

    assert not answer.done()
    broker.log.sync()
    found = answer.result().topics["t"][0]
    assert found is not None
    assert found.offset == 5


def test_only_durable_state_is_returned(broker: Broker) -> None:
    broker.log.syncs = False
    first, second = broker.commit(5), broker.commit(6)

    broker.log.sync(1)

    assert first.done()
    assert not second.done()
    broker.log.sync(2)
    assert second.done()


def test_a_read_after_an_unawaited_change_is_answered_once_it_is_durable(broker: Broker) -> None:
    broker.log.syncs = False
    first = broker.commit(6)
    broker.coordinator.topic_deleted("t")
    broker.coordinator.tick()
    answer = broker.coordinator.fetch_offsets(FetchOffsetsRequest("g", None))

    broker.log.sync(1)
    assert first.done()
    assert not answer.done()
    broker.log.sync(2)

    assert answer.result().topics == {}


def test_commands_see_undurable_state_and_are_answered_in_order(broker: Broker) -> None:
    broker.log.syncs = False
    order: list[str] = []
    joining = broker.join()
    leaving = broker.coordinator.leave_group(LeaveRequest("g", (LeavingMember("c-1"),)))
    joining.add_done_callback(lambda _: order.append("join"))
    leaving.add_done_callback(lambda _: order.append("leave"))

    broker.log.sync()
    broker.loop.run_until_complete(asyncio.sleep(0))

    assert leaving.result().members == (ErrorCode.NONE,)
    assert order == ["join", "leave"]


def test_the_records_of_a_command_are_one_batch(broker: Broker) -> None:
    offsets = tuple(OffsetToCommit("t", partition, 1) for partition in range(100))

    broker.coordinator.commit_offsets(CommitRequest("g", "", None, -1, offsets))

    (batch,) = [batch for _, batch in broker.log.batches]
    assert header(batch).record_count == 100


def test_a_response_to_a_disconnected_client_is_dropped(broker: Broker) -> None:
    broker.log.syncs = False
    broker.commit(5).cancel()

    broker.log.sync()

    assert broker.committed() == 5


# ---- failure -------------------------------------------------------------------------------------


def test_a_log_that_goes_offline_fails_pending_responses(broker: Broker) -> None:
    broker.log.syncs = False
    waiting = broker.commit(5)

    broker.log.fail()

    assert waiting.result().errors == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)


def test_a_log_that_goes_offline_fails_members_waiting_in_a_join(broker: Broker) -> None:
    broker.join().result()
    parked = broker.join(client_id="d")

    broker.log.fail()
    broker.coordinator.tick()

    assert parked.result().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_nothing_is_served_over_an_offline_log(broker: Broker) -> None:
    broker.join().result()

    broker.log.fail()

    assert broker.heartbeat("c-1", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.commit(5).result().errors == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)


def test_after_a_failed_append_the_groups_are_reloaded_from_the_log(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.commit(5)

    with monkeypatch.context() as broken:
        broken.setattr(broker.log, "append_internal", refuse)
        assert broker.commit(6).result().errors == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)

    broker.clock.advance(1_000)
    assert broker.committed() == 5
    assert broker.opened == 2


def test_a_partition_that_cannot_be_opened_is_not_retried_for_every_request(broker: Broker) -> None:
    broker.has_topic = False

    for _ in range(5):
        assert broker.commit(5).result().errors == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)
    broker.clock.advance(1_000)
    broker.commit(5)

    assert broker.opened == 2


# A truncated key; values that are truncated, or of a future version.
CUT_KEY = (b"\x00\x01cut", b"")
COMMIT_KEY, _ = encode(OffsetRecord("g", "t", 0, None))
CUT_COMMIT = (COMMIT_KEY, b"\0\x03cut")
FUTURE_COMMIT = (COMMIT_KEY, b"\0\x63")
NO_KEY = (None, b"anything")


@pytest.mark.parametrize("bad", [CUT_KEY, CUT_COMMIT, FUTURE_COMMIT, NO_KEY])
def test_a_record_that_cannot_be_decoded_is_set_aside_and_logged_once_per_load(
    broker: Broker, caplog: pytest.LogCaptureFixture, bad: tuple[bytes | None, bytes]
) -> None:
    """A consumer reads again from the previous offset, rather than from one it never reached."""
    broker.commit(5)
    for _ in range(20):
        broker.log.append_internal(batch_of([(*bad, ())], 0))
    broker.coordinator = broker.start()

    assert broker.committed() == 5
    assert broker.commit(6).result().errors == (ErrorCode.NONE,)
    for _ in range(5):
        broker.clock.advance(limits.LOAD_RETRY_MS)
        broker.coordinator.tick()
    [line] = [each for each in caplog.messages if "set records aside" in each]
    partition = broker.coordinator.partition_for("g")
    start = f"coordinator load set records aside partition=__consumer_offsets-{partition} count=20"
    assert line.startswith(f"{start} offsets=1,2,3,")


def test_a_record_of_an_unknown_kind_is_skipped(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.commit(5)
    broker.log.append_internal(batch_of([(b"\x63\0rest", b"\0\0", ())], 0))
    broker.coordinator = broker.start()

    assert broker.committed() == 5
    assert "set records aside" not in caplog.text


def test_a_failed_read_makes_its_groups_unavailable_rather_than_empty(
    broker: Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.commit(5)
    monkeypatch.setattr(broker.log, "read", unreadable)
    broker.coordinator = broker.start()

    answer = broker.coordinator.fetch_offsets(FetchOffsetsRequest("g", None)).result()

    assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "coordinator load failed partition=__consumer_offsets-" in caplog.text


def test_a_failed_load_is_retried_later_however_long_it_took(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.commit(5)
    monkeypatch.setattr(broker.log, "read", unreadable)
    broker.coordinator = broker.start()
    broker.coordinator.recovered(broker.coordinator.partition_for("g"), is_empty=False)
    broker.coordinator.tick()
    broker.clock.advance(limits.LOAD_RETRY_MS)
    opened = broker.opened

    broker.coordinator.tick()
    next_ms = broker.coordinator.tick()

    assert broker.opened == opened + 1
    assert next_ms == broker.clock.monotonic_ms() + limits.LOAD_RETRY_MS


def test_a_partition_with_records_is_loaded_as_soon_as_possible(broker: Broker) -> None:
    """Nobody may ask, and its groups have members whose sessions end."""
    broker.commit(5)
    broker.coordinator = broker.start()
    broker.has_topic = False
    broker.coordinator.recovered(broker.coordinator.partition_for("g"), is_empty=False)
    asked_ms = broker.wakes[-1]

    broker.has_topic = True
    broker.clock.advance(limits.LOAD_RETRY_MS)
    while broker.coordinator.tick() == broker.clock.monotonic_ms():
        pass
    broker.has_topic = False

    assert asked_ms == limits.LOAD_RETRY_MS
    assert broker.committed() == 5


def test_a_list_fails_while_a_partition_is_temporarily_unavailable(broker: Broker) -> None:
    broker.commit(5)
    number = broker.coordinator.partition_for("g")
    broker.coordinator = broker.start()

    broker.has_topic = False
    broker.coordinator.recovered(number, is_empty=False)
    broker.clock.advance(limits.LOAD_RETRY_MS)
    broker.coordinator.tick()

    assert broker.coordinator.within_reach() == [number]
    listed = broker.coordinator.list_groups(number, ListGroupsRequest()).result()
    assert listed.error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_partition_with_a_failed_disk_is_omitted_from_lists_and_reported(
    broker: Broker,
) -> None:
    """Its log stays offline: without this, no list would succeed until a restart."""
    broker.commit(5)
    assert broker.coordinator.is_complete

    broker.log.fail()
    broker.coordinator.tick()
    broker.clock.advance(limits.LOAD_RETRY_MS)
    broker.coordinator.tick()

    assert broker.coordinator.within_reach() == []
    assert not broker.coordinator.is_complete


def test_a_topic_deleted_while_the_log_is_full_is_forgotten_later(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.commit(5)

    with monkeypatch.context() as broken:
        broken.setattr(broker.log, "append_internal", refuse)
        broker.coordinator.topic_deleted("t")
        broker.coordinator.tick()
    broker.clock.advance(limits.LOAD_RETRY_MS)
    broker.coordinator.tick()
    broker.coordinator.tick()

    assert broker.committed() is None
    assert len(broker.log.batches) == 2


def test_a_topic_deleted_while_its_offsets_cannot_be_opened_is_forgotten(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.commit(5)
    with monkeypatch.context() as broken:
        broken.setattr(broker.log, "append_internal", refuse)
        broker.commit(6)
    broker.has_topic = False
    broker.coordinator.tick()

    broker.coordinator.topic_deleted("t")
    broker.has_topic = True
    broker.clock.advance(limits.LOAD_RETRY_MS)
    broker.coordinator.tick()
    broker.coordinator.tick()

    assert broker.committed() is None


def test_a_marker_that_cannot_be_written_causes_a_reload(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.commit(5)
    broker.wakes.clear()
    broker.coordinator.tick()
    answer: asyncio.Future[ErrorCode] = broker.loop.create_future()

    with monkeypatch.context() as broken:
        broken.setattr(broker.log, "append_internal", refuse)
        number = broker.coordinator.partition_for("g")
        broker.coordinator.end_transaction(number, Marker(7, 0, True, 0), answer.set_result)

    assert answer.result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.wakes == [broker.clock.monotonic_ms()]


def test_a_stepwise_command_is_refused_when_its_groups_cannot_be_loaded(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.log.append_internal(batch_of([(*CUT_KEY, ())], 0))
    monkeypatch.setattr(broker.log, "read", unreadable)

    listed = broker.coordinator.list_groups(0, ListGroupsRequest())
    deleted = broker.coordinator.delete_group("g")

    assert listed.done()
    assert listed.result().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert deleted.done()
    assert deleted.result() is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_after_close_members_are_sent_to_another_coordinator(broker: Broker) -> None:
    broker.join().result()
    parked = broker.join(client_id="d")

    broker.coordinator.close()

    assert parked.result().error is ErrorCode.NOT_COORDINATOR
    assert broker.heartbeat("c-1", 1) is ErrorCode.NOT_COORDINATOR
    assert broker.commit(5, 1).result().errors == (ErrorCode.NOT_COORDINATOR,)
    fetched = broker.coordinator.fetch_offsets(FetchOffsetsRequest("g", {"t": (0,)})).result()
    assert fetched.error is ErrorCode.NOT_COORDINATOR


def test_a_log_with_all_its_producers_refuses_only_transactional_offsets(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.commit(5)
    append = broker.log.append_internal

    def full(batch: bytes) -> int:
        if scan_headers(batch)[0].producer_id >= 0:
            raise TooManyProducers("10,000 producers")
        return append(batch)

    monkeypatch.setattr(broker.log, "append_internal", full)
    opened = broker.opened
    offsets = (OffsetToCommit("t", 0, 6),)
    answer = broker.coordinator.commit_offsets(CommitRequest("g", "", None, -1, offsets, (7, 0)))

    assert answer.result().errors == (ErrorCode.POLICY_VIOLATION,)
    assert broker.commit(7).result().errors == (ErrorCode.NONE,)
    assert (broker.committed(), broker.opened) == (7, opened)


def test_a_full_disk_refuses_a_commit_with_a_retriable_error_and_keeps_the_group_loaded(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.commit(5)
    append = broker.log.append_internal
    opened = broker.opened

    def full(batch: bytes) -> int:
        raise DiskFull(f"no room for {len(batch)} bytes")

    monkeypatch.setattr(broker.log, "append_internal", full)
    assert broker.commit(6).result().errors == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)
    assert broker.committed() == 5
    monkeypatch.setattr(broker.log, "append_internal", append)

    assert broker.commit(7).result().errors == (ErrorCode.NONE,)
    assert (broker.committed(), broker.opened) == (7, opened)


# ---- loading -------------------------------------------------------------------------------------


def test_groups_and_offsets_survive_a_restart(broker: Broker) -> None:
    joined = broker.join().result()
    broker.coordinator.sync_group(SyncRequest("g", "c-1", None, 1, {"c-1": b"mine"}))

    broker.coordinator = broker.start()

    description = broker.coordinator.describe_group("g").result()
    assert (joined.generation, description.state) == (1, GroupState.STABLE)
    assert [member.assignment for member in description.members] == [b"mine"]
    assert broker.heartbeat("c-1", 1) is ErrorCode.NONE


def test_undurable_state_is_lost_in_a_crash(broker: Broker) -> None:
    broker.commit(5)
    broker.log.syncs = False
    lost = broker.commit(6)

    broker.log.crash()
    broker.coordinator = broker.start()

    assert not lost.done()
    assert broker.committed() == 5


def test_requests_to_a_loading_partition_are_answered_as_kafka_answers(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOAD_BYTES_PER_STEP", 1)  # one batch a step
    broker.commit(5)
    broker.commit(6)
    broker.coordinator = broker.start()

    broker.coordinator.recovered(broker.coordinator.partition_for("g"), is_empty=False)

    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.heartbeat("c-1", 1) is ErrorCode.NONE
    sync = broker.coordinator.sync_group(SyncRequest("g", "c-1", None, 1)).result()
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert broker.join().result().error is loading
    assert broker.commit(7).result().errors == (loading,)
    fetched = broker.coordinator.fetch_offsets(FetchOffsetsRequest("g", None)).result()
    assert (fetched.error, fetched.topics) == (loading, {})
    leaving = broker.coordinator.leave_group(LeaveRequest("g", (LeavingMember("c-1"),))).result()
    assert leaving.error is loading
    assert broker.coordinator.describe_group("g").result().error is loading
    assert broker.wakes[-1] == broker.clock.monotonic_ms()
    broker.coordinator.tick()
    broker.coordinator.tick()
    assert broker.committed() == 6


def test_a_partition_is_loading_while_its_log_is_recovered(broker: Broker) -> None:
    broker.commit(5)
    broker.coordinator = broker.start()
    number = broker.coordinator.partition_for("g")

    broker.coordinator.expect([number])
    early = broker.coordinator.fetch_offsets(FetchOffsetsRequest("g", None)).result()
    committed = broker.commit(6).result()
    broker.coordinator.recovered(number, is_empty=False)
    broker.coordinator.tick()

    assert early.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert committed.errors == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,)
    assert broker.committed() == 5


def test_a_topic_deleted_while_the_log_of_its_offsets_is_recovered_is_forgotten(
    broker: Broker,
) -> None:
    broker.commit(5)
    broker.coordinator = broker.start()
    number = broker.coordinator.partition_for("g")
    broker.coordinator.expect([number])

    broker.coordinator.topic_deleted("t")
    broker.coordinator.recovered(number, is_empty=False)
    broker.coordinator.tick()

    assert broker.committed() is None


def test_an_offset_committed_after_a_topics_deletion_is_kept(
    broker: Broker,
) -> None:
    """A topic of that name can be recreated before all groups have forgotten the first."""
    broker.commit(5)
    broker.coordinator.topic_deleted("t")
    broker.clock.advance(1)

    broker.commit(7)
    broker.coordinator.tick()

    assert broker.committed() == 7


def test_an_offset_committed_after_a_topics_deletion_survives_a_reload(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.commit(5)
    broker.coordinator.tick()
    broker.coordinator.topic_deleted("t")
    broker.clock.advance(1)
    broker.commit(7)
    with monkeypatch.context() as broken:
        broken.setattr(broker.log, "append_internal", refuse)
        broker.join(client_id="d")

    broker.clock.advance(limits.LOAD_RETRY_MS)
    broker.coordinator.tick()
    broker.coordinator.tick()

    assert broker.committed() == 7


def test_a_load_waits_for_records_that_may_still_become_durable(broker: Broker) -> None:
    """A coordinator that loads too early would not know a commit that then comes true."""
    broker.commit(5)
    broker.log.syncs = False
    broker.commit(6)
    broker.coordinator = broker.start()

    early = broker.coordinator.fetch_offsets(FetchOffsetsRequest("g", None)).result()
    broker.coordinator.tick()
    broker.log.sync()
    broker.coordinator.tick()

    assert early.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.committed() == 6


def test_a_topic_deleted_while_its_offsets_load_is_forgotten(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOAD_BYTES_PER_STEP", 1)
    broker.commit(5)
    broker.commit(6)
    broker.coordinator = broker.start()
    broker.coordinator.recovered(broker.coordinator.partition_for("g"), is_empty=False)

    broker.coordinator.topic_deleted("t")
    broker.coordinator.tick()
    broker.coordinator.tick()

    assert broker.committed() is None


def test_a_load_step_replays_few_records_however_large_their_batch_is(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOAD_RECORDS_PER_STEP", 40)
    offsets = tuple(OffsetToCommit("t", partition, 1) for partition in range(100))
    broker.coordinator.commit_offsets(CommitRequest("g", "", None, -1, offsets))
    broker.coordinator = broker.start()
    broker.coordinator.recovered(broker.coordinator.partition_for("g"), is_empty=False)

    steps = 0
    while broker.commit(2).result().errors != (ErrorCode.NONE,):
        broker.coordinator.tick()
        steps += 1

    assert steps == 3
    found = broker.coordinator.fetch_offsets(FetchOffsetsRequest("g", None)).result()
    assert len(found.topics["t"]) == 100


def test_a_turn_loads_one_partition(broker: Broker) -> None:
    broker.commit(5)
    broker.coordinator = broker.start()
    for number in (0, broker.coordinator.partition_for("g")):
        broker.coordinator.recovered(number, is_empty=False)

    broker.coordinator.tick()
    early = broker.commit(6).result()
    broker.coordinator.tick()

    assert early.errors == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,)
    assert broker.committed() == 5


def test_a_turn_sends_a_limited_number_of_replies_and_schedules_the_next(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "REPLIES_PER_TURN", 2)
    broker.log.syncs = False
    answers = [broker.commit(offset) for offset in range(5)]
    broker.wakes.clear()

    broker.log.sync()
    given = [sum(answer.done() for answer in answers)]
    while given[-1] < 5:
        assert broker.coordinator.tick() == broker.clock.monotonic_ms() or given[-1] == 4
        given.append(sum(answer.done() for answer in answers))

    assert given == [2, 4, 5]
    assert broker.wakes[0] == broker.clock.monotonic_ms()


def test_replies_queued_for_later_turns_are_refused_by_close(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "REPLIES_PER_TURN", 1)
    broker.log.syncs = False
    answers = [broker.commit(offset) for offset in range(2)]
    broker.log.sync()

    broker.coordinator.close()

    assert [each.result().errors for each in answers] == [
        (ErrorCode.NONE,),
        (ErrorCode.NOT_COORDINATOR,),
    ]


def test_large_decisions_are_interleaved_with_other_work(broker: Broker) -> None:
    partitions = limits.REMOVALS_PER_STEP * 4
    offsets = tuple(OffsetToCommit("t", partition, 1) for partition in range(partitions))
    broker.coordinator.commit_offsets(CommitRequest("g", "", None, -1, offsets))

    answer = broker.coordinator.delete_group("g")
    ticks = 0
    while not answer.done():
        broker.coordinator.tick()
        ticks += 1

    assert answer.result() is ErrorCode.NONE
    assert ticks > 0
    sizes = [header(batch).record_count for _, batch in broker.log.batches[1:]]
    assert sizes == [limits.REMOVALS_PER_STEP] * 4


def test_a_deadline_is_not_delayed_by_a_long_deletion(broker: Broker) -> None:
    partitions = limits.REMOVALS_PER_STEP * 20
    offsets = tuple(OffsetToCommit("t", partition, 1) for partition in range(partitions))
    broker.coordinator.commit_offsets(CommitRequest("g", "", None, -1, offsets))
    broker.coordinator.tick()
    broker.join().result()
    broker.clock.advance(10_000)
    broker.coordinator.topic_deleted("t")

    broker.coordinator.tick()

    assert len(broker.log.batches) < 20
    assert broker.coordinator.describe_group("g").result().state is GroupState.EMPTY


def test_work_over_all_groups_takes_no_more_of_a_turn_than_other_work(
    broker: Broker,
) -> None:
    partitions = limits.REMOVALS_PER_STEP * 4
    offsets = tuple(OffsetToCommit("t", partition, 1) for partition in range(partitions))
    broker.coordinator.commit_offsets(CommitRequest("g", "", None, -1, offsets))
    broker.wakes.clear()

    broker.coordinator.topic_deleted("t")
    written = [len(broker.log.batches) - 1]
    while broker.coordinator.tick() == broker.clock.monotonic_ms():
        written.append(len(broker.log.batches) - 1)

    assert broker.wakes == [broker.clock.monotonic_ms()]
    assert written[:3] == [0, 2, 4]
    assert broker.committed() is None


def test_deletions_that_cannot_be_finished_are_refused_even_if_not_begun(broker: Broker) -> None:
    partitions = limits.REMOVALS_PER_STEP * 8
    offsets = tuple(OffsetToCommit("t", partition, 1) for partition in range(partitions))
    broker.coordinator.commit_offsets(CommitRequest("g", "", None, -1, offsets))

    answers = [broker.coordinator.delete_group("g") for _ in range(2)]
    broker.log.fail()
    broker.coordinator.tick()

    assert {each.result() for each in answers} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_groups_are_listed_by_partition_and_not_while_one_loads(broker: Broker) -> None:
    number = broker.coordinator.partition_for("g")
    assert broker.coordinator.within_reach() == []

    broker.commit(5)
    listed = broker.coordinator.list_groups(number, ListGroupsRequest()).result()
    broker.coordinator = broker.start()
    broker.coordinator.expect([number])
    loading = broker.coordinator.list_groups(number, ListGroupsRequest()).result()

    assert [each.group_id for each in listed.groups] == ["g"]
    assert broker.coordinator.within_reach() == [number]
    assert (loading.error, loading.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())


def test_control_batches_and_records_of_other_kinds_are_skipped(broker: Broker) -> None:
    broker.commit(5)
    broker.log.append_internal(
        batch_of(
            [(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00", ())],
            0,
            is_control=True,
            is_transactional=True,
            producer_id=1,
            producer_epoch=0,
        )
    )
    broker.log.append_internal(batch_of([(b"\x00\x0b\x00\x01g", b"", ())], 0))
    broker.coordinator = broker.start()

    assert broker.committed() == 5


# ---- time ----------------------------------------------------------------------------------------


def test_the_loop_is_woken_for_a_deadline_and_given_the_next(broker: Broker) -> None:
    broker.join().result()
    asked_ms = min(broker.wakes)

    broker.clock.advance(asked_ms - broker.clock.monotonic_ms())
    next_ms = broker.coordinator.tick()

    assert asked_ms == 10_000
    assert broker.coordinator.describe_group("g").result().state is GroupState.EMPTY
    assert next_ms == 600_000


def test_a_group_whose_sessions_failed_to_start_after_a_load_starts_them_on_request(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.join().result()
    broker.coordinator.sync_group(SyncRequest("g", "c-1", None, 1, {"c-1": b""}))
    broker.coordinator = broker.start()

    def fail(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    with monkeypatch.context() as broken:
        broken.setattr(ClassicGroup, "resume", fail)
        broker.coordinator.recovered(broker.coordinator.partition_for("g"), is_empty=False)
        with pytest.raises(RuntimeError):
            broker.coordinator.tick()

    assert broker.heartbeat("c-1", 1) is ErrorCode.NONE
    broker.clock.advance(10_000)
    broker.coordinator.tick()
    assert broker.coordinator.describe_group("g").result().state is GroupState.EMPTY


def test_offsets_expire_at_the_first_check_after_their_retention(broker: Broker) -> None:
    broker.commit(5)
    broker.clock.advance(7 * 24 * 3_600_000)

    broker.coordinator.tick()

    assert broker.committed() is None
