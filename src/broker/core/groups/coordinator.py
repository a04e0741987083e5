"""The group coordinator: the API of groups and offsets for protocols and the broker.

A group is stored in the partition of `__consumer_offsets` that its name hashes to; what all
coordinators share is in `coordination/partitions.py`. Requests return a future, which is often done
already.
"""

from asyncio import Future
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeVar

from broker.core.coordination.machine import Moment, RecordFormat, Token
from broker.core.coordination.partitions import CoordinatorPartitions, Environment
from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.assigned.images import AssignedImage
from broker.core.groups.commands import classic, offsets
from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommit,
    AssignedCommits,
    AssignedError,
    AssignedJoin,
    AssignedProtocol,
    AssignedResponse,
    AssignedStatus,
)
from broker.core.groups.commands.consumer import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
)
from broker.core.groups.commands.decision import GroupDecision, Response
from broker.core.groups.commands.listing import ListGroupsRequest, ListGroupsResponse
from broker.core.groups.consumer.subscriptions import TopicsView
from broker.core.groups.memory import GroupMemoryBudget
from broker.core.groups.partition.assigned_groups import AssignedGroups
from broker.core.groups.partition.shard import GroupShard
from broker.core.groups.records import encoding
from broker.core.groups.records.encoding import Record
from broker.core.groups.records.offsets import CommittedOffset
from broker.core.groups.settings import GroupSettings
from broker.core.topics.topic import OFFSETS_TOPIC
from broker.model import limits
from broker.model.errors import ErrorCode
from broker.model.identifiers import random_uuid

RECORD_FORMAT: RecordFormat[Record] = RecordFormat(encoding.encode, encoding.decode)

ResponseT = TypeVar("ResponseT", bound=Response)


class _OfGroup(Protocol):
    """A request to one group."""

    @property
    def group_id(self) -> str:
        """The group."""


RequestT = TypeVar("RequestT")
OfGroupT = TypeVar("OfGroupT", bound=_OfGroup)


class GroupCoordinator(CoordinatorPartitions[Record, Response, GroupShard]):
    """All groups of this broker."""

    def __init__(
        self,
        environment: Environment,
        *,
        topics: TopicsView,
        settings: GroupSettings | None = None,
        partition_count: int = 50,
        fresh_id: Callable[[], str] = random_uuid,
    ) -> None:
        """Create a coordinator that has loaded no partition yet.

        Args:
            environment: the logs of `__consumer_offsets`, the loop and the clock.
            topics: the topics that consumer groups can subscribe to.
            settings: configurable limits and intervals.
            partition_count: of `__consumer_offsets` if it does not exist yet.
            fresh_id: returns a new id, which makes member ids unique.
        """
        settings = settings or GroupSettings()
        self.memory_bytes_max = settings.memory_bytes_max  # of all groups
        memory_budget = GroupMemoryBudget(settings.memory_bytes_max)
        super().__init__(
            OFFSETS_TOPIC,
            partition_count,
            environment,
            RECORD_FORMAT,
            lambda _: GroupShard(settings, topics, memory_budget, self._count_assigned_change),
            expiry_interval_ms=limits.OFFSETS_EXPIRY_INTERVAL_MS,
            can_resume_partly=True,  # groups do not depend on each other
        )
        memory_budget.measure(lambda: (shard.memory_usage for shard in self.shards()))
        self._fresh_id = fresh_id
        self._rebalance_watchers: list[Callable[[str], None]] = []
        # Incremented with each change of an assigned group or of its offsets.
        self.assigned_changes = 0

    # ---- membership ------------------------------------------------------------------------------

    def join_group(self, request: classic.JoinRequest) -> Future[classic.JoinResponse]:
        """Serve JoinGroup."""
        named = request
        if request.member_id == classic.NO_MEMBER_ID:
            named = request._replace(fresh_id=self._fresh_id())
        return self._serve(
            GroupShard.classic_group_join,
            named,
            lambda error: classic.JoinResponse(error, request.member_id),
        )

    def sync_group(self, request: classic.SyncRequest) -> Future[classic.SyncResponse]:
        """Serve SyncGroup."""
        return self._serve(
            GroupShard.sync,
            request,
            # Kafka's answer while loading: the member joins again, which waits for the load.
            lambda error: classic.SyncResponse(
                ErrorCode.REBALANCE_IN_PROGRESS
                if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                else error
            ),
        )

    def heartbeat(self, request: classic.HeartbeatRequest) -> Future[ErrorCode]:
        """Serve Heartbeat; while a group is being loaded, every member is taken for live."""
        return self._serve(
            GroupShard.heartbeat,
            request,
            lambda error: (
                ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
            ),
        )

    def leave_group(self, request: classic.LeaveRequest) -> Future[classic.LeaveResponse]:
        """Serve LeaveGroup."""
        return self._serve(GroupShard.leave, request, classic.LeaveResponse)

    def describe_group(self, group_id: str) -> Future[classic.GroupDescription]:
        """Serve DescribeGroups for one group."""
        return self.serve(
            group_id,
            lambda shard, token, _: shard.describe(group_id, token),
            lambda error: classic.GroupDescription(error, group_id),
        )

    def list_groups(self, number: int, request: ListGroupsRequest) -> Future[ListGroupsResponse]:
        """Serve ListGroups for one partition."""
        return self.serve_in_steps(
            number,
            lambda shard, token, _: shard.administration.list_groups(request, token),
            ListGroupsResponse,
        )

    def delete_group(self, group_id: str) -> Future[ErrorCode]:
        """Delete a group without members, and its offsets."""
        return self.serve_in_steps(
            self.partition_for(group_id),
            lambda shard, token, _: shard.administration.delete_group(group_id, token),
            lambda error: error,
        )

    # ---- the consumer protocol -------------------------------------------------------------------

    def consumer_group_heartbeat(
        self, request: ConsumerHeartbeat
    ) -> Future[ConsumerHeartbeatResponse]:
        """Serve ConsumerGroupHeartbeat: a member joins, stays or leaves."""
        named = request if request.member_id else request._replace(fresh_id=self._fresh_id())
        return self._serve(GroupShard.consumer_heartbeat, named, ConsumerHeartbeatResponse)

    def consumer_group_describe(self, group_id: str) -> Future[ConsumerGroupDescription]:
        """Serve ConsumerGroupDescribe for one group."""
        return self.serve(
            group_id,
            lambda shard, token, _: shard.consumer_describe(group_id, token),
            lambda error: ConsumerGroupDescription(error, group_id),
        )

    # ---- assigned groups (V1, Cursus) ------------------------------------------------------------

    def assigned_join(self, request: AssignedJoin) -> Future[AssignedResponse]:
        """Join an assigned group; the response has the member's partitions.

        Errors: LOADING, UNAVAILABLE, INVALID_NAME, OTHER_PROTOCOL, FULL.
        """
        number = self.partition_for(request.group_id)
        self.serve_to(  # Sessions that are over must end before the join is decided.
            number,
            lambda shard, _, now: shard.end_sessions(request.group_id, now),
            lambda _: None,
            lambda error: _refused(error, request.member_id),
        )
        return self._serve_assigned(AssignedGroups.assigned_group_join, request, request)

    def assigned_sync(self, call: AssignedCall) -> Future[AssignedResponse]:
        """Return the partitions of a member of this generation, and extend its session.

        Errors: LOADING, UNAVAILABLE, GROUP_NOT_FOUND, STALE_GENERATION, UNKNOWN_MEMBER.
        """
        return self._serve_assigned(AssignedGroups.sync, call, call)

    def assigned_leave(self, call: AssignedCall) -> Future[AssignedResponse]:
        """Remove a member of this generation; errors as `assigned_sync`."""
        return self._serve_assigned(AssignedGroups.leave, call, call)

    def assigned_commit(self, request: AssignedCommit) -> Future[AssignedResponse]:
        """Commit a member's offset of one of its partitions; this does not extend its session.

        A commit without membership, of any protocol, is `commit_offsets` without generation and
        member: UNKNOWN_MEMBER_ID while the group has live members. Errors: those of
        `assigned_sync`, then NOT_ASSIGNED, OFFSET_REFUSED.
        """
        return self._serve_assigned(AssignedGroups.commit, request, request.call)

    def assigned_check(self, call: AssignedCall) -> Future[AssignedResponse]:
        """Check that a member is of this generation, without extending its session.

        Errors: those of `assigned_sync`.
        """
        return self._serve_assigned(AssignedGroups.check, call, call)

    def assigned_commit_all(self, request: AssignedCommits) -> Future[AssignedResponse]:
        """Commit offsets of several partitions, all or none; offsets may not decrease.

        Errors: those of `assigned_commit`, then OFFSET_REGRESSION. Without member and generation
        the group need not exist; errors: INVALID_NAME, OTHER_PROTOCOL, FULL, OFFSET_REGRESSION,
        OFFSET_REFUSED.
        """
        return self._serve_assigned(AssignedGroups.commit_all, request, request.call)

    def assigned_status(self, call: AssignedCall) -> Future[AssignedStatus]:
        """Return the status of a group; only `protocol` and `group_id` of the call are used.

        Errors: LOADING, UNAVAILABLE, GROUP_NOT_FOUND.
        """
        return self.serve(
            call.group_id,
            lambda shard, token, now: shard.assigned.status(call, token, now),
            lambda error: AssignedStatus(_refused(error, "").error),
        )

    def restore_assigned(self, group_id: str, image: AssignedImage) -> Future[AssignedResponse]:
        """Create a group from the state of another server, unless it exists or the name is in use.

        Errors: LOADING, UNAVAILABLE, OTHER_PROTOCOL, FULL.
        """
        return self.serve(
            group_id,
            lambda shard, token, now: shard.assigned.restore(group_id, image, token, now),
            lambda error: _refused(error, ""),
        )

    def assigned_groups(
        self, protocol: AssignedProtocol
    ) -> Iterator[tuple[AssignedGroup, Mapping[str, Mapping[int, CommittedOffset]]]]:
        """Yield the groups of a protocol, each with its offsets by topic and partition.

        Other work may run between two groups, but not while a group's offsets are read.
        """
        for shard in list(self.shards()):
            for group_id in list(shard.groups):
                group = shard.groups.get(group_id)
                if isinstance(group, AssignedGroup) and group.image.protocol is protocol:
                    yield group, shard.offsets.of_group(group_id)

    # ---- offsets ---------------------------------------------------------------------------------

    def commit_offsets(self, request: offsets.CommitRequest) -> Future[offsets.CommitResponse]:
        """Serve OffsetCommit."""
        return self._serve(
            GroupShard.commit,
            request,
            lambda error: offsets.CommitResponse((error,) * len(request.offsets)),
        )

    def fetch_offsets(
        self, request: offsets.FetchOffsetsRequest
    ) -> Future[offsets.FetchOffsetsResponse]:
        """Serve OffsetFetch; in steps for many partitions."""
        if _is_long(request):
            return self.serve_in_steps(
                self.partition_for(request.group_id),
                lambda shard, token, _: shard.administration.fetch_offsets(request, token),
                offsets.FetchOffsetsResponse,
            )
        return self.serve(
            request.group_id,
            lambda shard, token, _: shard.fetch_offsets(request, token),
            offsets.FetchOffsetsResponse,
        )

    def delete_offsets(
        self, request: offsets.DeleteOffsetsRequest
    ) -> Future[offsets.DeleteOffsetsResponse]:
        """Serve OffsetDelete."""
        return self.serve_in_steps(
            self.partition_for(request.group_id),
            lambda shard, token, _: shard.administration.delete_offsets(request, token),
            offsets.DeleteOffsetsResponse,
        )

    def topic_deleted(self, topic: str) -> None:
        """Delete all groups' offsets of a deleted topic."""
        now_ms = self._environment.clock.latest_ms()
        self.in_every_partition(lambda shard: shard.administration.forget_topic(topic, now_ms))

    def watch_rebalances(self, notify: Callable[[str], None]) -> None:
        """Call `notify` with the name of each assigned group that may have been rebalanced.

        It is called during the replay of the change, and must request the group's state later.
        """
        self._rebalance_watchers.append(notify)

    # ---- helpers ---------------------------------------------------------------------------------

    def _serve(
        self,
        command: Callable[[GroupShard, OfGroupT, Token, Moment], GroupDecision],
        request: OfGroupT,
        refusal: Callable[[ErrorCode], ResponseT],
    ) -> Future[ResponseT]:
        return self.serve(
            request.group_id, lambda shard, token, now: command(shard, request, token, now), refusal
        )

    def _serve_assigned(
        self,
        command: Callable[[AssignedGroups, RequestT, Token, Moment], GroupDecision],
        request: RequestT,
        call: AssignedJoin | AssignedCall,
    ) -> Future[AssignedResponse]:
        return self.serve(
            call.group_id,
            lambda shard, token, now: command(shard.assigned, request, token, now),
            lambda error: _refused(error, call.member_id),
        )

    def _count_assigned_change(self, group_id: str | None) -> None:
        self.assigned_changes += 1
        if group_id is not None:
            for notify in self._rebalance_watchers:
                notify(group_id)


def _is_long(request: offsets.FetchOffsetsRequest) -> bool:
    """Return whether it may cover more offsets than one step does."""
    topics = request.topics
    most = limits.OFFSETS_FETCHED_PER_STEP
    return topics is None or len(topics) > most or sum(map(len, topics.values())) > most


def _refused(error: ErrorCode, member_id: str) -> AssignedResponse:
    """Return the coordinator's error as a response of assigned groups."""
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    refusal = AssignedError.LOADING if is_loading else AssignedError.UNAVAILABLE
    return AssignedResponse(refusal, member_id)
