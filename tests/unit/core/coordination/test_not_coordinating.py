"""What a coordinator does that does not lead its partition (src/broker/core/README.md).

The requests ask a toy machine for a decision of one record, which the log makes durable when a test
says so.
"""

from asyncio import Future, new_event_loop
from collections.abc import Iterator
from functools import partial
from itertools import repeat

import pytest

from broker.core.coordination.coordinator import Waiter, put_response
from broker.core.coordination.machine import Decision, Moment, RecordFormat, Token
from broker.core.coordination.partitions import CoordinatorPartitions, Environment
from broker.model import limits
from broker.model.errors import ErrorCode
from tests.support.batches import batch_of
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import MemoryLog


class Shard:
    """A machine that answers each command after one record."""

    pending = None

    def __init__(self) -> None:
        self.replayed: list[str] = []
        self.ticks = 0
        self.waiters: list[Token] = []

    def command(self, token: Token, _now: Moment) -> Decision[str, ErrorCode]:
        return Decision(records=("r",), replies=((token, ErrorCode.NONE),))

    def replay(self, record: str) -> None:
        self.replayed.append(record)

    def waiting(self) -> list[Token]:
        return self.waiters

    def resume(self, _now: Moment) -> Iterator[Decision[str, ErrorCode]]:
        return iter(())

    def tick(self, _now: Moment) -> Iterator[Decision[str, ErrorCode]]:
        self.ticks += 1
        return repeat(Decision(records=("timeout",)), 1)

    def expire(self, _now: Moment) -> Iterator[Decision[str, ErrorCode]]:
        return iter(())

    def next_deadline_ms(self) -> int | None:
        return None


class Broker:
    """One coordinator partition, and the log of it."""

    def __init__(self, *, syncs: bool = True) -> None:
        self.loop = new_event_loop()
        self.is_named = False
        self.log = MemoryLog(syncs=syncs)
        self.clock = ManualClock()
        self.wakes: list[int] = []
        self.shards: list[Shard] = []
        environment = Environment(
            lambda _: self.log,
            self.loop.create_future,
            self.clock,
            self.wakes.append,
            lambda: 1,
            lambda _: self.log.is_led,
            lambda _: self.is_named,
        )
        self.partitions: CoordinatorPartitions[str, ErrorCode, Shard] = CoordinatorPartitions(
            "toys",
            1,
            environment,
            RecordFormat(lambda record: (record.encode(), b""), lambda key, _: key.decode()),
            self.make,
            expiry_interval_ms=1_000,
            can_resume_partly=True,
        )

    def make(self, _number: int) -> Shard:
        self.shards.append(Shard())
        return self.shards[-1]

    def ask(self) -> Future[ErrorCode]:
        return self.partitions.serve("key", Shard.command, lambda error: error)


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    broker.partitions.recovered(0, is_empty=False)
    broker.partitions.tick()
    yield broker
    broker.loop.close()


@pytest.fixture
def slow() -> Iterator[Broker]:
    """What is appended is not durable until a test says so."""
    broker = Broker(syncs=False)
    broker.partitions.recovered(0, is_empty=False)
    broker.partitions.tick()
    broker.log.sync()
    yield broker
    broker.loop.close()


def test_a_request_is_answered_while_the_partition_is_led(broker: Broker) -> None:
    assert broker.ask().result() is ErrorCode.NONE


def test_a_coordinator_that_it_is_no_longer_refuses_with_not_coordinator(slow: Broker) -> None:
    waiting = slow.ask()

    slow.partitions.resign(0)

    assert waiting.result() is ErrorCode.NOT_COORDINATOR


def test_a_coordinator_that_it_is_not_yet_refuses_with_load_in_progress(broker: Broker) -> None:
    broker.partitions.resign(0)
    broker.partitions.expect([0])

    assert broker.ask().result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    broker.partitions.recovered(0, is_empty=False)
    broker.partitions.tick()
    assert broker.ask().result() is ErrorCode.NONE


def test_a_request_after_the_lease_gets_not_coordinator_and_appends_nothing(
    broker: Broker,
) -> None:
    broker.log.is_led = False

    assert broker.ask().result() is ErrorCode.NOT_COORDINATOR
    assert broker.log.log_end_offset == broker.log.high_watermark
    assert "r" not in broker.shards[-1].replayed


def test_a_request_while_an_earlier_run_is_still_named_is_told_to_ask_here_again(
    broker: Broker,
) -> None:
    broker.log.is_led = False
    broker.is_named = True

    assert broker.ask().result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    broker.partitions.resign(0)
    assert broker.ask().result() is ErrorCode.NOT_COORDINATOR


def test_a_decision_that_is_durable_only_after_the_lease_gets_not_coordinator(
    slow: Broker,
) -> None:
    asked = slow.ask()
    assert not asked.done()

    slow.log.is_led = False
    slow.log.sync()

    assert asked.result() is ErrorCode.NOT_COORDINATOR


def test_a_request_that_waits_for_others_gets_not_coordinator_after_the_lease(
    broker: Broker,
) -> None:
    """Such as a JoinGroup: its answer would be one of a coordinator that may have moved."""
    waiting: Future[ErrorCode] = broker.loop.create_future()
    broker.shards[-1].waiters.append(_waiter(waiting))
    broker.log.is_led = False

    broker.partitions.tick()

    assert waiting.result() is ErrorCode.NOT_COORDINATOR


def test_time_does_not_pass_for_a_machine_after_the_lease(broker: Broker) -> None:
    before = broker.log.log_end_offset
    broker.log.is_led = False

    for _ in range(4):
        broker.partitions.tick()
        broker.clock.advance(60_000)
        deadline = broker.partitions.tick()
        assert deadline > broker.clock.monotonic_ms(), "it is not called again at once, for ever"

    assert broker.log.log_end_offset == before
    assert len(broker.shards) == 1, "its log is not loaded again and again"


def test_a_coordinator_serves_again_by_itself_when_its_lease_was_renewed_late(
    broker: Broker,
) -> None:
    assert broker.ask().result() is ErrorCode.NONE
    broker.log.is_led = False
    broker.partitions.tick()
    broker.log.is_led = True

    broker.clock.advance(10_000)
    broker.partitions.tick()

    assert broker.ask().result() is ErrorCode.NONE
    assert broker.shards[-1].replayed.count("r") == 2, "its state was loaded from the log"


@pytest.mark.parametrize("is_at_once", [True, False])
def test_replies_that_replicas_do_not_confirm_are_refused_and_the_state_stays(
    slow: Broker, is_at_once: bool
) -> None:
    slow.log.is_replicated = True
    asked, asked_later = slow.ask(), slow.ask()
    if is_at_once:
        slow.log.lose_replicas()
    else:
        slow.clock.advance(limits.COORDINATOR_REPLY_MS - 1)
        slow.partitions.tick()
        assert not asked.done()
        slow.clock.advance(1)
        assert min(slow.wakes) <= slow.clock.monotonic_ms()
        slow.partitions.tick()

    assert asked.result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert asked_later.result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert slow.shards[-1].replayed.count("r") == 2
    count = len(slow.shards)

    slow.log.lacks_replicas = False
    again = slow.ask()
    slow.log.sync()

    assert again.result() is ErrorCode.NONE
    assert slow.shards[-1].replayed.count("r") == 3
    assert len(slow.shards) == count, "it was not loaded again"


@pytest.mark.parametrize("is_at_once", [True, False])
def test_what_a_broker_owes_itself_waits_until_replicas_confirm_it(
    slow: Broker, *, is_at_once: bool
) -> None:
    slow.log.is_replicated = True
    owed: Future[ErrorCode] = slow.loop.create_future()
    waiter: Token = Waiter(partial(put_response, owed), lambda error: error, is_patient=True)

    def command(shard: Shard, token: Token, now: Moment) -> Decision[str, ErrorCode]:
        decision = shard.command(token, now)
        return Decision(decision.records, (*decision.replies, (waiter, ErrorCode.NONE)))

    asked = slow.partitions.serve("key", command, lambda error: error)
    for _ in range(2):
        if is_at_once:
            slow.log.lose_replicas()
        else:
            slow.clock.advance(limits.COORDINATOR_REPLY_MS)
            slow.partitions.tick()
        assert asked.result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not owed.done()

    slow.log.lacks_replicas = False
    slow.log.sync()

    assert owed.result() is ErrorCode.NONE


def test_commands_are_refused_at_once_while_too_few_replicas_are_in_sync(slow: Broker) -> None:
    slow.log.is_replicated = True
    slow.log.lose_replicas()
    end = slow.log.log_end_offset

    assert slow.ask().result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert slow.log.log_end_offset == end


def test_a_load_waits_for_replicas_however_often_there_are_too_few(slow: Broker) -> None:
    slow.log.is_replicated = True
    slow.log.append_internal(batch_of([(b"r", b"", ())], 0))
    slow.log.lacks_replicas = True
    slow.partitions.resign(0)
    slow.partitions.expect([0])
    slow.partitions.recovered(0, is_empty=False)
    for _ in range(3):
        slow.partitions.tick()
        slow.log.lose_replicas()
        assert slow.ask().result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    slow.log.lacks_replicas = False
    slow.log.sync()
    for _ in range(5):
        slow.partitions.tick()

    assert slow.partitions.shard(0) is not None


def _waiter(future: Future[ErrorCode]) -> Token:
    return Waiter(partial(put_response, future), lambda error: error)
