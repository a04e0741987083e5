"""The partitions of one internal topic: their state machines together are one coordinator.

A key (group id, transactional id) lives in the partition that it hashes to. That partition is
opened and loaded on first use. While it loads, and after its log has failed, commands are refused
with the retriable errors on which clients wait and look for their coordinator again.

Nothing here blocks: `tick` has to be called at the time given to `wake_at`. It takes a limited
number of decisions, and asks to be called again at once if there are more.
"""

import logging
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from broker.codec.control_records import Marker
from broker.core.coordination.coordinator import (
    CoordinatorPartition,
    PartitionState,
    Waiter,
    put_response,
)
from broker.core.coordination.machine import Decision, Machine, Moment, RecordFormat, Token
from broker.core.coordination.notes import Notes
from broker.core.logs.log import InternalLog
from broker.model import limits
from broker.model.clock import Clock
from broker.model.errors import ErrorCode, PolylogError

logger = logging.getLogger(__name__)

RecordT = TypeVar("RecordT")
ResponseT = TypeVar("ResponseT")
AnswerT = TypeVar("AnswerT")
_INT32_MIN = -(1 << 31)


class CreateFuture(Protocol):
    """An event loop's create_future."""

    def __call__(self) -> Future[AnswerT]:
        """Return a pending future."""


class Shard(Machine[RecordT], Protocol[RecordT, ResponseT]):
    """The machine of one partition: what a coordinator's machine has in addition to commands."""

    def resume(self, now: Moment) -> Iterable[Decision[RecordT, ResponseT]]:
        """Return what has to be done after a load, before time passes for the machine."""

    def tick(self, now: Moment) -> Iterator[Decision[RecordT, ResponseT]]:
        """Let time pass; each decision is applied before the next one is asked for."""

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time of the next tick; None if there is none."""

    def expire(self, now: Moment) -> Iterator[Decision[RecordT, ResponseT]]:
        """Remove what has expired; called at the coordinator's interval."""


ShardT = TypeVar("ShardT", bound=Shard[Any, Any])
# What has to be done with a shard: now, or once it is loaded.
Work: TypeAlias = Callable[[ShardT], Iterable[Decision[Any, Any]]]


class Environment(NamedTuple):
    """What a coordinator needs from outside.

    Attributes:
        open_log: returns the log of a partition, and creates the topic if need be; raises
            PolylogError while the log is not available.
        create_future: the event loop's.
        clock: for deadlines and for stored timestamps.
        wake_at: asks for a call of `tick` at this monotonic time in ms, or earlier.
        partition_count: how many partitions the topic has; None before it exists.
        is_led: returns whether this broker leads a partition, or will once the topic exists.
        is_named: returns whether an earlier run of this broker, which is starting, is named as the
            leader of a partition.
    """

    open_log: Callable[[int], InternalLog]
    create_future: CreateFuture
    clock: Clock
    wake_at: Callable[[int], None]
    partition_count: Callable[[], int | None] = lambda: None
    is_led: Callable[[int], bool] = lambda _: True
    is_named: Callable[[int], bool] = lambda _: False


class _Partition(Generic[RecordT, ResponseT, ShardT]):
    """A shard and its driver."""

    def __init__(
        self, number: int, driver: CoordinatorPartition[RecordT, ResponseT], shard: ShardT
    ) -> None:
        self.number = number
        self.driver = driver
        self.shard = shard
        self.is_resumed = False  # `resume` has finished: deadlines are checked
        # What has begun and is not finished: checks of deadlines, and everything else.
        self.ticking: deque[Iterator[Decision[RecordT, ResponseT]]] = deque()
        self.work: deque[Iterator[Decision[RecordT, ResponseT]]] = deque()


class CoordinatorPartitions(Generic[RecordT, ResponseT, ShardT]):
    """All partitions of one internal topic that this broker coordinates."""

    def __init__(  # noqa: PLR0913 (a topic, its machines, and what they need)
        self,
        topic: str,
        partition_count: int,
        environment: Environment,
        record_format: RecordFormat[RecordT],
        make_shard: Callable[[int], ShardT],
        *,
        expiry_interval_ms: int,
        can_resume_partly: bool,
    ) -> None:
        """Keep what it needs; nothing is opened yet.

        The topic is created with `partition_count` partitions; an existing one may have another
        count. A shard that fails while it resumes is loaded again, unless `can_resume_partly`.
        """
        self._topic = topic
        self._partition_count = partition_count
        self._environment = environment
        self._format = record_format
        self._make_shard = make_shard
        self._notes = Notes(environment.clock)
        self._expiry_interval_ms = expiry_interval_ms
        self._can_resume_partly = can_resume_partly
        self._expiry_ms = environment.clock.monotonic_ms() + expiry_interval_ms
        self._partitions: dict[int, _Partition[RecordT, ResponseT, ShardT]] = {}
        self._expected: set[int] = set()  # their logs are being recovered
        self._not_empty: set[int] = set()  # had records when they were recovered, or used since
        self._lost: set[int] = set()  # their disk has failed: unavailable until a restart
        self._resigned: set[int] = set()  # other brokers lead them; their logs may still be closing
        self._damages: dict[int, set[tuple[int, int]]] = {}  # that their loads have found so far
        # What has to be done in every partition: it is kept until a shard of it has done it all.
        self._unfinished: dict[int, list[Work[ShardT]]] = {}
        self._retry_ms: dict[int, int] = {}  # when a partition may be opened again
        self._turn = 0
        self._awake_at_ms: int | None = None  # the earliest time given to wake_at
        self._is_closed = False

    # ---- partitions ------------------------------------------------------------------------------

    def partition_for(self, key: str) -> int:
        """Return the partition of a key, computed as Kafka does.

        The count is the topic's own: the setting may have changed since it was created.
        """
        if len(key) > limits.COORDINATOR_KEY_CHARS_MAX:
            return 0  # no such key exists: any partition will answer so
        count = self._environment.partition_count() or self._partition_count
        hash_code = _java_hash(key)
        return 0 if hash_code == _INT32_MIN else abs(hash_code) % count

    def coordinates(self, key: str) -> bool:
        """Whether this broker is the coordinator of a key, or may become it with the topic."""
        return self._is_led(self.partition_for(key))

    def _is_led(self, number: int) -> bool:
        return number not in self._resigned and self._environment.is_led(number)

    @property
    def is_loading(self) -> bool:
        """Whether a partition that exists is not loaded yet."""
        return bool(self._expected) or any(
            each.driver.state is PartitionState.LOADING for each in self._partitions.values()
        )

    def numbers(self) -> list[int]:
        """Return every partition that may hold something, whether it can serve now or not."""
        return sorted(self._expected | self._not_empty)

    def within_reach(self) -> list[int]:
        """Return those that serve, or will: all but those whose disk has failed."""
        return [number for number in self.numbers() if number not in self._lost]

    def shards(self) -> Iterator[ShardT]:
        """Return every shard in memory, also of partitions that are being loaded."""
        return (each.shard for each in self._partitions.values())

    def shard(self, number: int) -> ShardT | None:
        """Return the shard of a partition that serves now, or None."""
        partition = self._partitions.get(number)
        is_active = partition is not None and partition.driver.state is PartitionState.ACTIVE
        return partition.shard if partition is not None and is_active else None

    @property
    def is_complete(self) -> bool:
        """Whether every partition that holds something is loaded."""
        return all(self.shard(number) is not None for number in self.numbers())

    @property
    def is_ready(self) -> bool:
        """Whether every partition that holds something is loaded, except on failed disks."""
        return all(self.shard(number) is not None for number in self.within_reach())

    @property
    def lost_count(self) -> int:
        """How many records of the partitions in memory could not be read."""
        return sum(each.driver.lost_count for each in self._partitions.values())

    def leader_epoch(self, number: int) -> int:
        """Return the coordinator epoch of a partition: the leader epoch of its log."""
        return self._partitions[number].driver.leader_epoch

    def expect(self, partitions: Iterable[int]) -> None:
        """Register partitions that exist and whose logs are still being recovered.

        They were led by this broker when it stopped, or it leads them from now on.
        """
        numbers = set(partitions)
        self._expected |= numbers
        self._resigned -= numbers

    def recovered(self, number: int, *, is_empty: bool) -> None:
        """Begin to load an expected partition, so that it is ready when its keys are asked for."""
        if number in self._resigned:  # lost while its log was being recovered
            return
        self._expected.discard(number)
        if is_empty:
            self._unfinished.pop(number, None)
        elif not self._is_closed:
            self._not_empty.add(number)
            # Many logs are recovered in one turn: each is loaded in turns of its own.
            self._partition(number, loads_now=False)

    def resign(self, number: int) -> None:
        """Stop to serve a partition that another broker leads now.

        Waiting requests get NOT_COORDINATOR, on which clients look for the coordinator again. From
        here on nothing is appended to its log, which is closed after this; `expect` ends that. Work
        for every partition is left to the next coordinator, as after a stop of the broker.
        """
        self._resigned.add(number)
        partition = self._partitions.pop(number, None)
        if partition is not None:
            partition.driver.unload(ErrorCode.NOT_COORDINATOR)
        for numbers in (self._expected, self._not_empty, self._lost):
            numbers.discard(number)
        self._unfinished.pop(number, None)
        self._retry_ms.pop(number, None)

    # ---- commands --------------------------------------------------------------------------------

    def serve(
        self,
        key: str,
        command: Callable[[ShardT, Token, Moment], Decision[RecordT, ResponseT]],
        refusal: Callable[[ErrorCode], AnswerT],
    ) -> Future[AnswerT]:
        """Have the shard of a key decide; the future gets its response, or the refusal."""
        future: Future[AnswerT] = self._environment.create_future()
        self.serve_to(self.partition_for(key), command, partial(put_response, future), refusal)
        return future

    def serve_to(
        self,
        number: int,
        command: Callable[[ShardT, Token, Moment], Decision[RecordT, ResponseT]],
        answer: Callable[[AnswerT], None],
        refusal: Callable[[ErrorCode], AnswerT],
    ) -> None:
        """Do as `serve`, for a partition by its number; `answer` is called with the response."""
        waiter = Waiter(answer, refusal)
        partition = self._ready(number, waiter)
        if partition is not None:
            partition.driver.apply(command(partition.shard, waiter, self._now()))
            self._wake_for(partition)

    def serve_in_steps(
        self,
        number: int,
        command: Callable[[ShardT, Token, Moment], Iterator[Decision[RecordT, ResponseT]]],
        refusal: Callable[[ErrorCode], AnswerT],
    ) -> Future[AnswerT]:
        """Do as `serve`, for a partition by its number and a command of many decisions."""
        future: Future[AnswerT] = self._environment.create_future()
        waiter = Waiter(partial(put_response, future), refusal)
        partition = self._ready(number, waiter)
        if partition is not None:
            steps = command(partition.shard, waiter, self._now())
            partition.work.append(partition.driver.until_answered(waiter, steps))
            self._run_work(partition, partition.work, limits.COORDINATOR_DECISIONS_PER_TURN)
            self._wake_for(partition)
        return future

    def end_transaction(
        self, number: int, marker: Marker, answer: Callable[[ErrorCode], None]
    ) -> None:
        """Write a marker, which decides the producer's pending records in that partition."""
        waiter = Waiter(answer, lambda error: error)
        partition = self._ready(number, waiter)
        if partition is not None:
            partition.driver.end_transaction(marker, waiter)
            self._wake_for(partition)

    def _ready(
        self, number: int, waiter: Waiter[AnswerT]
    ) -> _Partition[RecordT, ResponseT, ShardT] | None:
        """Return the partition if it can serve; otherwise refuse the request and return None."""
        if self._is_closed or not self._is_led(number):
            waiter.refuse(self._reason_of_refusal(number))
            return None
        if number in self._expected:
            waiter.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return None
        partition = self._partition(number)
        if partition is None or partition.driver.state is PartitionState.UNLOADED:
            waiter.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return None
        if partition.driver.state is PartitionState.LOADING:
            waiter.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return None
        return partition

    def _reason_of_refusal(self, number: int) -> ErrorCode:
        """Return why a partition is not served that this broker does not lead.

        After a crash others name this broker until its earlier registration has ended: whoever
        looked for another coordinator would be sent here again. librdkafka stays without offsets
        after NOT_COORDINATOR (its issue 5586).
        """
        if self._is_closed or number in self._resigned or not self._environment.is_named(number):
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def in_every_partition(self, work: Work[ShardT]) -> None:
        """Have work done in every partition that may hold something, once it is loaded."""
        for number in self.within_reach():
            self._unfinished.setdefault(number, []).append(work)
            partition = self._partitions.get(number)
            if partition is not None and partition.driver.state is PartitionState.ACTIVE:
                partition.work.append(self._finish(partition, work))
                self._wake_for(partition)

    def _finish(
        self, partition: _Partition[RecordT, ResponseT, ShardT], work: Work[ShardT]
    ) -> Iterator[Decision[RecordT, ResponseT]]:
        """Do work that is for every partition; it is done once its end has been reached."""
        yield from work(partition.shard)
        unfinished = self._unfinished[partition.number]
        unfinished.remove(work)
        if not unfinished:
            del self._unfinished[partition.number]

    # ---- time ------------------------------------------------------------------------------------

    def tick(self) -> int:
        """Load, check deadlines; return the monotonic time in ms of the next call."""
        now = self._now()
        awake_at_ms = None  # if this fails, the caller decides, or an earlier wake_at
        try:
            self._take_turn(now)
            awake_at_ms = self._next_deadline_ms(now)
        finally:
            self._awake_at_ms = awake_at_ms
        return awake_at_ms

    def _take_turn(self, now: Moment) -> None:
        is_expiry = now.monotonic_ms >= self._expiry_ms
        is_loading = False
        for number in list(self._not_empty):
            # Open it again without a request: its deadlines have to be checked all the same.
            if self._environment.is_led(number):
                self._partition(number, loads_now=False)
            else:  # its log is released soon, or the lease is renewed
                self._retry_later(number)
        for partition in list(self._partitions.values()):
            partition.driver.check()
            partition.driver.send_replies()
            partition.driver.refuse_late(now.monotonic_ms)
            if partition.driver.wants_load_step and not is_loading:
                is_loading = True  # one at a time, so that the first is ready as soon as possible
                self._load_step(partition)
            if is_expiry and partition.driver.state is PartitionState.ACTIVE:
                partition.work.append(partition.shard.expire(self._aged()))
        self._pass_time(now)
        if is_expiry:
            self._expiry_ms = now.monotonic_ms + self._expiry_interval_ms

    def _pass_time(self, now: Moment) -> None:
        """Take the decisions of this turn: those of deadlines first, a long expiry can wait.

        A share is kept for other work, since every turn may have deadlines, and its first users
        are partitions that have not resumed: their deadlines wait for it. Each turn begins with
        another partition, so that none takes the share of the others.
        """
        partitions = [
            each for each in self._partitions.values() if each.driver.state is PartitionState.ACTIVE
        ]
        first = self._turn % max(len(partitions), 1)
        partitions = partitions[first:] + partitions[:first]
        self._turn += 1
        has_work = any(partition.work for partition in partitions)
        share = limits.COORDINATOR_DECISIONS_PER_TURN // limits.COORDINATOR_WORK_SHARE
        kept = share if has_work else 0
        budget = limits.COORDINATOR_DECISIONS_PER_TURN - kept
        for partition in partitions:
            if partition.is_resumed and not partition.ticking:
                partition.ticking.append(partition.shard.tick(now))
            budget -= self._run_work(partition, partition.ticking, budget)
        budget = max(budget, 0) + kept
        for partition in sorted(partitions, key=lambda each: each.is_resumed):
            budget -= self._run_work(partition, partition.work, budget)

    def _next_deadline_ms(self, now: Moment) -> int:
        deadlines = [self._expiry_ms]
        for number in self._not_empty:
            partition = self._partitions.get(number)
            if partition is None or partition.driver.state is PartitionState.UNLOADED:
                deadlines.append(self._retry_ms[number])
            elif partition.driver.wants_load_step or partition.driver.has_replies:
                return now.monotonic_ms
            elif partition.driver.state is PartitionState.ACTIVE:
                if partition.work or partition.ticking:
                    return now.monotonic_ms
                both = partition.shard.next_deadline_ms(), partition.driver.due_ms
                deadlines.extend(each for each in both if each is not None)
        return min(deadlines)

    def _run_work(
        self,
        partition: _Partition[RecordT, ResponseT, ShardT],
        begun: deque[Iterator[Decision[RecordT, ResponseT]]],
        budget: int,
    ) -> int:
        """Take the next decisions of what has begun; return their count, weighted by size."""
        taken = 0
        while begun and taken < budget and partition.driver.state is PartitionState.ACTIVE:
            decision = next(begun[0], None)
            if decision is None:
                begun.popleft()
            else:
                size = len(decision.records) + len(decision.replies)
                taken += 1 + size // limits.COORDINATOR_DECISION_RECORDS + decision.weight
                if not partition.driver.apply(decision):
                    # Without a record of it, it would be decided again and again.
                    partition.driver.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                    self._retry_later(partition.number)
        return taken

    def close(self) -> None:
        """Stop serving: waiting requests get NOT_COORDINATOR, what was appended stays."""
        self._is_closed = True
        for partition in self._partitions.values():
            partition.driver.unload(ErrorCode.NOT_COORDINATOR)
        self._partitions.clear()
        self._not_empty.clear()

    # ---- opening and loading ---------------------------------------------------------------------

    def _partition(
        self, number: int, *, loads_now: bool = True
    ) -> _Partition[RecordT, ResponseT, ShardT] | None:
        """Return the partition, opened if need be; None if it is not available now."""
        partition = self._partitions.get(number)
        if partition is not None and partition.driver.state is not PartitionState.UNLOADED:
            return partition
        now_ms = self._environment.clock.monotonic_ms()
        if now_ms < self._retry_ms.get(number, now_ms):
            return None
        self._retry_later(number)
        self._partitions.pop(number, None)
        try:
            log = self._environment.open_log(number)
        except PolylogError as error:
            logger.warning(
                "coordinator unavailable partition=%s-%d error=%s", self._topic, number, error
            )
            return None
        if log.is_offline:  # until a restart: its pending work is dropped
            self._lost.add(number)
            self._unfinished.pop(number, None)
            return None
        return self._open(number, log, loads_now=loads_now)

    def _retry_later(self, number: int) -> None:
        """Open a partition that failed again after a delay, also without a request."""
        self._retry_ms[number] = self._environment.clock.monotonic_ms() + limits.LOAD_RETRY_MS
        if number in self._not_empty:
            self._wake(self._retry_ms[number])

    def _open(
        self, number: int, log: InternalLog, *, loads_now: bool
    ) -> _Partition[RecordT, ResponseT, ShardT]:
        shard = self._make_shard(number)
        driver: CoordinatorPartition[RecordT, ResponseT] = CoordinatorPartition(
            f"{self._topic}-{number}",
            log,
            shard,
            self._format,
            self._environment.clock,
            lambda: self._wake(self._environment.clock.monotonic_ms()),
            notes=self._notes,
            known_damages=self._damages.setdefault(number, set()),
        )
        partition = self._partitions[number] = _Partition(number, driver, shard)
        self._not_empty.add(number)
        if loads_now:
            self._load_step(partition)
        self._wake_for(partition)
        return partition

    def _load_step(self, partition: _Partition[RecordT, ResponseT, ShardT]) -> None:
        try:
            partition.driver.load_step()
        finally:
            if partition.driver.state is PartitionState.UNLOADED:
                self._retry_later(partition.number)
        if partition.driver.state is PartitionState.ACTIVE:
            partition.work.append(self._resume(partition))
            unfinished = self._unfinished.get(partition.number, ())
            partition.work.extend(self._finish(partition, work) for work in unfinished)
            self._run_work(partition, partition.work, limits.COORDINATOR_DECISIONS_PER_TURN)

    def _resume(
        self, partition: _Partition[RecordT, ResponseT, ShardT]
    ) -> Iterator[Decision[RecordT, ResponseT]]:
        """Resume a shard; a bug in one part of it must not stop the deadlines of the others."""
        try:
            yield from partition.shard.resume(self._aged())
        except Exception:
            if not self._can_resume_partly:
                partition.driver.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                self._retry_later(partition.number)
            raise
        finally:
            partition.is_resumed = True

    def _now(self) -> Moment:
        return Moment(self._environment.clock.monotonic_ms(), self._environment.clock.latest_ms())

    def _aged(self) -> Moment:
        """Return the time by which ages are computed: it never makes a record too old."""
        return Moment(self._environment.clock.monotonic_ms(), self._environment.clock.aged_ms())

    def _wake_for(self, partition: _Partition[RecordT, ResponseT, ShardT]) -> None:
        is_unloaded = partition.driver.state is PartitionState.UNLOADED
        if is_unloaded or partition.driver.wants_load_step or partition.work:
            self._wake(self._environment.clock.monotonic_ms())
        for deadline_ms in (partition.shard.next_deadline_ms(), partition.driver.due_ms):
            if deadline_ms is not None:
                self._wake(deadline_ms)

    def _wake(self, deadline_ms: int) -> None:
        """Ask to be called earlier than agreed."""
        if self._awake_at_ms is None or deadline_ms < self._awake_at_ms:
            self._awake_at_ms = deadline_ms
            self._environment.wake_at(deadline_ms)


@lru_cache(maxsize=limits.COORDINATOR_KEYS_REMEMBERED)
def _java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, as a signed 32-bit number.

    Cached, because every command of a key needs it, and a key may have a thousand units.
    """
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
