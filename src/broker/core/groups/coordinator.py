"""The group coordinator: the one face of groups and offsets that protocols and the broker see.

A group lives in the partition of `__consumer_offsets` that its name hashes to. That partition is
opened and loaded on first need; while it loads, and after its log has failed, requests are answered
with the retriable errors by which clients wait and look for their coordinator again.

Every call returns a future, most of them done. Nothing here waits: `tick` is to be called when the
time given to `wake_at` has come.
"""

import logging
from asyncio import Future
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, TypeVar

from broker.core.coordinator import (
    CoordinatorPartition,
    PartitionState,
    RecordFormat,
    Waiter,
)
from broker.core.groups import records
from broker.core.groups.commands import (
    NO_MEMBER_ID,
    CommitRequest,
    CommitResponse,
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    GroupDecision,
    GroupDescription,
    GroupSettings,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    Response,
    SyncRequest,
    SyncResponse,
)
from broker.core.groups.consumer.commands import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
)
from broker.core.groups.consumer.subscriptions import SeenTopics
from broker.core.groups.shard import GroupShard
from broker.core.log import InternalLog
from broker.core.machine import Moment, Token
from broker.model import limits
from broker.model.clock import Clock
from broker.model.errors import ErrorCode, PolylogError
from broker.model.identifiers import random_uuid

RECORD_FORMAT: RecordFormat[records.Record] = RecordFormat(records.encode, records.decode)
_INT32_MIN = -(1 << 31)

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=Response)
Command: TypeAlias = Callable[[GroupShard, Token, Moment], GroupDecision]


class CreateFuture(Protocol):
    """An event loop's create_future."""

    def __call__(self) -> Future[ResponseT]:
        """A future that nobody has answered."""


class _Partition:
    """One partition of `__consumer_offsets`: its groups and their driver."""

    def __init__(
        self,
        driver: CoordinatorPartition[records.Record, Response],
        shard: GroupShard,
    ) -> None:
        self.driver = driver
        self.shard = shard
        self.deleted_topics: list[str] = []  # while it was loading


class GroupCoordinator:
    """All groups of this broker."""

    def __init__(  # noqa: PLR0913 (what a pure core needs of its world)
        self,
        open_partition: Callable[[int], InternalLog],
        create_future: CreateFuture,
        clock: Clock,
        wake_at: Callable[[int], None],
        *,
        settings: GroupSettings | None = None,
        topics: SeenTopics | None = None,
        partition_count: int = 50,
        fresh_id: Callable[[], str] = random_uuid,
    ) -> None:
        """Know how to reach the world; nothing is opened yet.

        Args:
            open_partition: the log of a partition of `__consumer_offsets`, which it creates with
                the topic if need be; raises PolylogError while that cannot be had.
            create_future: the event loop's.
            clock: for deadlines and for what is stored.
            wake_at: asks that `tick` be called at this monotonic time in ms, or before.
            settings: what an operator may move.
            topics: what consumer groups can be subscribed to.
            partition_count: of `__consumer_offsets`; fixed once that topic exists.
            fresh_id: makes the ids of members unique.
        """
        self._open_partition = open_partition
        self._create_future = create_future
        self._clock = clock
        self._wake_at = wake_at
        self._settings = settings or GroupSettings()
        self._topics = topics
        self._partition_count = partition_count
        self._fresh_id = fresh_id
        self._partitions: dict[int, _Partition] = {}
        self._expected: dict[int, list[str]] = {}  # not recovered yet → topics deleted meanwhile
        self._retry_ms: dict[int, int] = {}  # when a partition may be opened again
        self._awake_at_ms: int | None = None  # what wake_at was told last
        self._expiry_check_ms = clock.monotonic_ms() + limits.OFFSETS_EXPIRY_INTERVAL_MS
        self._is_closed = False

    # ---- where groups live -----------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that keeps a group, as Kafka finds it."""
        hash_code = _java_hash(group_id)
        return 0 if hash_code == _INT32_MIN else abs(hash_code) % self._partition_count

    def expect(self, partitions: Iterable[int]) -> None:
        """These partitions exist, and their logs are still being recovered."""
        self._expected.update((number, []) for number in partitions)

    def recovered(self, number: int, *, is_empty: bool) -> None:
        """Begin to load a partition that was expected, to be ready when its groups come."""
        deleted_topics = self._expected.pop(number, [])
        partition = None if is_empty or self._is_closed else self._partition(number)
        if partition is not None:
            for topic in deleted_topics:
                self._forget_topic(partition, topic)

    # ---- membership ------------------------------------------------------------------------------

    def join(self, request: JoinRequest) -> Future[JoinResponse]:
        """A member asks to be in the next generation of its group."""
        named = request
        if request.member_id == NO_MEMBER_ID:
            named = request._replace(fresh_id=self._fresh_id())
        return self._serve(
            request.group_id,
            lambda shard, token, now: shard.join(named, token, now),
            lambda error: JoinResponse(error, request.member_id),
        )

    def sync(self, request: SyncRequest) -> Future[SyncResponse]:
        """A member asks for its assignment."""
        return self._serve(
            request.group_id,
            lambda shard, token, now: shard.sync(request, token, now),
            # Kafka's answer while loading: the member joins again, which finds the group loaded.
            lambda error: SyncResponse(
                ErrorCode.REBALANCE_IN_PROGRESS
                if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                else error
            ),
        )

    def heartbeat(self, request: HeartbeatRequest) -> Future[ErrorCode]:
        """A member is alive. While its group loads every member is taken for alive."""
        return self._serve(
            request.group_id,
            lambda shard, token, now: shard.heartbeat(request, token, now),
            lambda error: (
                ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
            ),
        )

    def leave(self, request: LeaveRequest) -> Future[LeaveResponse]:
        """Members leave their group."""
        return self._serve(
            request.group_id,
            lambda shard, token, now: shard.leave(request, token, now),
            LeaveResponse,
        )

    def describe(self, group_id: str) -> Future[GroupDescription]:
        """What an administrator sees of a group."""
        return self._serve(
            group_id,
            lambda shard, token, _: shard.describe(group_id, token),
            lambda error: GroupDescription(error, group_id),
        )

    # ---- the consumer protocol -------------------------------------------------------------------

    def consumer_heartbeat(self, request: ConsumerHeartbeat) -> Future[ConsumerHeartbeatResponse]:
        """A member of the consumer protocol joins, stays or leaves."""
        named = request if request.member_id else request._replace(fresh_id=self._fresh_id())
        return self._serve(
            request.group_id,
            lambda shard, token, now: shard.consumer_heartbeat(named, token, now),
            ConsumerHeartbeatResponse,
        )

    def consumer_describe(self, group_id: str) -> Future[ConsumerGroupDescription]:
        """What an administrator sees of a consumer group."""
        return self._serve(
            group_id,
            lambda shard, token, _: shard.consumer_describe(group_id, token),
            lambda error: ConsumerGroupDescription(error, group_id),
        )

    # ---- offsets ---------------------------------------------------------------------------------

    def commit_offsets(self, request: CommitRequest) -> Future[CommitResponse]:
        """A consumer says how far it has read."""
        return self._serve(
            request.group_id,
            lambda shard, token, now: shard.commit(request, token, now),
            lambda error: CommitResponse((error,) * len(request.offsets)),
        )

    def fetch_offsets(self, request: FetchOffsetsRequest) -> Future[FetchOffsetsResponse]:
        """How far a group has read."""
        return self._serve(
            request.group_id,
            lambda shard, token, _: shard.fetch_offsets(request, token),
            FetchOffsetsResponse,
        )

    def topic_deleted(self, topic: str) -> None:
        """Every group forgets the offsets of a topic that is gone."""
        for deleted_topics in self._expected.values():
            deleted_topics.append(topic)
        for number in list(self._partitions):
            partition = self._partition(number)
            if partition is not None:
                self._forget_topic(partition, topic)

    def _forget_topic(self, partition: _Partition, topic: str) -> None:
        if partition.driver.state is PartitionState.LOADING:
            partition.deleted_topics.append(topic)
        else:
            self._apply_all(partition, partition.shard.administration.forget_topic(topic))

    # ---- time ------------------------------------------------------------------------------------

    def tick(self) -> int:
        """Load on, let deadlines pass; the monotonic time in ms at which to be called again."""
        now = self._now()
        for partition in list(self._partitions.values()):
            partition.driver.check()
            if partition.driver.wants_load_step:
                self._load_step(partition)
            if partition.driver.state is PartitionState.ACTIVE:
                self._apply_all(partition, partition.shard.tick(now))
                if now.monotonic_ms >= self._expiry_check_ms:
                    self._apply_all(partition, partition.shard.administration.expire(now))
        if now.monotonic_ms >= self._expiry_check_ms:
            self._expiry_check_ms = now.monotonic_ms + limits.OFFSETS_EXPIRY_INTERVAL_MS
        self._awake_at_ms = self._next_deadline_ms(now)
        return self._awake_at_ms

    def _next_deadline_ms(self, now: Moment) -> int:
        deadlines = [self._expiry_check_ms]
        for partition in self._partitions.values():
            if partition.driver.wants_load_step:
                return now.monotonic_ms
            deadline_ms = partition.shard.next_deadline_ms()
            if deadline_ms is not None and partition.driver.state is PartitionState.ACTIVE:
                deadlines.append(deadline_ms)
        return min(deadlines)

    def close(self) -> None:
        """Stop serving: who waits looks for its coordinator again, what was written stays."""
        self._is_closed = True
        for partition in self._partitions.values():
            partition.driver.unload(ErrorCode.NOT_COORDINATOR)
        self._partitions.clear()

    # ---- inside ----------------------------------------------------------------------------------

    def _serve(
        self, group_id: str, command: Command, refusal: Callable[[ErrorCode], ResponseT]
    ) -> Future[ResponseT]:
        future: Future[ResponseT] = self._create_future()
        waiter = Waiter(future, refusal)
        if self._is_closed:
            waiter.refuse(ErrorCode.NOT_COORDINATOR)
            return future
        number = self.partition_for(group_id)
        if number in self._expected:
            waiter.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return future
        partition = self._partition(number)
        if partition is None:
            waiter.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif partition.driver.state is PartitionState.LOADING:
            waiter.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            partition.driver.apply(command(partition.shard, waiter, self._now()))
            self._wake_for(partition)
        return future

    def _partition(self, number: int) -> _Partition | None:
        """The partition, opened if need be; None if it cannot be had now."""
        partition = self._partitions.get(number)
        if partition is not None and partition.driver.state is not PartitionState.UNLOADED:
            return partition
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._retry_ms.get(number, now_ms):
            return None
        self._retry_ms[number] = now_ms + limits.LOAD_RETRY_MS
        self._partitions.pop(number, None)
        try:
            log = self._open_partition(number)
        except PolylogError as error:
            logger.warning("coordinator unavailable partition=%d error=%s", number, error)
            return None
        if log.is_offline:
            return None
        return self._open(number, log)

    def _open(self, number: int, log: InternalLog) -> _Partition:
        shard = GroupShard(self._settings, self._has_room, self._topics)
        name = f"__consumer_offsets-{number}"
        driver: CoordinatorPartition[records.Record, Response] = CoordinatorPartition(
            name,
            log,
            shard,
            RECORD_FORMAT,
            self._clock,
            lambda: self._wake(self._clock.monotonic_ms()),
        )
        partition = self._partitions[number] = _Partition(driver, shard)
        self._load_step(partition)
        self._wake_for(partition)
        return partition

    def _load_step(self, partition: _Partition) -> None:
        partition.driver.load_step()
        if partition.driver.state is PartitionState.ACTIVE:
            partition.shard.resume(self._now())
            for topic in partition.deleted_topics:
                self._apply_all(partition, partition.shard.administration.forget_topic(topic))
            partition.deleted_topics.clear()

    def _apply_all(self, partition: _Partition, decisions: Iterable[GroupDecision]) -> None:
        for decision in decisions:
            partition.driver.apply(decision)
            if partition.driver.state is PartitionState.UNLOADED:
                return

    def _has_room(self) -> bool:
        known = sum(len(partition.shard.groups) for partition in self._partitions.values())
        return known < limits.GROUPS_MAX

    def _now(self) -> Moment:
        return Moment(self._clock.monotonic_ms(), self._clock.wall_ms())

    def _wake_for(self, partition: _Partition) -> None:
        if partition.driver.wants_load_step:
            self._wake(self._clock.monotonic_ms())
        deadline_ms = partition.shard.next_deadline_ms()
        if deadline_ms is not None:
            self._wake(deadline_ms)

    def _wake(self, deadline_ms: int) -> None:
        """Ask to be called earlier than agreed."""
        if self._awake_at_ms is None or deadline_ms < self._awake_at_ms:
            self._awake_at_ms = deadline_ms
            self._wake_at(deadline_ms)


def _java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, as a signed 32-bit number."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
