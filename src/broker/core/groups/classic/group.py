"""One classic group: members join a generation, their leader assigns the partitions.

                      a join                     initial delay, or all joined, or timeout
    Empty ------------------------> PreparingRebalance ------------------------> CompletingRebalance
      ^                               ^            |  no member left                       |
      |                               |            v                          the leader's |
      +---------------------------------------- Empty                       assignments    |
                                      |                                                    v
                                      +--------- join, leave, expiry --------------------- Stable

(Kafka's GroupMetadataManager; KIP-62, KIP-345, KIP-394, KIP-814.)

The state is not stored. It is derived from two things:

- `image`, the content of the last record. Only `replay` changes it. A record is written when a
  join completes (generation + 1, no assignments yet), when the leader's sync brings assignments,
  when the last member leaves, and when a static member rejoins with a new member id.
- `PendingRebalance`, which exists between two generations. Members join and leave it. It is never
  written; the record that completes the rebalance ends it.

Sessions, waiting requests and ids without a join (`GroupPresence`, `PendingSyncs`,
`pending_members`) are not written either: after a load members have a full session timeout, and
requests that were waiting have been answered with an error. A command writes at most one record, so
that each command sees the effect of the one before.
"""

from collections.abc import Iterator, Mapping

from broker.core.coordination.machine import Decision, Moment, Token
from broker.core.groups.classic.join_phase import (
    begin_rebalance,
    maybe_complete_join,
    member_names,
    note_removed,
    reason_text,
    remove_members,
)
from broker.core.groups.classic.joining import join
from broker.core.groups.classic.rebalance import sync_response
from broker.core.groups.classic.state import ClassicGroupState
from broker.core.groups.classic.subscription import subscribed_topics
from broker.core.groups.commands.classic import (
    NO_MEMBER_ID,
    DescribedMember,
    GroupDescription,
    GroupProtocol,
    GroupState,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeaveResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.commands.listing import GroupListing
from broker.core.groups.records.classic import CONSUMER_PROTOCOL, GroupImage, GroupRecord, Member
from broker.core.groups.records.encoding import Record
from broker.core.groups.settings import GroupSettings
from broker.model import limits
from broker.model.errors import ErrorCode

GROUP_TYPE = "classic"  # as ListGroups shows it


class ClassicGroup(ClassicGroupState):
    """The state machine of one group. Commands return a Decision; `replay` applies its records."""

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        """Create a group without members that is not in the log yet."""
        super().__init__(group_id, settings)
        self.tick_scheduled_ms: int | None = None  # when its shard will call `tick`
        self._subscribed: tuple[GroupImage, frozenset[str] | None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it has no members and no member id is waiting to be used."""
        return self.state is GroupState.EMPTY and not self.pending_members

    @property
    def is_stored(self) -> bool:
        """Whether the log has a record of it."""
        return self.image.generation > 0

    @property
    def memory_bytes(self) -> int:
        """Its size in memory, as memory.py counts it."""
        ids = len(self.pending_members) * limits.PENDING_MEMBER_BYTES
        return limits.GROUP_BYTES + self.presence.memory_bytes + self.assigned_bytes + ids

    def added_bytes_of_join(self, request: JoinRequest) -> int:
        """Return by how much its size in memory would grow with this member."""
        size = limits.MEMBER_BYTES + sum(protocol.size for protocol in request.protocols)
        return size - self.presence.memory_bytes_of(self.joining_id(request))

    def added_bytes_of_assignments(self, assignments: Mapping[str, bytes]) -> int:
        """Return by how much its size in memory would grow with these assignments."""
        return sum(map(len, assignments.values())) - self.assigned_bytes

    def describe(self) -> GroupDescription:
        """Return its description; with subscriptions and assignments only if it is stable."""
        is_stable = self.state is GroupState.STABLE
        members = tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.subscription if is_stable else b"",
                member.assignment if is_stable else b"",
            )
            for member in self.members.values()
        )
        return GroupDescription(
            ErrorCode.NONE,
            self.group_id,
            self.state,
            self.protocol_type,
            (self.image.protocol or "") if is_stable else "",
            members,
        )

    def listing(self) -> GroupListing:
        """Return its row of ListGroups."""
        return GroupListing(self.group_id, self.protocol_type, self.state.value, GROUP_TYPE)

    def deletion_error(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP if it may not be deleted."""
        is_empty = self.state is GroupState.EMPTY
        return ErrorCode.NONE if is_empty else ErrorCode.NON_EMPTY_GROUP

    def offset_deletion_error(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP if it has members whose subscriptions cannot be read."""
        is_known = self.protocol_type == CONSUMER_PROTOCOL or self.state is GroupState.EMPTY
        return ErrorCode.NONE if is_known else ErrorCode.NON_EMPTY_GROUP

    def tombstones(self) -> list[Record]:
        """Return the records that delete it; none if the log has no record of it."""
        return [GroupRecord(self.group_id, None)] if self.image.generation else []

    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member reads a topic; true if its subscription cannot be read."""
        if self._subscribed is None or self._subscribed[0] is not self.image:
            self._subscribed = (self.image, subscribed_topics(self.image))
        topics = self._subscribed[1]
        return bool(self.members) and (topics is None or topic in topics)

    def retention_start_ms(self, topic: str) -> int | None:
        """Return when the retention of a topic's offsets begins (KIP-211).

        Retention begins at the commit of an offset if that is later.

        None: they do not expire in this state of the group.
        """
        if self.is_idle:
            return self.image.state_timestamp_ms or 0
        is_stable = self.state is GroupState.STABLE
        is_read = self.image.protocol_type != CONSUMER_PROTOCOL or self.subscribes_to(topic)
        return 0 if is_stable and not is_read else None

    def trigger_rebalance(self, reason: str, now: Moment) -> GroupDecision:
        """Make all members join again, after a conversion from another group type."""
        decision: GroupDecision = Decision()
        if self.image.members and self.rebalance is None:
            begin_rebalance(self, reason, decision)
            maybe_complete_join(self, decision, now)
        return decision

    def members_with_protocols(self) -> Iterator[tuple[Member, tuple[GroupProtocol, ...], bool]]:
        """Yield each member, its protocols, and whether these state the partitions it owns.

        They do once the member has joined again. Before that, its assignment does, whether of this
        generation or of the consumer group that this group was.
        """
        for member in self.members.values():
            has_joined = self.rebalance is not None and member.member_id in self.rebalance.joined
            is_assigned = self.image.state_timestamp_ms is not None or bool(member.assignment)
            protocols = self.presence[member.member_id].protocols
            yield member, protocols, has_joined or not is_assigned

    def join_to_classic_group(
        self, request: JoinRequest, token: Token, now: Moment
    ) -> GroupDecision:
        """Add a member to the next generation; its response may wait for the other members."""
        return join(self, request, token, now)

    def sync(self, request: SyncRequest, token: Token, now: Moment) -> GroupDecision:
        """Respond with a member's assignment, once the leader has sent the assignments."""
        decision: GroupDecision = Decision()
        error = self._sync_error(request)
        if error is not ErrorCode.NONE:
            decision.reply(token, SyncResponse(error))
            return decision
        self.extend_session(request.member_id, now)
        self.pending_syncs.mark_received(request.member_id)
        if self.state is GroupState.STABLE:
            decision.reply(token, sync_response(self.image, request.member_id))
            return decision
        earlier = self.pending_syncs.add_waiting(request.member_id, token)
        if earlier is not None:
            decision.reply(earlier, SyncResponse(ErrorCode.REBALANCE_IN_PROGRESS))
        if request.member_id == self.image.leader:
            self._complete_sync(request.assignments, decision, now)
        return decision

    def _sync_error(self, request: SyncRequest) -> ErrorCode:
        error = self.member_error(request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return error
        if self.was_consumer_group:  # Its members may have been given another protocol there.
            return ErrorCode.REBALANCE_IN_PROGRESS
        is_other_type = request.protocol_type not in (None, self.image.protocol_type)
        if is_other_type or request.protocol not in (None, self.image.protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.rebalance is not None:
            return ErrorCode.REBALANCE_IN_PROGRESS
        if sum(map(len, request.assignments.values())) > self.settings.metadata_bytes_max:
            # As Kafka answers when the record that holds them would be too large.
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE

    def _complete_sync(
        self, assignments: Mapping[str, bytes], decision: GroupDecision, now: Moment
    ) -> None:
        """Store the leader's assignments; a member without one gets an empty assignment."""
        members = {
            member_id: member.with_assignment(member.subscription, assignments.get(member_id, b""))
            for member_id, member in self.image.members.items()
        }
        image = self.image._replace(state_timestamp_ms=now.wall_ms, members=members)
        decision.records.append(GroupRecord(self.group_id, image))
        for member_id, token in self.pending_syncs.waiting.items():
            decision.reply(token, sync_response(image, member_id))
            self.extend_session(member_id, now)
        self.pending_syncs.waiting.clear()

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> ErrorCode:
        """Extend a member's session; return whether it has to join again."""
        error = self.member_error(request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return error
        self.extend_session(request.member_id, now)
        is_settled = self.rebalance is None and not self.was_consumer_group
        return ErrorCode.NONE if is_settled else ErrorCode.REBALANCE_IN_PROGRESS

    def leave(self, request: LeaveRequest, token: Token, now: Moment) -> GroupDecision:
        """Remove members, which causes a rebalance."""
        decision: GroupDecision = Decision()
        errors = []
        leaving: dict[str, str] = {}
        for member in request.members:
            error, member_id = self._leaving_id(member)
            errors.append(error)
            if member_id is not None:
                leaving[member_id] = member.reason
        if leaving:
            said = next(iter(leaving.values()))
            reason = f"{member_names(list(leaving))} left{reason_text(said)}"
            remove_members(self, leaving, reason, decision, now)
        else:
            maybe_complete_join(self, decision, now)  # A pending member id may be gone.
        decision.reply(token, LeaveResponse(ErrorCode.NONE, tuple(errors)))
        return decision

    def _leaving_id(self, member: LeavingMember) -> tuple[ErrorCode, str | None]:
        if member.instance_id is None and member.member_id in self.pending_members:
            self.pending_members.remove(member.member_id)
            return ErrorCode.NONE, None
        if member.member_id == NO_MEMBER_ID and member.instance_id is not None:
            static_id = self.presence.static_member_id(member.instance_id)
            known = ErrorCode.UNKNOWN_MEMBER_ID if static_id is None else ErrorCode.NONE
            return known, static_id
        error = self.identity_error(member.member_id, member.instance_id)
        return error, member.member_id if error is ErrorCode.NONE else None

    def commit_error(
        self, member_id: str, instance_id: str | None, generation: int, now: Moment
    ) -> ErrorCode:
        """Return why a consumer may not commit offsets; a commit extends the member's session."""
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and member_id == NO_MEMBER_ID and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.member_error(member_id, instance_id, generation)
        if error is not ErrorCode.NONE:
            return error
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self.extend_session(member_id, now)
        return ErrorCode.NONE

    def tick(self, now: Moment) -> GroupDecision:
        """End expired sessions and rebalances; remove members that have not synced in time."""
        decision: GroupDecision = Decision()
        self.pending_members.expire(now.monotonic_ms)
        silent = {each: None for each in self.members if self.is_session_over(each, now)}
        late = self.pending_syncs.expired(self.members, now.monotonic_ms)
        unsynced = [each for each in late if each not in silent]
        if silent:
            note_removed(self, list(silent), "sent no request within the session timeout", decision)
        if unsynced:
            reason = "sent no SyncGroup within the rebalance timeout"
            note_removed(self, unsynced, reason, decision)
        if silent or unsynced:
            gone = [*silent, *unsynced]
            remove_members(self, gone, f"{member_names(gone)} expired", decision, now)
        else:
            maybe_complete_join(self, decision, now)
        self.presence.update_earliest()
        return decision
