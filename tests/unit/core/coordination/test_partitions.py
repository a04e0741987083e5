"""How partitions share a turn, and what an exception of a machine does: with a toy machine."""

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, TypeAlias

import pytest

from broker.core.coordination.machine import Decision, Moment, RecordFormat, Token
from broker.core.coordination.partitions import CoordinatorPartitions, Environment
from broker.model import limits
from broker.model.errors import DiskFull, ErrorCode, StorageError, TooFewReplicas
from broker.model.guarded_clock import GuardedClock
from tests.support.batches import batch_of
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import MemoryLog

EXPIRY_MS = 1_000
DAY_MS = 86_400_000
Steps: TypeAlias = Iterator[Decision[str, ErrorCode]]


class Shard:
    """A machine that counts its decisions of each kind, and does as told."""

    pending = None

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.replayed: list[str] = []
        self.resuming = self.ticking = self.expiring = 0  # how many decisions each makes
        self.weight = 0
        self.records: tuple[str, ...] = ()
        self.deadline_ms: int | None = None
        self.fails = ""
        self.moments: dict[str, Moment] = {}  # the last argument of each kind

    def replay(self, record: str) -> None:
        if self.fails == "replay":
            raise RuntimeError("a mistake of ours")
        self.replayed.append(record)

    def waiting(self) -> list[Token]:
        return []

    def steps(self, name: str, count: int) -> Steps:
        for _ in repeat(None, count):
            self.taken.append(name)
            yield Decision(records=self.records, weight=self.weight)
        if self.fails == name:
            raise RuntimeError("a mistake of ours")

    def resume(self, now: Moment) -> Steps:
        self.moments["resume"] = now
        return self.steps("resume", self.resuming)

    def tick(self, now: Moment) -> Steps:
        self.moments["tick"] = now
        return self.steps("tick", self.ticking)

    def expire(self, now: Moment) -> Steps:
        self.moments["expire"] = now
        return self.steps("expire", self.expiring)

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms


class Broker:
    """Two partitions, whose machines a test prepares."""

    def __init__(self, prepare: Callable[[Shard], None], *, can_resume_partly: bool = True) -> None:
        self.machine = ManualClock()
        self.clock = GuardedClock(self.machine, "boot", None, 0)
        self.wakes: list[int] = []
        self.prepare = prepare
        self.made: list[tuple[int, Shard]] = []
        self.logs = logs = [MemoryLog(), MemoryLog()]
        self.partitions: CoordinatorPartitions[str, ErrorCode, Shard] = CoordinatorPartitions(
            "toys",
            2,
            Environment(logs.__getitem__, self.create_future, self.clock, self.wakes.append),
            RecordFormat(lambda record: (record.encode(), b""), lambda key, _: key.decode()),
            self.make,
            expiry_interval_ms=EXPIRY_MS,
            can_resume_partly=can_resume_partly,
        )

    def create_future(self) -> Any:
        raise AssertionError("no requests arrive")

    def make(self, number: int) -> Shard:
        shard = Shard()
        self.prepare(shard)
        self.made.append((number, shard))
        return shard

    def load(self, number: int) -> Shard:
        self.partitions.recovered(number, is_empty=False)
        return self.made[-1][1]

    def turn(self) -> None:
        self.partitions.tick()


def leisurely(_shard: Shard) -> None:
    """Prepare a machine without work."""


def test_partitions_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COORDINATOR_DECISIONS_PER_TURN", 1)

    def prepare(shard: Shard) -> None:
        shard.expiring = 3

    broker = Broker(prepare)
    shards = [broker.load(0), broker.load(1)]
    for _ in range(2):
        broker.turn()
    broker.machine.advance(EXPIRY_MS)

    for _ in range(4):
        broker.turn()

    assert [len(shard.taken) for shard in shards] == [2, 2]


@pytest.mark.parametrize("turns", [0, 1])  # Each turn begins with the other partition.
def test_a_loaded_partition_ticks_before_other_work(turns: int) -> None:
    def prepare(shard: Shard) -> None:
        shard.expiring = 1_000

    broker = Broker(prepare)
    broker.load(0)
    for _ in range(1 + turns):
        broker.turn()
    broker.prepare = lambda shard: setattr(
        shard, "resuming", limits.COORDINATOR_DECISIONS_PER_TURN + 1
    )
    loaded = broker.load(1)
    broker.machine.advance(EXPIRY_MS)
    loaded.ticking = 1

    broker.turn()
    broker.turn()

    assert "tick" in loaded.taken


def test_unlimited_deadlines_leave_time_for_other_work() -> None:
    broker = Broker(leisurely)
    shard = broker.load(0)
    broker.turn()
    shard.ticking = 1_000
    shard.expiring = 2

    broker.machine.advance(EXPIRY_MS)
    broker.turn()

    assert shard.taken.count("expire") == 2
    assert len(shard.taken) <= limits.COORDINATOR_DECISIONS_PER_TURN


def test_deadlines_get_the_whole_turn_when_there_is_no_other_work() -> None:
    broker = Broker(leisurely)
    shard = broker.load(0)
    broker.turn()
    shard.ticking = 1_000

    broker.turn()

    assert shard.taken == ["tick"] * limits.COORDINATOR_DECISIONS_PER_TURN


def test_a_slice_of_a_long_computation_weighs_as_much_as_many_decisions() -> None:
    broker = Broker(leisurely)
    shard = broker.load(0)
    broker.turn()
    shard.ticking = 1_000
    shard.weight = limits.COORDINATOR_SLICE_DECISIONS

    broker.turn()

    assert shard.taken == ["tick"]


def test_a_partition_that_failed_to_resume_some_groups_still_ticks() -> None:
    def prepare(shard: Shard) -> None:
        shard.fails, shard.ticking = "resume", 1

    broker = Broker(prepare)
    shard = broker.load(0)
    with pytest.raises(RuntimeError):
        broker.turn()

    broker.turn()

    assert shard.taken == ["tick"]


def test_a_partition_that_must_resume_whole_is_loaded_again() -> None:
    def prepare(shard: Shard) -> None:
        shard.fails = "resume"

    broker = Broker(prepare, can_resume_partly=False)
    broker.load(0)
    with pytest.raises(RuntimeError):
        broker.turn()
    assert broker.partitions.shard(0) is None

    broker.prepare = leisurely
    broker.machine.advance(limits.LOAD_RETRY_MS)
    broker.turn()

    assert [number for number, _ in broker.made] == [0, 0]
    assert broker.partitions.shard(0) is broker.made[-1][1]


def test_after_a_failed_turn_the_loop_is_woken_for_the_next_deadline() -> None:
    broker = Broker(leisurely)
    shard = broker.load(0)
    broker.turn()
    shard.fails = "tick"
    broker.machine.advance(EXPIRY_MS)
    with pytest.raises(RuntimeError):
        broker.turn()
    broker.wakes.clear()

    broker.load(1)

    assert min(broker.wakes) == broker.clock.monotonic_ms()


@pytest.mark.parametrize("days", [1, -1])
def test_a_wall_clock_step_expires_nothing_and_no_session(days: int) -> None:
    broker = Broker(leisurely)
    broker.machine.set_wall_ms(broker.machine.wall_ms() + days * DAY_MS)
    shard = broker.load(0)
    for _ in range(2):
        broker.turn()
    broker.machine.advance(EXPIRY_MS)
    shard.deadline_ms = broker.machine.monotonic_ms()
    broker.turn()

    monotonic_ms = broker.machine.monotonic_ms()
    assert shard.moments["resume"] == Moment(0, 0)
    assert shard.moments["expire"] == Moment(monotonic_ms, 0)
    behind_ms = max(0, -days) * DAY_MS  # a timestamp is never older than the true clock
    assert shard.moments["tick"] == Moment(monotonic_ms, broker.machine.wall_ms() + behind_ms)


@pytest.mark.parametrize("refusal", [DiskFull, TooFewReplicas])
def test_a_partition_whose_own_work_cannot_be_written_is_loaded_again_later(
    monkeypatch: pytest.MonkeyPatch, refusal: type[StorageError]
) -> None:
    def prepare(shard: Shard) -> None:
        shard.expiring, shard.records = 1_000_000, ("expired",)

    def full(batch: bytes) -> int:
        raise refusal(f"no room for {len(batch)} bytes")

    broker = Broker(prepare)
    shard = broker.load(0)
    broker.turn()
    monkeypatch.setattr(broker.logs[0], "append_internal", full)
    broker.machine.advance(EXPIRY_MS)

    for _ in range(10):
        broker.turn()

    assert shard.taken == ["expire"]
    assert broker.made == [(0, shard)]
    broker.machine.advance(limits.LOAD_RETRY_MS)
    broker.turn()
    assert [number for number, _ in broker.made] == [0, 0]


@pytest.mark.parametrize("refusal", [DiskFull, TooFewReplicas])
def test_a_request_that_cannot_be_written_now_is_refused_and_the_partition_stays(
    monkeypatch: pytest.MonkeyPatch, refusal: type[StorageError]
) -> None:
    def decide(_shard: Shard, token: Token, _now: Moment) -> Decision[str, ErrorCode]:
        return Decision(records=["x"], replies=[(token, ErrorCode.NONE)])

    def refuse(_batch: bytes) -> int:
        raise refusal("not now")

    broker = Broker(leisurely)
    shard = broker.load(0)
    broker.turn()
    monkeypatch.setattr(broker.logs[0], "append_internal", refuse)
    responses: list[ErrorCode] = []

    broker.partitions.serve_to(0, decide, responses.append, lambda error: error)

    assert responses == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert broker.partitions.shard(0) is shard


def test_a_request_refused_by_an_unload_gets_no_second_response() -> None:
    def decide(_shard: Shard, token: Token, _now: Moment) -> Decision[str, ErrorCode]:
        return Decision(records=["x"], replies=[(token, ErrorCode.NONE)])

    broker = Broker(leisurely)
    log = broker.logs[0]
    broker.load(0)
    broker.turn()
    log.syncs = False
    responses: list[ErrorCode] = []
    broker.partitions.serve_to(0, decide, responses.append, lambda error: error)
    assert responses == []

    broker.partitions.close()
    log.sync()

    assert responses == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.timeout(10)
def test_a_log_that_lost_its_end_is_loaded_without_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker(leisurely)
    broker.logs[0].log_end_offset = broker.logs[0].high_watermark = 2

    broker.load(0)
    broker.turn()

    assert "set records aside partition=toys-0 count=2 offsets=0" in caplog.messages[0]
    assert broker.partitions.shard(0) is not None


def test_a_partition_whose_load_fails_is_loaded_again_later() -> None:
    broker = Broker(lambda shard: setattr(shard, "fails", "replay"))
    broker.logs[0].append_internal(batch_of([(b"x", b"", ())], 0))
    broker.load(0)
    with pytest.raises(RuntimeError):
        broker.turn()
    assert broker.partitions.shard(0) is None
    next_ms = broker.partitions.tick()

    broker.prepare = leisurely
    broker.machine.advance(limits.LOAD_RETRY_MS)
    broker.turn()

    assert next_ms == limits.LOAD_RETRY_MS
    assert [number for number, _ in broker.made] == [0, 0]
    assert broker.partitions.shard(0) is broker.made[-1][1]


def test_a_load_skips_the_damage_known_when_it_starts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A log first refuses the rest of a segment, and then finds out what of it is damaged."""
    broker = Broker(leisurely)
    log = broker.logs[0]
    for name in b"abcdef":
        log.append_internal(batch_of([(bytes([name]), b"", ())], 0))
    log.damaged_ranges = [(2, 6)]
    broker.load(0)
    broker.turn()
    assert broker.partitions.shard(0) is None

    log.damaged_ranges = [(2, 4)]
    for _ in range(2):  # the first load that meets this range fails, too
        broker.machine.advance(limits.LOAD_RETRY_MS)
        for _ in range(3):
            broker.turn()

    shard = broker.partitions.shard(0)
    assert shard is not None
    assert shard.replayed == ["a", "b", "e", "f"]
    assert broker.partitions.lost_count == 2
    assert "count=2 offsets=2,... first_error=damaged on the disk" in caplog.messages[-1]


# ---- other brokers lead them ---------------------------------------------------------------------


def ask(broker: Broker, number: int, *records: str) -> list[ErrorCode]:
    """Let a command append records; its answers so far."""
    answers: list[ErrorCode] = []

    def command(_shard: Shard, token: Token, _now: Moment) -> Decision[str, ErrorCode]:
        return Decision(records=records, replies=[(token, ErrorCode.NONE)])

    broker.partitions.serve_to(number, command, answers.append, lambda error: error)
    return answers


def test_a_resigned_partition_refuses_requests_while_its_log_is_closed() -> None:
    """The log is still there for a while: opening it would load a log that is about to go."""
    broker = Broker(leisurely)
    broker.load(0)
    broker.turn()
    assert ask(broker, 0) == [ErrorCode.NONE]

    broker.partitions.resign(0)

    assert ask(broker, 0) == [ErrorCode.NOT_COORDINATOR]
    broker.turn()
    assert len(broker.made) == 1
    assert ask(broker, 1) == [ErrorCode.NONE]


def test_requests_that_wait_for_the_disk_are_refused_when_another_broker_leads() -> None:
    broker = Broker(leisurely)
    broker.logs[0].syncs = False
    broker.load(0)
    broker.turn()
    waiting = ask(broker, 0, "a")
    assert waiting == []

    broker.partitions.resign(0)
    broker.logs[0].sync()
    broker.turn()

    assert waiting == [ErrorCode.NOT_COORDINATOR]


def test_a_resigned_partition_appends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COORDINATOR_DECISIONS_PER_TURN", 1)
    broker = Broker(lambda shard: setattr(shard, "records", ("x",)))
    broker.load(0)
    broker.turn()
    broker.partitions.in_every_partition(lambda shard: shard.steps("work", 9))
    broker.turn()
    appended = broker.logs[0].log_end_offset
    assert appended

    broker.partitions.resign(0)
    broker.machine.advance(EXPIRY_MS)
    for _ in range(3):
        broker.turn()

    assert broker.logs[0].log_end_offset == appended


def test_a_partition_that_was_lost_while_its_log_was_loading_is_not_opened() -> None:
    broker = Broker(leisurely)
    broker.partitions.expect([0])
    assert ask(broker, 0) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    broker.partitions.resign(0)
    broker.partitions.recovered(0, is_empty=False)
    broker.turn()

    assert broker.made == []
    assert not broker.partitions.is_loading
    assert broker.partitions.is_complete
    assert ask(broker, 0) == [ErrorCode.NOT_COORDINATOR]


def test_a_partition_that_is_led_again_is_loaded_with_what_others_have_written() -> None:
    broker = Broker(leisurely)
    broker.load(0)
    broker.turn()
    ask(broker, 0, "a")
    broker.partitions.resign(0)
    broker.logs[0].append_internal(batch_of([(b"b", b"", ())], 0))

    broker.partitions.expect([0])
    assert ask(broker, 0) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    broker.partitions.recovered(0, is_empty=False)
    for _ in range(2):
        broker.turn()

    assert broker.made[-1][1].replayed == ["a", "b"]
    assert ask(broker, 0) == [ErrorCode.NONE]


def test_work_in_every_partition_covers_those_that_this_broker_leads() -> None:
    """The next coordinator of a lost partition does its own; a gained one is done once loaded."""
    broker = Broker(leisurely)
    lost = broker.load(0)
    broker.turn()
    broker.partitions.resign(0)
    broker.partitions.expect([1])
    assert broker.partitions.within_reach() == [1]

    broker.partitions.in_every_partition(lambda shard: shard.steps("work", 1))
    gained = broker.load(1)
    for _ in range(2):
        broker.turn()
    broker.partitions.expect([0])
    again = broker.load(0)
    for _ in range(2):
        broker.turn()

    assert lost.taken == again.taken == []
    assert gained.taken == ["work"]


def test_unfinished_work_of_a_lost_partition_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COORDINATOR_DECISIONS_PER_TURN", 1)
    broker = Broker(leisurely)
    broker.load(0)
    broker.turn()
    broker.partitions.in_every_partition(lambda shard: shard.steps("work", 9))
    broker.turn()

    broker.partitions.resign(0)
    broker.partitions.expect([0])
    again = broker.load(0)
    for _ in range(20):
        broker.turn()

    assert again.taken == []
