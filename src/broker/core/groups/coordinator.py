"""The group coordinator: the one face of groups and offsets that protocols and the broker see.

A group lives in the partition of `__consumer_offsets` that its name hashes to; what all
coordinators share is in `coordinator_partitions.py`. Every call returns a future, most of them
done.
"""

from asyncio import Future
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from broker.codec.control_records import Marker
from broker.core.coordinator import Callback, ResponseFuture
from broker.core.coordinator_partitions import CoordinatorPartitions, Environment
from broker.core.groups import records
from broker.core.groups.assigned.commands import (
    AssignedCall,
    AssignedCommit,
    AssignedCommits,
    AssignedError,
    AssignedJoin,
    AssignedProtocol,
    AssignedResponse,
    AssignedStatus,
)
from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.assigned.images import AssignedImage
from broker.core.groups.commands import (
    NO_MEMBER_ID,
    CommitRequest,
    CommitResponse,
    DeleteOffsetsRequest,
    DeleteOffsetsResponse,
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
    ListGroupsRequest,
    ListGroupsResponse,
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
from broker.core.groups.group_sizes import GroupMemoryBudget
from broker.core.groups.records import CommittedOffset
from broker.core.groups.shard import GroupShard
from broker.core.machine import Moment, RecordFormat, Token
from broker.core.topic import OFFSETS_TOPIC
from broker.model import limits
from broker.model.errors import ErrorCode
from broker.model.identifiers import random_uuid

RECORD_FORMAT: RecordFormat[records.Record] = RecordFormat(records.encode, records.decode)

ResponseT = TypeVar("ResponseT", bound=Response)
Command: TypeAlias = Callable[[GroupShard, Token, Moment], GroupDecision]


class GroupCoordinator:
    """All groups of this broker."""

    def __init__(
        self,
        environment: Environment,
        *,
        settings: GroupSettings | None = None,
        topics: SeenTopics | None = None,
        partition_count: int = 50,
        fresh_id: Callable[[], str] = random_uuid,
    ) -> None:
        """Know how to reach the world; nothing is opened yet.

        Args:
            environment: the logs of `__consumer_offsets`, the loop and the clock.
            settings: what an operator may move.
            topics: what consumer groups can be subscribed to.
            partition_count: with which `__consumer_offsets` is made; one that exists has its own.
            fresh_id: makes the ids of members unique.
        """
        self._settings = settings or GroupSettings()
        self._clock = environment.clock
        self._fresh_id = fresh_id
        self._rebalance_watchers: list[Callable[[str], None]] = []
        self.assigned_changes = 0  # grows with each change of an assigned group and its offsets
        budget = GroupMemoryBudget(self._settings.held_bytes_max)
        self._partitions: CoordinatorPartitions[records.Record, Response, GroupShard] = (
            CoordinatorPartitions(
                OFFSETS_TOPIC,
                partition_count,
                environment,
                RECORD_FORMAT,
                lambda _number: GroupShard(
                    self._settings, budget, topics, self._count_assigned_change
                ),
                expiry_interval_ms=limits.OFFSETS_EXPIRY_INTERVAL_MS,
                can_resume_partly=True,  # one group needs no other
            )
        )
        budget.count(lambda: (shard.held for shard in self._partitions.shards()))

    # ---- where groups live -----------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that keeps a group."""
        return self._partitions.partition_for(group_id)

    def expect(self, partitions: Iterable[int]) -> None:
        """These partitions exist, and their logs are still being recovered."""
        self._partitions.expect(partitions)

    def recovered(self, number: int, *, is_empty: bool) -> None:
        """Begin to load a partition that was expected."""
        self._partitions.recovered(number, is_empty=is_empty)

    @property
    def is_loading(self) -> bool:
        """Whether a part of what it keeps is not known yet."""
        return self._partitions.is_loading

    def tick(self) -> int:
        """Load on, let deadlines pass; the monotonic time in ms at which to be called again."""
        return self._partitions.tick()

    def close(self) -> None:
        """Stop serving: who waits looks for its coordinator again, what was written stays."""
        self._partitions.close()

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

    def partitions(self) -> list[int]:
        """The partitions of `__consumer_offsets` that may hold groups, and whose disk works."""
        return self._partitions.within_reach()

    def list_groups(self, number: int, request: ListGroupsRequest) -> Future[ListGroupsResponse]:
        """The groups of one partition."""
        return self._partitions.serve_in_steps(
            number,
            lambda shard, token, _: shard.administration.list_groups(request, token),
            ListGroupsResponse,
        )

    def delete_group(self, group_id: str) -> Future[ErrorCode]:
        """Let a group without members go, with all its offsets."""
        return self._partitions.serve_in_steps(
            self.partition_for(group_id),
            lambda shard, token, _: shard.administration.delete_group(group_id, token),
            lambda error: error,
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

    # ---- groups that the broker assigns at once --------------------------------------------------

    def assigned_join(self, request: AssignedJoin) -> Future[AssignedResponse]:
        """A member asks for its part of a topic; it has it at once.

        Errors: LOADING, UNAVAILABLE, INVALID_NAME, OTHER_FAMILY, FULL.
        """
        number = self.partition_for(request.group_id)
        nobody: Callback[AssignedResponse] = Callback(lambda _: None)
        self._partitions.serve_to(  # What it does must be so before the join is decided.
            number,
            lambda shard, _, now: shard.end_sessions(request.group_id, now),
            nobody,
            lambda error: _refused(error, request.member_id),
        )
        return self._serve(
            request.group_id,
            lambda shard, token, now: shard.assigned.join(request, token, now),
            lambda error: _refused(error, request.member_id),
        )

    def assigned_sync(self, call: AssignedCall) -> Future[AssignedResponse]:
        """A member of this generation asks for its partitions again, and is alive.

        Errors: LOADING, UNAVAILABLE, GROUP_NOT_FOUND, STALE_GENERATION, UNKNOWN_MEMBER.
        """
        return self._serve(
            call.group_id,
            lambda shard, token, now: shard.assigned.sync(call, token, now),
            lambda error: _refused(error, call.member_id),
        )

    def assigned_heartbeat(self, call: AssignedCall) -> Future[AssignedResponse]:
        """A member of this generation is alive; errors as of a sync."""
        return self._serve(
            call.group_id,
            lambda shard, token, now: shard.assigned.sync(call, token, now),
            lambda error: _refused(error, call.member_id),
        )

    def assigned_leave(self, call: AssignedCall) -> Future[AssignedResponse]:
        """A member of this generation goes; errors as of a sync."""
        return self._serve(
            call.group_id,
            lambda shard, token, now: shard.assigned.leave(call, token, now),
            lambda error: _refused(error, call.member_id),
        )

    def assigned_commit(self, request: AssignedCommit) -> Future[AssignedResponse]:
        """A member says how far it has read one of its partitions, which is no sign of life.

        A commit without membership, of any dialect, is `commit_offsets` without a generation and
        member: UNKNOWN_MEMBER_ID as long as the group has live members. Errors: as of a sync, then
        NOT_ASSIGNED, OFFSET_REFUSED.
        """
        return self._serve(
            request.call.group_id,
            lambda shard, token, now: shard.assigned.commit(request, token, now),
            lambda error: _refused(error, request.call.member_id),
        )

    def assigned_check(self, call: AssignedCall) -> Future[AssignedResponse]:
        """Whether a member is of this generation, which is no sign of life; errors as of a sync."""
        return self._serve(
            call.group_id,
            lambda shard, token, now: shard.assigned.check(call, token, now),
            lambda error: _refused(error, call.member_id),
        )

    def assigned_commit_all(self, request: AssignedCommits) -> Future[AssignedResponse]:
        """Commit some partitions of a group together, or none; offsets only rise.

        Errors: as of a commit, then OFFSET_REGRESSION. Without a member and generation, which need
        no group: INVALID_NAME, OTHER_FAMILY, FULL, OFFSET_REGRESSION, OFFSET_REFUSED.
        """
        return self._serve(
            request.call.group_id,
            lambda shard, token, now: shard.assigned.commit_all(request, token, now),
            lambda error: _refused(error, request.call.member_id),
        )

    def assigned_status(self, call: AssignedCall) -> Future[AssignedStatus]:
        """A group as its dialect shows it; only whose family and group the call names counts.

        Errors: LOADING, UNAVAILABLE, GROUP_NOT_FOUND.
        """
        return self._serve(
            call.group_id,
            lambda shard, token, now: shard.assigned.status(call, token, now),
            lambda error: AssignedStatus(_refused(error, "").error),
        )

    def restore_assigned(self, group_id: str, image: AssignedImage) -> Future[AssignedResponse]:
        """Take a group over as another server has left it, unless it is here or one is in use.

        Errors: LOADING, UNAVAILABLE, OTHER_FAMILY, FULL.
        """
        return self._serve(
            group_id,
            lambda shard, token, now: shard.assigned.restore(group_id, image, token, now),
            lambda error: _refused(error, ""),
        )

    def assigned_groups(
        self, protocol: AssignedProtocol
    ) -> Iterator[tuple[AssignedGroup, Mapping[str, Mapping[int, CommittedOffset]]]]:
        """The groups of a family, with their offsets by topic and partition, as they are now.

        Others may have a turn of the loop between two of them, not while offsets are looked at.
        """
        for shard in list(self._partitions.shards()):
            for group_id in list(shard.groups):
                group = shard.groups.get(group_id)
                if isinstance(group, AssignedGroup) and group.image.protocol is protocol:
                    yield group, shard.offsets.of_group(group_id)

    @property
    def is_complete(self) -> bool:
        """Whether every partition that holds something is loaded."""
        return self._partitions.is_complete

    # ---- offsets ---------------------------------------------------------------------------------

    def commit_offsets(self, request: CommitRequest) -> Future[CommitResponse]:
        """A consumer says how far it has read."""
        return self._serve(
            request.group_id,
            lambda shard, token, now: shard.commit(request, token, now),
            lambda error: CommitResponse((error,) * len(request.offsets)),
        )

    def fetch_offsets(self, request: FetchOffsetsRequest) -> Future[FetchOffsetsResponse]:
        """How far a group has read; of many partitions in steps."""
        if _is_long(request):
            return self._partitions.serve_in_steps(
                self.partition_for(request.group_id),
                lambda shard, token, _: shard.administration.fetch_offsets(request, token),
                FetchOffsetsResponse,
            )
        return self._serve(
            request.group_id,
            lambda shard, token, _: shard.fetch_offsets(request, token),
            FetchOffsetsResponse,
        )

    def delete_offsets(self, request: DeleteOffsetsRequest) -> Future[DeleteOffsetsResponse]:
        """Let a group forget partitions that none of its members reads."""
        return self._partitions.serve_in_steps(
            self.partition_for(request.group_id),
            lambda shard, token, _: shard.administration.delete_offsets(request, token),
            DeleteOffsetsResponse,
        )

    def end_transaction(
        self, number: int, marker: Marker, future: ResponseFuture[ErrorCode]
    ) -> None:
        """Write a marker: offsets committed in its transaction count from now on, or never."""
        self._partitions.end_transaction(number, marker, future)

    def topic_deleted(self, topic: str) -> None:
        """Every group forgets the offsets of a topic that is gone."""
        now_ms = self._clock.latest_ms()
        self._partitions.in_every_partition(
            lambda shard: shard.administration.forget_topic(topic, now_ms)
        )

    def watch_rebalances(self, notify: Callable[[str], None]) -> None:
        """Tell the name of each assigned group whose members or partitions may be others now.

        It is told as the change is replayed: whoever asks about the group does so later.
        """
        self._rebalance_watchers.append(notify)

    # ---- inside ----------------------------------------------------------------------------------

    def _serve(
        self, group_id: str, command: Command, refusal: Callable[[ErrorCode], ResponseT]
    ) -> Future[ResponseT]:
        return self._partitions.serve(group_id, command, refusal)

    def _count_assigned_change(self, group_id: str | None) -> None:
        self.assigned_changes += 1
        if group_id is not None:
            for notify in self._rebalance_watchers:
                notify(group_id)


def _is_long(request: FetchOffsetsRequest) -> bool:
    """Whether it asks for more than one step may look at, as all of a group's offsets may be."""
    topics = request.topics
    most = limits.OFFSETS_FETCHED_PER_STEP
    return topics is None or len(topics) > most or sum(map(len, topics.values())) > most


def _refused(error: ErrorCode, member_id: str) -> AssignedResponse:
    """Why the coordinator does not serve, in the words of assigned groups."""
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    refusal = AssignedError.LOADING if is_loading else AssignedError.UNAVAILABLE
    return AssignedResponse(refusal, member_id)
