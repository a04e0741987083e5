"""Offsets committed in a transaction: when they count, also across a reload."""

import asyncio
from collections.abc import Iterator

import pytest

from broker.codec.control_records import Marker
from broker.core.coordination.partitions import Environment
from broker.core.groups.commands.offsets import CommitRequest, FetchOffsetsRequest, OffsetToCommit
from broker.core.groups.coordinator import GroupCoordinator
from broker.model import limits
from broker.model.errors import ErrorCode
from tests.support.fakes import FakeTopics
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import MemoryLog

PRODUCER, OTHER = 7, 8


class Groups:
    """A coordinator over one log."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.reload()

    def reload(self) -> None:
        environment = Environment(
            lambda _: self.log, self.loop.create_future, self.clock, lambda _: None
        )
        self.groups = GroupCoordinator(environment, topics=FakeTopics(), partition_count=1)

    def commit(self, offset: int, producer_id: int | None = None, partition: int = 0) -> ErrorCode:
        request = CommitRequest(
            "g",
            "",
            None,
            -1,
            (OffsetToCommit("t", partition, offset),),
            None if producer_id is None else (producer_id, 0),
        )
        [error] = self.groups.commit_offsets(request).result().errors
        return error

    def end(self, *, is_committed: bool, producer_id: int = PRODUCER) -> asyncio.Future[ErrorCode]:
        answer: asyncio.Future[ErrorCode] = self.loop.create_future()
        self.groups.end_transaction(0, Marker(producer_id, 0, is_committed, 0), answer.set_result)
        return answer

    def committed(self, partition: int = 0) -> int | None:
        request = FetchOffsetsRequest("g", {"t": (partition,)})
        found = self.groups.fetch_offsets(request).result().topics["t"][partition]
        return None if found is None else found.offset

    def is_pending(self, partition: int = 0) -> bool:
        [shard] = self.groups.shards()
        return shard.offsets.has_pending("g", "t", partition)


@pytest.fixture
def groups() -> Iterator[Groups]:
    loop = asyncio.new_event_loop()
    yield Groups(loop)
    loop.close()


@pytest.mark.parametrize("reloads", [False, True])
def test_an_offset_of_an_open_transaction_is_not_committed_yet(
    groups: Groups, reloads: bool
) -> None:
    groups.commit(3)
    groups.commit(5, PRODUCER)
    if reloads:
        groups.reload()

    assert groups.committed() == 3
    assert groups.is_pending()


@pytest.mark.parametrize("reloads", [False, True])
@pytest.mark.parametrize(("is_committed", "expected"), [(True, 5), (False, None)])
def test_a_marker_decides_the_pending_offsets_of_its_producer(
    groups: Groups, reloads: bool, is_committed: bool, expected: int | None
) -> None:
    groups.commit(5, PRODUCER)
    groups.commit(6, PRODUCER + 1, partition=1)
    if reloads:
        groups.reload()
        groups.committed()

    assert groups.end(is_committed=is_committed).result() is ErrorCode.NONE
    if reloads:
        groups.reload()

    assert groups.committed() == expected
    assert not groups.is_pending()
    assert groups.is_pending(1)


def test_a_later_commit_outside_the_transaction_wins(groups: Groups) -> None:
    groups.commit(5, PRODUCER)
    groups.commit(4)
    groups.end(is_committed=True)

    assert groups.committed() == 4


@pytest.mark.parametrize("reloads", [False, True])
@pytest.mark.parametrize(
    ("said", "ended", "expected"),
    [
        ((PRODUCER, OTHER), (PRODUCER, OTHER), 2),
        ((PRODUCER, OTHER), (OTHER, PRODUCER), 2),
        ((PRODUCER, OTHER, PRODUCER), (OTHER, PRODUCER), 3),
        ((PRODUCER, OTHER, PRODUCER), (PRODUCER, OTHER), 3),
    ],
)
def test_of_two_transactions_the_later_commit_wins_whichever_ends_first(
    groups: Groups,
    said: tuple[int, ...],
    ended: tuple[int, ...],
    expected: int,
    reloads: bool,
) -> None:
    """Kafka compares the positions of the offsets in the log, as compaction does."""
    for offset, producer_id in enumerate(said, 1):
        groups.commit(offset, producer_id)

    for producer_id in ended:
        groups.end(is_committed=True, producer_id=producer_id)
    if reloads:
        groups.reload()

    assert groups.committed() == expected
    assert not groups.is_pending()


def test_an_abort_of_the_later_commit_keeps_the_earlier_one(groups: Groups) -> None:
    groups.commit(1, PRODUCER)
    groups.commit(2, OTHER)

    groups.end(is_committed=False, producer_id=OTHER)
    groups.end(is_committed=True)

    assert groups.committed() == 1


def test_a_deleted_topic_does_not_reappear_with_a_marker(groups: Groups) -> None:
    groups.commit(5, PRODUCER)
    groups.groups.topic_deleted("t")
    groups.end(is_committed=True)
    groups.groups.tick()

    assert groups.committed() is None


@pytest.mark.parametrize("before", [None, 5])
def test_an_offset_of_a_transaction_sent_after_a_topics_deletion_is_kept(
    groups: Groups, before: int | None
) -> None:
    if before is not None:
        groups.commit(before)
    groups.groups.topic_deleted("t")
    groups.clock.advance(1)
    groups.commit(7, PRODUCER)
    groups.groups.tick()

    groups.end(is_committed=True)

    assert groups.committed() == 7


def test_a_marker_is_answered_when_it_is_durable(groups: Groups) -> None:
    groups.commit(5, PRODUCER)
    groups.log.syncs = False
    answer = groups.end(is_committed=True)

    assert not answer.done()
    groups.log.sync()
    assert answer.result() is ErrorCode.NONE


def test_a_marker_with_a_failed_log_is_refused(groups: Groups) -> None:
    groups.commit(5, PRODUCER)
    groups.log.fail()

    assert groups.end(is_committed=True).result() is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_group_with_only_pending_offsets_is_removed_by_an_abort(groups: Groups) -> None:
    groups.commit(5, PRODUCER)
    [shard] = groups.groups.shards()
    assert list(shard.groups) == ["g"]

    groups.end(is_committed=False)

    assert not shard.groups


def test_pending_offsets_count_until_their_transaction_ends(groups: Groups) -> None:
    groups.commit(1, partition=1)
    [shard] = groups.groups.shards()
    before = shard.memory_usage

    groups.commit(5, PRODUCER)
    groups.commit(6, PRODUCER)
    groups.commit(7, OTHER, partition=1)
    groups.commit(8, partition=0)  # overtakes the first
    assert shard.memory_usage[1] > before[1] + 2 * limits.OFFSET_BYTES
    groups.end(is_committed=False)
    groups.end(is_committed=True, producer_id=OTHER)

    assert shard.offsets.memory_bytes == 2 * limits.OFFSET_BYTES
