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
`PendingMembers`) are not written either: after a load members have a full session timeout, and
requests that were waiting have been answered with an error. A command writes at most one record, so
that each command sees the effect of the one before.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from broker.core.coordination.machine import Decision, Moment, Token
from broker.core.groups.commands import (
    NO_MEMBER_ID,
    DescribedMember,
    GroupDecision,
    GroupDescription,
    GroupListing,
    GroupProtocol,
    GroupSettings,
    GroupState,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from broker.core.groups.presence import GroupPresence, PendingMembers, Presence
from broker.core.groups.rebalance import (
    PendingRebalance,
    PendingSyncs,
    choose_protocol,
    join_response,
    new_member,
    sync_response,
    with_replaced,
)
from broker.core.groups.records import GroupImage, GroupRecord, Member, Record
from broker.core.groups.subscription import CONSUMER_PROTOCOL, subscribed_topics
from broker.model import limits
from broker.model.errors import ErrorCode

GROUP_TYPE = "classic"  # as ListGroups shows it


class ClassicGroup:
    """The state machine of one group. Commands return a Decision; `replay` applies its records."""

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        """Create a group without members that is not in the log yet."""
        self.group_id = group_id
        self.image = GroupImage()
        self.tick_scheduled_ms: int | None = None  # when its shard will call `tick`
        self._settings = settings
        self._rebalance: PendingRebalance | None = None
        self._presence = GroupPresence()
        self._pending_members = PendingMembers()
        self._pending_syncs = PendingSyncs()
        self._subscribed: tuple[GroupImage, frozenset[str] | None] | None = None
        self._assigned_bytes = 0

    # ---- state -----------------------------------------------------------------------------------

    @property
    def state(self) -> GroupState:
        """The state of the group, as Kafka names it."""
        if self._rebalance is not None:
            return GroupState.PREPARING_REBALANCE
        if not self.image.members:
            return GroupState.EMPTY
        if self.image.state_timestamp_ms is None:
            return GroupState.COMPLETING_REBALANCE
        return GroupState.STABLE

    @property
    def members(self) -> Mapping[str, Member]:
        """The members by id; in a rebalance, the expected ones and the new ones."""
        return self.image.members if self._rebalance is None else self._rebalance.members

    @property
    def is_idle(self) -> bool:
        """Whether it has no members and no member id is waiting to be used."""
        return self.state is GroupState.EMPTY and not self._pending_members

    @property
    def is_stored(self) -> bool:
        """Whether the log has a record of it."""
        return self.image.generation > 0

    @property
    def memory_bytes(self) -> int:
        """Its size in memory, as group_sizes.py counts it."""
        ids = len(self._pending_members) * limits.PENDING_MEMBER_BYTES
        return limits.GROUP_BYTES + self._presence.memory_bytes + self._assigned_bytes + ids

    def added_bytes_of_join(self, request: JoinRequest) -> int:
        """Return by how much its size in memory would grow with this member."""
        size = limits.MEMBER_BYTES + sum(protocol.size for protocol in request.protocols)
        return size - self._presence.memory_bytes_of(self._joining_id(request))

    def added_bytes_of_assignments(self, assignments: Mapping[str, bytes]) -> int:
        """Return by how much its size in memory would grow with these assignments."""
        return sum(map(len, assignments.values())) - self._assigned_bytes

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
            self.image.protocol_type if self._rebalance is None else self._rebalance.protocol_type,
            (self.image.protocol or "") if is_stable else "",
            members,
        )

    def listing(self) -> GroupListing:
        """Return its row of ListGroups."""
        protocol_type = (
            self.image.protocol_type if self._rebalance is None else self._rebalance.protocol_type
        )
        return GroupListing(self.group_id, protocol_type, self.state.value, GROUP_TYPE)

    def deletion_error(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP if it may not be deleted."""
        is_empty = self.state is GroupState.EMPTY
        return ErrorCode.NONE if is_empty else ErrorCode.NON_EMPTY_GROUP

    def offset_deletion_error(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP if it has members whose subscriptions cannot be read."""
        protocol_type = self.listing().protocol_type
        is_known = protocol_type == CONSUMER_PROTOCOL or self.state is GroupState.EMPTY
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

    def waiting(self) -> list[Token]:
        """Return the tokens of all joins and syncs that wait here."""
        joining = [] if self._rebalance is None else list(self._rebalance.joined.values())
        return joining + list(self._pending_syncs.waiting.values())

    # ---- the log ---------------------------------------------------------------------------------

    def replay(self, image: GroupImage) -> None:
        """Apply a record; the rebalance that led to it is over."""
        self.image = image
        self._rebalance = None
        self._assigned_bytes = sum(len(each.assignment) for each in image.members.values())

    def resume(self, now: Moment) -> None:
        """Begin a full session timeout for every member after a load."""
        for member in self.image.members.values():
            protocol = GroupProtocol(self.image.protocol or "", member.subscription)
            deadline_ms = now.monotonic_ms + member.session_timeout_ms
            presence = Presence(member.instance_id, (protocol,), deadline_ms)
            self._presence.add(member.member_id, presence)
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._pending_syncs.start(self.image.members, now.monotonic_ms)

    # ---- conversion from and to a consumer group (KIP-848) ---------------------------------------

    def trigger_rebalance(self, reason: str, now: Moment) -> GroupDecision:
        """Make all members join again, after a conversion from another group type."""
        decision: GroupDecision = Decision()
        if self.image.members and self._rebalance is None:
            self._prepare_rebalance(reason, decision)
            self._maybe_complete_join(decision, now)
        return decision

    def members_with_protocols(self) -> Iterator[tuple[Member, tuple[GroupProtocol, ...], bool]]:
        """Yield each member, its protocols, and whether these state the partitions it owns.

        They do once the member has joined again. Before that, its assignment does, whether of this
        generation or of the consumer group that this group was.
        """
        for member in self.members.values():
            has_joined = self._rebalance is not None and member.member_id in self._rebalance.joined
            is_assigned = self.image.state_timestamp_ms is not None or bool(member.assignment)
            protocols = self._presence[member.member_id].protocols
            yield member, protocols, has_joined or not is_assigned

    @property
    def _was_consumer_group(self) -> bool:
        """Whether it was converted and no member has joined again: members have its assignments.

        Only such a group has no state timestamp although every member has an assignment.
        """
        if self.image.state_timestamp_ms is not None or not self.image.members:
            return False
        return bool(next(iter(self.image.members.values())).assignment)

    def reject_waiting(self, decision: GroupDecision) -> None:
        """Answer all waiting joins and syncs with REBALANCE_IN_PROGRESS."""
        error = ErrorCode.REBALANCE_IN_PROGRESS
        if self._rebalance is not None:
            for member_id, token in self._rebalance.joined.items():
                decision.reply(token, JoinResponse(error, member_id))
        for token in self._pending_syncs.waiting.values():
            decision.reply(token, SyncResponse(error))

    # ---- join ------------------------------------------------------------------------------------

    def join_to_classic_group(
        self, request: JoinRequest, token: Token, now: Moment
    ) -> GroupDecision:
        """Add a member to the next generation; its response may wait for the other members."""
        decision: GroupDecision = Decision()
        error = self._join_error(request)
        if error is ErrorCode.GROUP_MAX_SIZE_REACHED and request.member_id in self.members:
            # The others would wait for this member until the rebalance timeout.
            self._note_removed([request.member_id], "rejoined a full group", decision)
            self._remove_members([request.member_id], "the group is full", decision, now)
        if error is not ErrorCode.NONE:
            decision.reply(token, JoinResponse(error, request.member_id))
        elif request.member_id == NO_MEMBER_ID:
            self._join_without_id(request, token, now, decision)
        elif request.member_id in self._pending_members:
            self._pending_members.remove(request.member_id)
            self._add_member(request, token, now, decision)
        else:
            self._rejoin(request, token, now, decision)
        return decision

    def _join_error(self, request: JoinRequest) -> ErrorCode:
        """Return why this member may not join this group, in any state of it."""
        if not self._supports(request):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.member_id != NO_MEMBER_ID and request.member_id not in self._pending_members:
            error = self._identity_error(request.member_id, request.instance_id)
            if error is not ErrorCode.NONE:
                return error
        return ErrorCode.GROUP_MAX_SIZE_REACHED if self._is_full_for(request) else ErrorCode.NONE

    def _supports(self, request: JoinRequest) -> bool:
        names = [protocol.name for protocol in request.protocols]
        if not request.protocol_type or not 0 < len(names) <= limits.GROUP_PROTOCOLS_PER_MEMBER_MAX:
            return False
        joining_id = self._joining_id(request)
        if not self._presence.has_others(joining_id):
            return True
        expected = (
            self.image.protocol_type if self._rebalance is None else self._rebalance.protocol_type
        )
        is_expected = request.protocol_type == expected
        return is_expected and self._presence.supports(names, excluding=joining_id)

    def _is_full_for(self, request: JoinRequest) -> bool:
        joining_id = self._joining_id(request)
        size_bytes = sum(protocol.size for protocol in request.protocols)
        size_bytes += self._presence.metadata_bytes_without(joining_id)
        if size_bytes > self._settings.metadata_bytes_max:
            return True
        # In a rebalance, members that have not rejoined are not counted: they may never do so.
        present: Collection[str] = (
            self.members if self._rebalance is None else self._rebalance.joined
        )
        return joining_id not in present and len(present) >= self._settings.members_max

    def _join_without_id(
        self, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """Join a member without an id; a static one may be a restarted instance."""
        member_id = request.fresh_member_id
        named = request._replace(member_id=member_id)
        if request.instance_id is not None:
            old_id = self._presence.static_member_id(request.instance_id)
            if old_id is None:
                self._add_member(named, token, now, decision)
            else:
                self._replace_static_member(old_id, named, token, now, decision)
        elif not request.requires_member_id:
            self._add_member(named, token, now, decision)
        elif len(self._pending_members) >= limits.PENDING_MEMBERS_PER_GROUP_MAX:
            decision.reply(token, JoinResponse(ErrorCode.GROUP_MAX_SIZE_REACHED))
        else:  # KIP-394: a client that gives up between the two joins leaves no member behind.
            self._pending_members.add(member_id, now.monotonic_ms + request.session_timeout_ms)
            decision.reply(token, JoinResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id))

    def _rejoin(
        self, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """Join a current member again: a rebalance, unless nothing has changed."""
        is_unchanged = self._presence[request.member_id].protocols == request.protocols
        is_leader = request.member_id == self.image.leader
        state = self.state
        if (is_unchanged and not self._was_consumer_group) and (
            state is GroupState.COMPLETING_REBALANCE
            or (state is GroupState.STABLE and not is_leader)
        ):
            self._extend_session(request.member_id, now)
            decision.reply(token, join_response(self.image, request.member_id))
            return
        what = "joined again" if is_unchanged else "changed its subscription or protocols"
        who = "leader" if is_leader else "member"
        reason = f"{who} {request.member_id} {what}{_reason_text(request.reason)}"
        rebalance = self._rebalance or self._prepare_rebalance(reason, decision)
        rebalance.members[request.member_id] = new_member(request)
        self._add_waiting_join(request, token, now, decision)

    def _add_member(
        self, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """Add a new member."""
        reason = f"member {request.member_id} joined{_reason_text(request.reason)}"
        rebalance = self._rebalance or self._prepare_rebalance(reason, decision)
        rebalance.add(new_member(request), request.protocol_type)
        deadline_ms = now.monotonic_ms + limits.NEW_MEMBER_JOIN_TIMEOUT_MS
        self._presence.add(
            request.member_id,
            Presence(request.instance_id, request.protocols, deadline_ms, is_new=True),
        )
        self._add_waiting_join(request, token, now, decision)

    def _replace_static_member(
        self, old_id: str, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """Give a restarted instance its old place under a new id; fence the old id (KIP-345)."""
        self._fence(old_id, request, decision)
        if (
            self.state is GroupState.STABLE
            and self._protocol_after_replacement(old_id, request) == self.image.protocol
        ):
            self._replace_without_rebalance(old_id, request, token, now, decision)
            return
        self._presence.add(request.member_id, self._presence.remove(old_id))
        reason = f"static member {request.member_id} rejoined and needs a new assignment"
        rebalance = self._rebalance or self._prepare_rebalance(reason, decision)
        rebalance.replace(old_id, new_member(request))
        self._add_waiting_join(request, token, now, decision)

    def _protocol_after_replacement(self, old_id: str, request: JoinRequest) -> str:
        """Return the protocol that would be chosen if the request replaced the old member."""
        return choose_protocol(
            request.protocols if each == old_id else self._presence[each].protocols
            for each in self.image.members
        )

    def _replace_without_rebalance(
        self, old_id: str, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """Give the new id the old assignment, without a rebalance.

        A client without `skip_assignment` (KIP-814) gets the old leader's id as leader, so that it
        does not compute an assignment that would not be used.
        """
        deadline_ms = now.monotonic_ms + request.session_timeout_ms
        presence = Presence(request.instance_id, request.protocols, deadline_ms)
        member = new_member(request).with_assignment(
            presence.metadata.get(self.image.protocol or "", b""),
            self.image.members[old_id].assignment,
        )
        is_leader = self.image.leader == old_id
        image = self.image._replace(
            leader=member.member_id if is_leader else self.image.leader,
            members=with_replaced(self.image.members, old_id, member),
        )
        self._presence.remove(old_id)
        self._presence.add(member.member_id, presence)
        self._pending_syncs.mark_received(old_id)
        decision.records.append(GroupRecord(self.group_id, image))
        response = join_response(image, member.member_id)
        if is_leader and request.supports_skip_assignment:
            response = response._replace(skip_assignment=True)
        elif is_leader:
            response = response._replace(leader=old_id, members=())
        decision.reply(token, response)

    # ---- rebalance -------------------------------------------------------------------------------

    def _prepare_rebalance(self, reason: str, decision: GroupDecision) -> PendingRebalance:
        """Begin a rebalance; answer waiting syncs with REBALANCE_IN_PROGRESS."""
        decision.note(
            "group rebalance",
            reason,
            group=self.group_id,
            generation=self.image.generation,
            members=len(self.image.members),
        )
        for token in self._pending_syncs.cancel():
            decision.reply(token, SyncResponse(ErrorCode.REBALANCE_IN_PROGRESS))
        image = self.image
        self._rebalance = PendingRebalance(
            dict(image.members), image.protocol_type, image.leader, is_initial=not image.members
        )
        return self._rebalance

    def _add_waiting_join(
        self, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """Let a join wait for the other members; answer an earlier join of the same member."""
        rebalance = self._rebalance
        assert rebalance is not None
        earlier = rebalance.joined.pop(request.member_id, None)
        if earlier is not None:
            response = JoinResponse(ErrorCode.REBALANCE_IN_PROGRESS, request.member_id)
            decision.reply(earlier, response)
        rebalance.joined[request.member_id] = token
        self._presence.set_protocols(request.member_id, request.protocols)
        if not self._presence[request.member_id].is_new:
            deadline_ms = now.monotonic_ms + request.session_timeout_ms
            self._presence.set_session_deadline(request.member_id, deadline_ms)
        self._maybe_complete_join(decision, now)

    def _maybe_complete_join(self, decision: GroupDecision, now: Moment) -> None:
        """Complete the join phase if all members have joined, or its deadline has passed."""
        rebalance = self._rebalance
        if rebalance is not None and rebalance.check_complete(
            now.monotonic_ms,
            self._settings.initial_rebalance_delay_ms,
            has_pending_members=bool(self._pending_members),
        ):
            self._complete_join(rebalance, decision, now)

    def _complete_join(
        self, rebalance: PendingRebalance, decision: GroupDecision, now: Moment
    ) -> None:
        """End the join phase: the members that have joined are the next generation.

        A static member that has not rejoined stays until its session ends (KIP-345).
        """
        absent = [
            member.member_id
            for member in rebalance.members.values()
            if member.member_id not in rebalance.joined and member.instance_id is None
        ]
        for member_id in absent:
            rebalance.remove(member_id)
            self._presence.remove(member_id)
        if absent:
            self._note_removed(absent, "did not join again within the rebalance timeout", decision)
        if rebalance.members and not rebalance.joined:
            rebalance.extend_deadline(now.monotonic_ms)
            return
        if rebalance.leader not in rebalance.joined:
            rebalance.leader = next(iter(rebalance.joined), None)
        image = self._next_image(rebalance, now)
        rebalance.deadline_ms = None  # The record ends it.
        decision.records.append(GroupRecord(self.group_id, image))
        for member_id, token in rebalance.joined.items():
            decision.reply(token, join_response(image, member_id))
        for member_id, member in rebalance.members.items():
            self._presence[member_id].is_new = False
            self._presence.set_session_deadline(
                member_id, now.monotonic_ms + member.session_timeout_ms
            )
        if rebalance.members:
            self._pending_syncs.start(rebalance.members, now.monotonic_ms)

    def _next_image(self, rebalance: PendingRebalance, now: Moment) -> GroupImage:
        generation = self.image.generation + 1
        if not rebalance.members:
            return GroupImage(generation, rebalance.protocol_type, state_timestamp_ms=now.wall_ms)
        protocol = choose_protocol(self._presence[each].protocols for each in rebalance.members)
        members = {
            member_id: member.with_assignment(self._presence[member_id].metadata[protocol], b"")
            for member_id, member in rebalance.members.items()
        }
        return GroupImage(
            generation, rebalance.protocol_type, protocol, rebalance.leader, None, members
        )

    # ---- sync ------------------------------------------------------------------------------------

    def sync(self, request: SyncRequest, token: Token, now: Moment) -> GroupDecision:
        """Respond with a member's assignment, once the leader has sent the assignments."""
        decision: GroupDecision = Decision()
        error = self._sync_error(request)
        if error is not ErrorCode.NONE:
            decision.reply(token, SyncResponse(error))
            return decision
        self._extend_session(request.member_id, now)
        self._pending_syncs.mark_received(request.member_id)
        if self.state is GroupState.STABLE:
            decision.reply(token, sync_response(self.image, request.member_id))
            return decision
        earlier = self._pending_syncs.add_waiting(request.member_id, token)
        if earlier is not None:
            decision.reply(earlier, SyncResponse(ErrorCode.REBALANCE_IN_PROGRESS))
        if request.member_id == self.image.leader:
            self._complete_sync(request.assignments, decision, now)
        return decision

    def _sync_error(self, request: SyncRequest) -> ErrorCode:
        error = self._member_error(request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return error
        if self._was_consumer_group:  # Its members may have been given another protocol there.
            return ErrorCode.REBALANCE_IN_PROGRESS
        is_other_type = request.protocol_type not in (None, self.image.protocol_type)
        if is_other_type or request.protocol not in (None, self.image.protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self._rebalance is not None:
            return ErrorCode.REBALANCE_IN_PROGRESS
        if sum(map(len, request.assignments.values())) > self._settings.metadata_bytes_max:
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
        for member_id, token in self._pending_syncs.waiting.items():
            decision.reply(token, sync_response(image, member_id))
            self._extend_session(member_id, now)
        self._pending_syncs.waiting.clear()

    # ---- heartbeat and leave ---------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> ErrorCode:
        """Extend a member's session; return whether it has to join again."""
        error = self._member_error(request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return error
        self._extend_session(request.member_id, now)
        is_settled = self._rebalance is None and not self._was_consumer_group
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
            reason = f"{_member_names(list(leaving))} left{_reason_text(said)}"
            self._remove_members(leaving, reason, decision, now)
        else:
            self._maybe_complete_join(decision, now)  # A pending member id may be gone.
        decision.reply(token, LeaveResponse(ErrorCode.NONE, tuple(errors)))
        return decision

    def _leaving_id(self, member: LeavingMember) -> tuple[ErrorCode, str | None]:
        if member.instance_id is None and member.member_id in self._pending_members:
            self._pending_members.remove(member.member_id)
            return ErrorCode.NONE, None
        if member.member_id == NO_MEMBER_ID and member.instance_id is not None:
            static_id = self._presence.static_member_id(member.instance_id)
            known = ErrorCode.UNKNOWN_MEMBER_ID if static_id is None else ErrorCode.NONE
            return known, static_id
        error = self._identity_error(member.member_id, member.instance_id)
        return error, member.member_id if error is ErrorCode.NONE else None

    def commit_error(
        self, member_id: str, instance_id: str | None, generation: int, now: Moment
    ) -> ErrorCode:
        """Return why a consumer may not commit offsets; a commit extends the member's session."""
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and member_id == NO_MEMBER_ID and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self._member_error(member_id, instance_id, generation)
        if error is not ErrorCode.NONE:
            return error
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._extend_session(member_id, now)
        return ErrorCode.NONE

    def tick(self, now: Moment) -> GroupDecision:
        """End expired sessions and rebalances; remove members that have not synced in time."""
        decision: GroupDecision = Decision()
        self._pending_members.expire(now.monotonic_ms)
        silent = {each: None for each in self.members if self._is_session_over(each, now)}
        late = self._pending_syncs.expired(self.members, now.monotonic_ms)
        unsynced = [each for each in late if each not in silent]
        if silent:
            self._note_removed(list(silent), "sent no request within the session timeout", decision)
        if unsynced:
            reason = "sent no SyncGroup within the rebalance timeout"
            self._note_removed(unsynced, reason, decision)
        if silent or unsynced:
            gone = [*silent, *unsynced]
            self._remove_members(gone, f"{_member_names(gone)} expired", decision, now)
        else:
            self._maybe_complete_join(decision, now)
        self._presence.update_earliest()
        return decision

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time before which `tick` has nothing to do; None: never."""
        deadlines = (
            self._presence.earliest_ms,
            self._pending_members.earliest_ms,
            self._pending_syncs.deadline_ms,
            None if self._rebalance is None else self._rebalance.deadline_ms,
        )
        return min((each for each in deadlines if each is not None), default=None)

    def _is_session_over(self, member_id: str, now: Moment) -> bool:
        """Return whether a session is over; a member whose request waits here cannot heartbeat."""
        presence = self._presence[member_id]
        if now.monotonic_ms < presence.session_deadline_ms:
            return False
        is_waiting = member_id in self._pending_syncs.waiting or (
            self._rebalance is not None and member_id in self._rebalance.joined
        )
        if is_waiting and not presence.is_new:
            self._extend_session(member_id, now)
            return False
        return True

    def _remove_members(
        self, member_ids: Iterable[str], reason: str, decision: GroupDecision, now: Moment
    ) -> None:
        """Remove members, which begins a rebalance or may complete one."""
        rebalance = self._rebalance or self._prepare_rebalance(reason, decision)
        for member_id in member_ids:
            token = rebalance.remove(member_id)
            self._presence.remove(member_id)
            if token is not None:
                decision.reply(token, JoinResponse(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        self._maybe_complete_join(decision, now)

    def _note_removed(self, member_ids: list[str], reason: str, decision: GroupDecision) -> None:
        decision.note(
            "group member expired",
            f"{_member_names(member_ids)} {reason}",
            group=self.group_id,
            generation=self.image.generation,
        )

    # ---- identity --------------------------------------------------------------------------------

    def _joining_id(self, request: JoinRequest) -> str | None:
        """Return the member id that a join is for: its own, or that of the replaced instance."""
        if request.instance_id is not None and request.member_id == NO_MEMBER_ID:
            return self._presence.static_member_id(request.instance_id)
        return request.member_id

    def _identity_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return an error unless this is a member; old ids of an instance are fenced (KIP-345)."""
        member = self.members.get(member_id)
        if instance_id is None or (member is not None and member.instance_id == instance_id):
            return ErrorCode.NONE if member is not None else ErrorCode.UNKNOWN_MEMBER_ID
        if self._presence.static_member_id(instance_id) is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.FENCED_INSTANCE_ID

    def _member_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Return an error unless this is a member of the current generation."""
        error = self._identity_error(member_id, instance_id)
        if error is ErrorCode.NONE and generation != self.image.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _extend_session(self, member_id: str, now: Moment) -> None:
        """Restart a member's session timeout."""
        timeout_ms = self.members[member_id].session_timeout_ms
        self._presence.set_session_deadline(member_id, now.monotonic_ms + timeout_ms)

    def _fence(self, member_id: str, by: JoinRequest, decision: GroupDecision) -> None:
        """Note the replacement; answer waiting requests of the old id with FENCED_INSTANCE_ID."""
        decision.note(
            "group member fenced",
            f"another process joined with its instance id{_reason_text(by.reason)}",
            group=self.group_id,
            instance=by.instance_id,
            member=member_id,
            successor=by.member_id,
        )
        joining = None if self._rebalance is None else self._rebalance.joined.pop(member_id, None)
        if joining is not None:
            decision.reply(joining, JoinResponse(ErrorCode.FENCED_INSTANCE_ID, member_id))
        syncing = self._pending_syncs.waiting.pop(member_id, None)
        if syncing is not None:
            decision.reply(syncing, SyncResponse(ErrorCode.FENCED_INSTANCE_ID))


def _member_names(member_ids: list[str]) -> str:
    """Return members for a log line: the first id, and the number of the others."""
    [first, *others] = member_ids
    return f"member {first} and {len(others)} more" if others else f"member {first}"


def _reason_text(reason: str) -> str:
    """Return the reason that a client gave for joining or leaving (KIP-800)."""
    return f": {reason}" if reason else ""
