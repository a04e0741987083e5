"""The groups of one partition of `__consumer_offsets`; it routes commands to them.

It is a state machine like the groups: commands return a Decision, `replay` applies its records,
`tick` handles deadlines. A group exists while the log has records of it, or a member is joining it.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from broker.core.coordination.machine import Decision, Moment, Token
from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.assigned.images import is_assigned
from broker.core.groups.classic.group import ClassicGroup
from broker.core.groups.commands.classic import (
    GroupDescription,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    SyncRequest,
    SyncResponse,
)
from broker.core.groups.commands.consumer import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
)
from broker.core.groups.commands.decision import GroupDecision, Response
from broker.core.groups.commands.offsets import (
    CommitRequest,
    CommitResponse,
    FetchOffsetsRequest,
    FetchOffsetsResponse,
)
from broker.core.groups.consumer.classic_members import ClassicMembers
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.consumer.subscriptions import TopicsView
from broker.core.groups.memory import GroupMemoryBudget
from broker.core.groups.offsets.committed import CommittedOffsets
from broker.core.groups.partition.administration import Administration, fetch_error
from broker.core.groups.partition.assigned_groups import AssignedGroups
from broker.core.groups.partition.checks import (
    commit_error,
    is_invalid_group_id,
    join_error,
    unknown_group_error,
)
from broker.core.groups.partition.conversions import Conversions
from broker.core.groups.partition.group_types import Group
from broker.core.groups.records.classic import GroupImage, GroupRecord
from broker.core.groups.records.consumer import (
    ConsumerEpochRecord,
    ConsumerRecord,
    is_deletion,
)
from broker.core.groups.records.encoding import Record
from broker.core.groups.records.offsets import OffsetRecord
from broker.core.groups.settings import GroupSettings
from broker.model.errors import ErrorCode


class GroupShard:
    """The groups and committed offsets of one coordinator partition."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: TopicsView,
        memory_budget: GroupMemoryBudget | None = None,
        assigned_changed: Callable[[str | None], None] = lambda _group_id: None,
    ) -> None:
        """Begin without groups.

        Args:
            settings: configurable limits and intervals.
            topics: the topics that consumer groups can subscribe to.
            memory_budget: of all groups of the broker.
            assigned_changed: called with each change of an assigned group: its name, or None if
                only its offsets have changed.
        """
        self._assigned_changed = assigned_changed
        self._settings = settings
        self._memory_budget = memory_budget or GroupMemoryBudget(settings.memory_bytes_max)
        self._sizes: dict[str, int] = {}  # by group
        self._groups_bytes = 0
        self._topics = topics
        self.groups: dict[str, Group] = {}
        self.offsets = CommittedOffsets(settings, self._memory_budget)
        self._conversions = Conversions(settings, self._topics, self._memory_budget)
        self.administration = Administration(self.groups, self.offsets, settings)
        self.assigned = AssignedGroups(
            self._find,
            self._schedule_tick,
            self.offsets,
            self._conversions,
            self._commit_error,
            self._memory_budget,
        )
        # When to call `tick` of which group. An entry may be early, never late: a heartbeat moves
        # its member's deadline, not the entry.
        self._deadlines: list[tuple[int, str]] = []
        self._unresumed: set[str] = set()  # loaded groups whose sessions have not begun yet

    @property
    def memory_usage(self) -> tuple[int, int]:
        """The number of groups, and the bytes of groups and offsets."""
        return len(self.groups), self._groups_bytes + self.offsets.memory_bytes

    # ---- the log ---------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """Apply a record."""
        if isinstance(record, OffsetRecord):
            self.offsets.replay(record)
            if record.committed is not None:
                self._group(record.group_id)
            if isinstance(self.groups.get(record.group_id), AssignedGroup):
                self._assigned_changed(None)
            if record.committed is None:
                self._forget_unknown(record.group_id)
        elif isinstance(record, GroupRecord):
            self._replay_classic(record)
            self._update_size(record.group_id)
        else:
            self._replay_consumer(record)
            self._update_size(record.group_id)

    def _replay_classic(self, record: GroupRecord) -> None:
        group_id, image = record.group_id, record.image
        group = self.groups.get(group_id)
        if image is not None and is_assigned(image.protocol_type):
            self._replay_assigned(group_id, image)
        elif image is not None:
            self._classic_group(group_id).replay(image)
        elif isinstance(group, ClassicGroup):
            group.replay(GroupImage())
            self._forget_unknown(group_id)
        elif isinstance(group, AssignedGroup):
            group = self.groups[group_id] = self._conversions.classic_group(group_id)
            self._schedule_tick(group)
            self._forget_unknown(group_id)
            self._assigned_changed(group_id)

    def _replay_assigned(self, group_id: str, image: GroupImage) -> None:
        group = self.groups.get(group_id)
        if (
            not isinstance(group, AssignedGroup)
            or group.image.protocol.value != image.protocol_type
        ):
            group = self.groups[group_id] = self._conversions.assigned_group(group_id, image)
        group.replay(image)
        self._schedule_tick(group)
        self._assigned_changed(group_id)

    def _replay_consumer(self, record: ConsumerRecord) -> None:
        """Apply a record; one that is not a tombstone makes the group a consumer group."""
        group_id = record.group_id
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.replay(record)
        elif not is_deletion(record):
            group = self.groups[group_id] = self._conversions.consumer_group(group_id)
            group.replay(record)
            self._schedule_tick(group)
        if isinstance(record, ConsumerEpochRecord) and record.epoch is None and group is not None:
            group = self.groups[group_id] = self._conversions.classic_group(group_id)
            if group_id in self._conversions.downgraded:
                self._unresumed.add(group_id)
            self._schedule_tick(group)
            self._forget_unknown(group_id)

    @property
    def pending(self) -> "GroupShard":
        """The state for records of transactions, which are offsets."""
        return self

    def replay_pending(self, producer_id: int, record: Record) -> None:
        """Keep an offset until its transaction ends; no other records are transactional."""
        if isinstance(record, OffsetRecord):
            self.offsets.pending.replay_pending(producer_id, record)
            self._group(record.group_id)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Commit or drop the offsets of a producer's transaction."""
        pending = self.offsets.pending
        for group_id in pending.end_transaction(producer_id, is_committed=is_committed):
            if isinstance(self.groups.get(group_id), AssignedGroup):
                self._assigned_changed(None)
            self._forget_unknown(group_id)

    def resume(self, now: Moment) -> Iterator[GroupDecision]:
        """Begin the sessions of all members after a load.

        This is done in steps; a command to a group begins the sessions of that group at once.
        """
        self._unresumed = {each.group_id for each in self.groups.values() if not each.is_idle}
        return self._resume_all(list(self._unresumed), now)

    def _resume_all(self, group_ids: list[str], now: Moment) -> Iterator[GroupDecision]:
        for group_id in group_ids:
            self._find(group_id, now)
            yield Decision()

    def waiting(self) -> list[Token]:
        """Return the tokens of requests that wait in a group; only classic ones let them wait."""
        classic = (each for each in self.groups.values() if isinstance(each, ClassicGroup))
        return [token for group in classic for token in group.waiting()]

    # ---- membership ------------------------------------------------------------------------------

    def classic_group_join(self, request: JoinRequest, token: Token, now: Moment) -> GroupDecision:
        """Join a classic member; one without an id may create its group."""
        known = self._find(request.group_id, now)
        error = join_error(request, known, now, self._settings, self._memory_budget)
        if error is not ErrorCode.NONE:
            return _answer(token, JoinResponse(error, request.member_id))
        if isinstance(known, AssignedGroup) or (isinstance(known, ConsumerGroup) and known.is_idle):
            return self._conversions.convert_to_classic_on_join(request, known, token, now)
        if isinstance(known, ConsumerGroup):
            decision = self._classic_members(known).join_to_consumer_group(request, token, now)
            self._conversions.maybe_downgrade(known, decision)
            self._schedule_tick(known)
            return decision
        group = known or self._classic_group(request.group_id)
        decision = group.join_to_classic_group(request, token, now)
        if not decision.records:
            self._forget_unknown(request.group_id)
        self._schedule_tick(group)
        return decision

    def sync(self, request: SyncRequest, token: Token, now: Moment) -> GroupDecision:
        """Serve SyncGroup."""
        group = self._find_for_classic(request.group_id, now)
        if group is None:
            return _answer(token, SyncResponse(unknown_group_error(request.group_id)))
        added_bytes = (
            group.added_bytes_of_assignments(request.assignments)
            if isinstance(group, ClassicGroup)
            else 0
        )
        if request.assignments and not self._memory_budget.allows_bytes(added_bytes):
            # The same error as for assignments that are too large for one group.
            return _answer(token, SyncResponse(ErrorCode.UNKNOWN_SERVER_ERROR))
        decision = self._for_classic(group).sync(request, token, now)
        self._schedule_tick(group)
        return decision

    def heartbeat(self, request: HeartbeatRequest, token: Token, now: Moment) -> GroupDecision:
        """Serve Heartbeat of a classic member."""
        group = self._find_for_classic(request.group_id, now)
        if group is None:
            return _answer(token, unknown_group_error(request.group_id))
        error = self._for_classic(group).heartbeat(request, now)
        if isinstance(group, ConsumerGroup):
            self._schedule_tick(group)  # It may have given the member a rebalance timeout.
        return _answer(token, error)

    def leave(self, request: LeaveRequest, token: Token, now: Moment) -> GroupDecision:
        """Serve LeaveGroup."""
        group = self._find_for_classic(request.group_id, now)
        if group is None:
            error = unknown_group_error(request.group_id)
            is_invalid = error is ErrorCode.INVALID_GROUP_ID
            errors = () if is_invalid else (error,) * len(request.members)
            overall = error if is_invalid else ErrorCode.NONE
            return _answer(token, LeaveResponse(overall, errors))
        decision = self._for_classic(group).leave(request, token, now)
        if isinstance(group, ConsumerGroup):
            self._conversions.maybe_downgrade(group, decision)
        if not decision.records:
            self._forget_unknown(request.group_id)
        self._schedule_tick(group)
        return decision

    def describe(self, group_id: str, token: Token) -> GroupDecision:
        """Serve DescribeGroups; a group that does not exist is Dead."""
        group = self.groups.get(group_id)
        if group is None or isinstance(group, ConsumerGroup):
            return _answer(token, GroupDescription(ErrorCode.NONE, group_id))
        return _answer(token, group.describe())

    # ---- the consumer protocol -------------------------------------------------------------------

    def consumer_heartbeat(
        self, request: ConsumerHeartbeat, token: Token, now: Moment
    ) -> GroupDecision:
        """Serve ConsumerGroupHeartbeat; a member that joins may create its group."""
        if is_invalid_group_id(request.group_id):
            return _answer(
                token,
                ConsumerHeartbeatResponse(ErrorCode.INVALID_REQUEST, "the group id is too long"),
            )
        group = self._find(request.group_id, now)
        decision = self._conversions.heartbeat(request, group, token, now)
        if group is not None:
            self._schedule_tick(group)
        return decision

    def consumer_describe(self, group_id: str, token: Token) -> GroupDecision:
        """Serve ConsumerGroupDescribe; GROUP_ID_NOT_FOUND for other types of group."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return _answer(token, group.describe())
        message = "the group does not exist" if group is None else "it is not a consumer group"
        return _answer(
            token, ConsumerGroupDescription(ErrorCode.GROUP_ID_NOT_FOUND, group_id, message)
        )

    # ---- offsets ---------------------------------------------------------------------------------

    def commit(self, request: CommitRequest, token: Token, now: Moment) -> GroupDecision:
        """Serve OffsetCommit; a commit without membership may create its group."""
        error = self._commit_error(request, now)
        if error is not ErrorCode.NONE:
            return _answer(token, CommitResponse((error,) * len(request.offsets)))
        records, errors = self.offsets.commit(request, now.wall_ms)
        return Decision(records, [(token, CommitResponse(errors))], request.transaction)

    def _commit_error(self, request: CommitRequest, now: Moment) -> ErrorCode:
        if (not request.group_id and request.generation >= 0) or is_invalid_group_id(
            request.group_id
        ):
            return ErrorCode.INVALID_GROUP_ID
        group = self._find(request.group_id, now)
        if group is not None:
            return commit_error(group, request, now)
        if request.generation >= 0:
            return ErrorCode.ILLEGAL_GENERATION
        return (
            ErrorCode.NONE if self._memory_budget.allows_group else ErrorCode.GROUP_MAX_SIZE_REACHED
        )

    def fetch_offsets(self, request: FetchOffsetsRequest, token: Token) -> GroupDecision:
        """Serve OffsetFetch; a group that does not exist has no offsets and no error."""
        error = fetch_error(self.groups.get(request.group_id), request)
        if error is not ErrorCode.NONE:
            return _answer(token, FetchOffsetsResponse(error))
        found = self.offsets.fetch(request)
        unstable = self.offsets.unstable(request.group_id, found) if request.requires_stable else ()
        return _answer(token, FetchOffsetsResponse(ErrorCode.NONE, found, frozenset(unstable)))

    def expire(self, now: Moment) -> Iterator[GroupDecision]:
        """Remove expired offsets, and groups without members and offsets."""
        return self.administration.expire(now)

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: Moment) -> Iterator[GroupDecision]:
        """Call `tick` of every group whose deadline has passed.

        The records of each decision must be replayed before the next decision is requested.
        """
        for group, decision in self._conversions.rebalance_downgraded(
            lambda name: self._find(name, now), now
        ):
            yield decision
            self._schedule_tick(group)
        yield from self._tick_groups(now)

    def _tick_groups(self, now: Moment) -> Iterator[GroupDecision]:
        while self._deadlines and self._deadlines[0][0] <= now.monotonic_ms:
            deadline_ms, group_id = heappop(self._deadlines)
            group = self.groups.get(group_id)
            if group is None or group.tick_scheduled_ms != deadline_ms:
                continue  # An earlier deadline has replaced this entry.
            group.tick_scheduled_ms = None
            yield self._tick_group(group, now)
            self._forget_unknown(group_id)
            self._schedule_tick(group)

    def _tick_group(self, group: Group, now: Moment) -> GroupDecision:
        decision = group.tick(now)
        if isinstance(group, ConsumerGroup):
            self._conversions.maybe_downgrade(group, decision)
        return decision

    def end_sessions(self, group_id: str, now: Moment) -> GroupDecision:
        """End a group's expired sessions now, before a member of another protocol joins it."""
        group = self._find(group_id, now)
        deadline_ms = None if group is None else group.next_deadline_ms()
        if group is None or deadline_ms is None or now.monotonic_ms < deadline_ms:
            return Decision()
        return self._tick_group(group, now)

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time of the next `tick`; None if no group has a deadline."""
        if self._conversions.downgraded:
            return 0
        return self._deadlines[0][0] if self._deadlines else None

    def _schedule_tick(self, group: Group) -> None:
        """Update a group's size after a change, and schedule `tick` for its next deadline."""
        self._update_size(group.group_id)
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is None or self.groups.get(group.group_id) is not group:
            return
        if group.tick_scheduled_ms is None or deadline_ms < group.tick_scheduled_ms:
            group.tick_scheduled_ms = deadline_ms
            heappush(self._deadlines, (deadline_ms, group.group_id))

    def _update_size(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        size = 0 if group is None else group.memory_bytes
        self._groups_bytes += size - self._sizes.pop(group_id, 0)
        if size:
            self._sizes[group_id] = size

    # ---- lookup ----------------------------------------------------------------------------------

    def _find(self, group_id: str, now: Moment) -> Group | None:
        """Return a group, if it exists, after beginning its members' sessions if necessary."""
        group = self.groups.get(group_id)
        if group is not None and group_id in self._unresumed:
            group.resume(now)
            self._unresumed.discard(group_id)
            self._schedule_tick(group)
        return group

    def _find_for_classic(self, group_id: str, now: Moment) -> ClassicGroup | ConsumerGroup | None:
        """Return a group that can have members of the classic protocol.

        The group with an empty name has no members, though offsets may be committed for it.
        """
        group = self._find(group_id, now) if group_id else None
        return None if isinstance(group, AssignedGroup) else group

    def _for_classic(self, group: ClassicGroup | ConsumerGroup) -> ClassicGroup | ClassicMembers:
        """Return what serves members of the classic protocol in a group."""
        return group if isinstance(group, ClassicGroup) else self._classic_members(group)

    def _classic_members(self, group: ConsumerGroup) -> ClassicMembers:
        return ClassicMembers(group, self._topics, self._settings.metadata_bytes_max)

    def _group(self, group_id: str) -> Group:
        """Return the group of that name and any type, or else a new classic group."""
        return self.groups.get(group_id) or self._classic_group(group_id)

    def _classic_group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            group = self.groups[group_id] = ClassicGroup(group_id, self._settings)
            self._update_size(group_id)
        return group

    def _forget_unknown(self, group_id: str) -> None:
        """Drop a group without records in the log and without members."""
        group = self.groups.get(group_id)
        if group is None or not group.is_idle or group.is_stored:
            return
        if not self.offsets.has_any(group_id):
            del self.groups[group_id]
            self._update_size(group_id)


def _answer(token: Token, response: Response) -> GroupDecision:
    return Decision((), [(token, response)])
