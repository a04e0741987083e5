"""One classic group: members agree on a generation, their leader assigns, the broker keeps watch.

                      a join                         initial delay, or all came, or timeout
    Empty ------------------------> PreparingRebalance ------------------------> CompletingRebalance
      ^                               ^            |  nobody left                          |
      |                               |            v                          the leader's |
      +---------------------------------------- Empty                       assignments    |
                                      |                                                    v
                                      +--------- join, leave, expiry --------------------- Stable

(kafka.md 2.6; Kafka's GroupMetadataManager, KIP-62, KIP-345, KIP-394, KIP-814.)

The state is not stored, it follows from two things:

- `image`, what the last record says. Only `replay` changes it. A completed join writes one
  (generation + 1, no assignments yet), the leader's sync writes one (assignments), so does the
  last member that leaves, and a static member that comes back under a new id.
- the waiting room, open between two generations. Members come and go there; it is never written,
  and the record that ends a rebalance closes it.

Sessions, parked requests and ids handed out (`GroupPresence`, `Syncs`, `HandedOutIds`) are not
written either: after a load members get a full session timeout, and everybody who waited was told.
At most one record follows from a command, so that each command sees the last one's effect.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

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
from broker.core.groups.joining import (
    Syncs,
    WaitingRoom,
    choose_protocol,
    joined,
    new_member,
    replaced,
    synced,
)
from broker.core.groups.presence import GroupPresence, HandedOutIds, Presence
from broker.core.groups.records import GroupImage, GroupRecord, Member, Record
from broker.core.groups.subscription import CONSUMER_PROTOCOL, subscribed_topics
from broker.core.machine import Decision, Moment, Token
from broker.model import limits
from broker.model.errors import ErrorCode

GROUP_TYPE = "classic"  # as ListGroups shows it


class ClassicGroup:
    """The state machine of one group. Commands return a Decision; `replay` makes it true."""

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        """Begin without members, as a group that nobody has written of."""
        self.group_id = group_id
        self.image = GroupImage()
        self.watched_ms: int | None = None  # when its shard will look at it again
        self._settings = settings
        self._room: WaitingRoom | None = None
        self._presence = GroupPresence()
        self._handed_out = HandedOutIds()
        self._syncs = Syncs()
        self._subscribed: tuple[GroupImage, frozenset[str] | None] | None = None
        self._assigned_bytes = 0

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def state(self) -> GroupState:
        """Where the group stands."""
        if self._room is not None:
            return GroupState.PREPARING_REBALANCE
        if not self.image.members:
            return GroupState.EMPTY
        if self.image.state_timestamp_ms is None:
            return GroupState.COMPLETING_REBALANCE
        return GroupState.STABLE

    @property
    def members(self) -> Mapping[str, Member]:
        """Who belongs to it now; in a rebalance, who is expected or new."""
        return self.image.members if self._room is None else self._room.members

    @property
    def is_idle(self) -> bool:
        """Whether nobody is in it or on the way into it."""
        return self.state is GroupState.EMPTY and not self._handed_out

    @property
    def is_stored(self) -> bool:
        """Whether the log knows it."""
        return self.image.generation > 0

    @property
    def weight(self) -> int:
        """What it takes, as group_sizes.py counts it."""
        ids = len(self._handed_out) * limits.HANDED_OUT_ID_BYTES
        return limits.GROUP_BYTES + self._presence.weight + self._assigned_bytes + ids

    def growth(self, request: JoinRequest) -> int:
        """How much more it would take with this member in it."""
        size = limits.MEMBER_BYTES + sum(protocol.size for protocol in request.protocols)
        return size - self._presence.weight_of(self._own_id(request))

    def growth_by(self, assignments: Mapping[str, bytes]) -> int:
        """How much more it would take with these."""
        return sum(map(len, assignments.values())) - self._assigned_bytes

    def describe(self) -> GroupDescription:
        """What an administrator sees: subscriptions and assignments only when they are settled."""
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
            self.image.protocol_type if self._room is None else self._room.protocol_type,
            (self.image.protocol or "") if is_stable else "",
            members,
        )

    def listing(self) -> GroupListing:
        """What a list of groups says of it."""
        protocol_type = self.image.protocol_type if self._room is None else self._room.protocol_type
        return GroupListing(self.group_id, protocol_type, self.state.value, GROUP_TYPE)

    def deletion_error(self) -> ErrorCode:
        """Whether an administrator may delete it."""
        is_empty = self.state is GroupState.EMPTY
        return ErrorCode.NONE if is_empty else ErrorCode.NON_EMPTY_GROUP

    def offset_deletion_error(self) -> ErrorCode:
        """Whether it can be told what its members are subscribed to, if it has any."""
        protocol_type = self.listing().protocol_type
        is_known = protocol_type == CONSUMER_PROTOCOL or self.state is GroupState.EMPTY
        return ErrorCode.NONE if is_known else ErrorCode.NON_EMPTY_GROUP

    def tombstones(self) -> list[Record]:
        """The records that end it, as far as the log knows it."""
        return [GroupRecord(self.group_id, None)] if self.image.generation else []

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads a topic, as far as can be told: else it may."""
        if self._subscribed is None or self._subscribed[0] is not self.image:
            self._subscribed = (self.image, subscribed_topics(self.image))
        topics = self._subscribed[1]
        return bool(self.members) and (topics is None or topic in topics)

    def retention_start_ms(self, topic: str) -> int | None:
        """From when on the offsets of a topic grow old, if not from their commit (KIP-211).

        None: they do not, as long as the group is as it is.
        """
        if self.is_idle:
            return self.image.state_timestamp_ms or 0
        is_stable = self.state is GroupState.STABLE
        is_read = self.image.protocol_type != CONSUMER_PROTOCOL or self.subscribes_to(topic)
        return 0 if is_stable and not is_read else None

    def waiting(self) -> list[Token]:
        """Everybody whose request is parked here."""
        joining = [] if self._room is None else list(self._room.joined.values())
        return joining + list(self._syncs.waiting.values())

    # ---- the log ---------------------------------------------------------------------------------

    def replay(self, image: GroupImage) -> None:
        """What the log says is now so; a rebalance that led to it is over."""
        self.image = image
        self._room = None
        self._assigned_bytes = sum(len(each.assignment) for each in image.members.values())

    def resume(self, now: Moment) -> None:
        """After a load: every member has one session timeout to show that it is still there."""
        for member in self.image.members.values():
            protocol = GroupProtocol(self.image.protocol or "", member.subscription)
            deadline_ms = now.monotonic_ms + member.session_timeout_ms
            presence = Presence(member.instance_id, (protocol,), deadline_ms)
            self._presence.add(member.member_id, presence)
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._syncs.expect(self.image.members, now.monotonic_ms)

    # ---- another kind of group (KIP-848) ---------------------------------------------------------

    def begin_rebalance(self, reason: str, now: Moment) -> GroupDecision:
        """Have everybody join again: a group that was of another kind begins anew."""
        decision: GroupDecision = Decision()
        if self.image.members and self._room is None:
            self._open_room(reason, decision)
            self._settle(decision, now)
        return decision

    def offers(self) -> Iterator[tuple[Member, tuple[GroupProtocol, ...], bool]]:
        """Each member, what it can take part in, and whether that tells what it owns.

        A member's offer does once it has joined again; before, its assignment does, be it of this
        generation or of the consumer group that this one was.
        """
        for member in self.members.values():
            has_joined = self._room is not None and member.member_id in self._room.joined
            is_assigned = self.image.state_timestamp_ms is not None or bool(member.assignment)
            protocols = self._presence[member.member_id].protocols
            yield member, protocols, has_joined or not is_assigned

    @property
    def _was_consumer_group(self) -> bool:
        """Whether its members have not joined again since: they have what that one gave them.

        Only such a group is unassigned with assignments, which every member has then.
        """
        if self.image.state_timestamp_ms is not None or not self.image.members:
            return False
        return bool(next(iter(self.image.members.values())).assignment)

    def dismiss(self, decision: GroupDecision) -> None:
        """Whoever waits hears that it must join again."""
        error = ErrorCode.REBALANCE_IN_PROGRESS
        if self._room is not None:
            for member_id, token in self._room.joined.items():
                decision.reply(token, JoinResponse(error, member_id))
        for token in self._syncs.waiting.values():
            decision.reply(token, SyncResponse(error))

    # ---- join ------------------------------------------------------------------------------------

    def join(self, request: JoinRequest, token: Token, now: Moment) -> GroupDecision:
        """A member asks to be in the next generation; it may wait for the others."""
        decision: GroupDecision = Decision()
        error = self._join_error(request)
        if error is ErrorCode.GROUP_MAX_SIZE_REACHED and request.member_id in self.members:
            # One too many, for whom the others would otherwise wait.
            self._note_gone([request.member_id], "came back to a group that was full", decision)
            self._remove([request.member_id], "the group is full", decision, now)
        if error is not ErrorCode.NONE:
            decision.reply(token, JoinResponse(error, request.member_id))
        elif request.member_id == NO_MEMBER_ID:
            self._join_first(request, token, now, decision)
        elif request.member_id in self._handed_out:
            self._handed_out.remove(request.member_id)
            self._admit(request, token, now, decision)
        else:
            self._join_again(request, token, now, decision)
        return decision

    def _join_error(self, request: JoinRequest) -> ErrorCode:
        """What forbids this member to join this group, whatever its state."""
        if not self._supports(request):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.member_id != NO_MEMBER_ID and request.member_id not in self._handed_out:
            error = self._identity_error(request.member_id, request.instance_id)
            if error is not ErrorCode.NONE:
                return error
        return ErrorCode.GROUP_MAX_SIZE_REACHED if self._is_full_for(request) else ErrorCode.NONE

    def _supports(self, request: JoinRequest) -> bool:
        names = [protocol.name for protocol in request.protocols]
        if not request.protocol_type or not 0 < len(names) <= limits.GROUP_PROTOCOLS_PER_MEMBER_MAX:
            return False
        own_id = self._own_id(request)
        if not self._presence.has_others(own_id):
            return True
        expected = self.image.protocol_type if self._room is None else self._room.protocol_type
        is_expected = request.protocol_type == expected
        return is_expected and self._presence.supports(names, apart_from=own_id)

    def _is_full_for(self, request: JoinRequest) -> bool:
        own_id = self._own_id(request)
        size_bytes = sum(protocol.size for protocol in request.protocols)
        size_bytes += self._presence.metadata_bytes_apart_from(own_id)
        if size_bytes > self._settings.metadata_bytes_max:
            return True
        # In a rebalance, those who have not come do not take a place: they may never come.
        present: Collection[str] = self.members if self._room is None else self._room.joined
        return own_id not in present and len(present) >= self._settings.members_max

    def _join_first(
        self, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """A member without an id: a static one may be an old one that was restarted."""
        member_id = request.fresh_member_id
        named = request._replace(member_id=member_id)
        if request.instance_id is not None:
            old_id = self._presence.static_id(request.instance_id)
            if old_id is None:
                self._admit(named, token, now, decision)
            else:
                self._replace_static(old_id, named, token, now, decision)
        elif not request.requires_member_id:
            self._admit(named, token, now, decision)
        elif len(self._handed_out) >= limits.PENDING_MEMBERS_PER_GROUP_MAX:
            decision.reply(token, JoinResponse(ErrorCode.GROUP_MAX_SIZE_REACHED))
        else:  # KIP-394: a client that gives up between the two joins leaves no member behind.
            self._handed_out.add(member_id, now.monotonic_ms + request.session_timeout_ms)
            decision.reply(token, JoinResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id))

    def _join_again(
        self, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """A member of this group: a rebalance, unless nothing changed for anybody."""
        is_unchanged = self._presence[request.member_id].protocols == request.protocols
        is_leader = request.member_id == self.image.leader
        state = self.state
        if (is_unchanged and not self._was_consumer_group) and (
            state is GroupState.COMPLETING_REBALANCE
            or (state is GroupState.STABLE and not is_leader)
        ):
            self._touch(request.member_id, now)
            decision.reply(token, joined(self.image, request.member_id))
            return
        what = "joined again" if is_unchanged else "changed its subscription or protocols"
        who = "leader" if is_leader else "member"
        reason = f"{who} {request.member_id} {what}{_in_its_words(request.reason)}"
        room = self._room or self._open_room(reason, decision)
        room.members[request.member_id] = new_member(request)
        self._park(request, token, now, decision)

    def _admit(
        self, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """Let a member in that was not one before."""
        reason = f"member {request.member_id} joined{_in_its_words(request.reason)}"
        room = self._room or self._open_room(reason, decision)
        room.add(new_member(request), request.protocol_type)
        patience_ms = now.monotonic_ms + limits.NEW_MEMBER_JOIN_TIMEOUT_MS
        self._presence.add(
            request.member_id,
            Presence(request.instance_id, request.protocols, patience_ms, is_new=True),
        )
        self._park(request, token, now, decision)

    def _replace_static(
        self, old_id: str, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """KIP-345: an instance that was restarted goes on where it was, the old one is fenced."""
        self._fence(old_id, request, decision)
        if self.state is GroupState.STABLE and self._vote(old_id, request) == self.image.protocol:
            self._keep_generation(old_id, request, token, now, decision)
            return
        self._presence.add(request.member_id, self._presence.remove(old_id))
        reason = f"static member {request.member_id} came back where another assignment is due"
        room = self._room or self._open_room(reason, decision)
        room.replace(old_id, new_member(request))
        self._park(request, token, now, decision)

    def _vote(self, old_id: str, request: JoinRequest) -> str:
        """What would be chosen if an old member were replaced by this one."""
        return choose_protocol(
            request.protocols if each == old_id else self._presence[each].protocols
            for each in self.image.members
        )

    def _keep_generation(
        self, old_id: str, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """No rebalance: the same assignment under the new id.

        A client that cannot be told to skip assigning (KIP-814) is told the old leader's id, so
        that it does not take itself for the leader and compute what nobody waits for.
        """
        deadline_ms = now.monotonic_ms + request.session_timeout_ms
        presence = Presence(request.instance_id, request.protocols, deadline_ms)
        member = new_member(request).with_share(
            presence.metadata.get(self.image.protocol or "", b""),
            self.image.members[old_id].assignment,
        )
        is_leader = self.image.leader == old_id
        image = self.image._replace(
            leader=member.member_id if is_leader else self.image.leader,
            members=replaced(self.image.members, old_id, member),
        )
        self._presence.remove(old_id)
        self._presence.add(member.member_id, presence)
        self._syncs.has_asked(old_id)
        decision.records.append(GroupRecord(self.group_id, image))
        response = joined(image, member.member_id)
        if is_leader and request.supports_skip_assignment:
            response = response._replace(skip_assignment=True)
        elif is_leader:
            response = response._replace(leader=old_id, members=())
        decision.reply(token, response)

    # ---- the waiting room ------------------------------------------------------------------------

    def _open_room(self, reason: str, decision: GroupDecision) -> WaitingRoom:
        """Begin a rebalance: who waits for an assignment hears that there will be none."""
        decision.note(
            "group rebalance",
            reason,
            group=self.group_id,
            generation=self.image.generation,
            members=len(self.image.members),
        )
        for token in self._syncs.end():
            decision.reply(token, SyncResponse(ErrorCode.REBALANCE_IN_PROGRESS))
        image = self.image
        self._room = WaitingRoom(
            dict(image.members), image.protocol_type, image.leader, is_initial=not image.members
        )
        return self._room

    def _park(
        self, request: JoinRequest, token: Token, now: Moment, decision: GroupDecision
    ) -> None:
        """Let a member wait for the others; a request it sent before is answered at last."""
        room = self._room
        assert room is not None
        earlier = room.joined.pop(request.member_id, None)
        if earlier is not None:
            response = JoinResponse(ErrorCode.REBALANCE_IN_PROGRESS, request.member_id)
            decision.reply(earlier, response)
        room.joined[request.member_id] = token
        self._presence.offer(request.member_id, request.protocols)
        if not self._presence[request.member_id].is_new:
            deadline_ms = now.monotonic_ms + request.session_timeout_ms
            self._presence.live_until(request.member_id, deadline_ms)
        self._settle(decision, now)

    def _settle(self, decision: GroupDecision, now: Moment) -> None:
        """Close the room if it is time."""
        room = self._room
        if room is not None and room.is_over(
            now.monotonic_ms,
            self._settings.initial_rebalance_delay_ms,
            awaits_more=bool(self._handed_out),
        ):
            self._complete(room, decision, now)

    def _complete(self, room: WaitingRoom, decision: GroupDecision, now: Moment) -> None:
        """End the join: those who came are the next generation.

        A static member that has not come stays until its session ends (KIP-345).
        """
        absent = [
            member.member_id
            for member in room.members.values()
            if member.member_id not in room.joined and member.instance_id is None
        ]
        for member_id in absent:
            room.remove(member_id)
            self._presence.remove(member_id)
        if absent:
            self._note_gone(absent, "did not join again within the rebalance timeout", decision)
        if room.members and not room.joined:
            room.wait_again(now.monotonic_ms)
            return
        if room.leader not in room.joined:
            room.leader = next(iter(room.joined), None)
        image = self._next_image(room, now)
        room.deadline_ms = None  # The record closes it.
        decision.records.append(GroupRecord(self.group_id, image))
        for member_id, token in room.joined.items():
            decision.reply(token, joined(image, member_id))
        for member_id, member in room.members.items():
            self._presence[member_id].is_new = False
            self._presence.live_until(member_id, now.monotonic_ms + member.session_timeout_ms)
        if room.members:
            self._syncs.expect(room.members, now.monotonic_ms)

    def _next_image(self, room: WaitingRoom, now: Moment) -> GroupImage:
        generation = self.image.generation + 1
        if not room.members:
            return GroupImage(generation, room.protocol_type, state_timestamp_ms=now.wall_ms)
        protocol = choose_protocol(self._presence[each].protocols for each in room.members)
        members = {
            member_id: member.with_share(self._presence[member_id].metadata[protocol], b"")
            for member_id, member in room.members.items()
        }
        return GroupImage(generation, room.protocol_type, protocol, room.leader, None, members)

    # ---- sync ------------------------------------------------------------------------------------

    def sync(self, request: SyncRequest, token: Token, now: Moment) -> GroupDecision:
        """A member asks for its assignment; it waits until the leader has brought them."""
        decision: GroupDecision = Decision()
        error = self._sync_error(request)
        if error is not ErrorCode.NONE:
            decision.reply(token, SyncResponse(error))
            return decision
        self._touch(request.member_id, now)
        self._syncs.has_asked(request.member_id)
        if self.state is GroupState.STABLE:
            decision.reply(token, synced(self.image, request.member_id))
            return decision
        earlier = self._syncs.park(request.member_id, token)
        if earlier is not None:
            decision.reply(earlier, SyncResponse(ErrorCode.REBALANCE_IN_PROGRESS))
        if request.member_id == self.image.leader:
            self._assign(request.assignments, decision, now)
        return decision

    def _sync_error(self, request: SyncRequest) -> ErrorCode:
        error = self._member_error(request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return error
        if self._was_consumer_group:  # Its members may have been told of another protocol there.
            return ErrorCode.REBALANCE_IN_PROGRESS
        is_other_type = request.protocol_type not in (None, self.image.protocol_type)
        if is_other_type or request.protocol not in (None, self.image.protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self._room is not None:
            return ErrorCode.REBALANCE_IN_PROGRESS
        if sum(map(len, request.assignments.values())) > self._settings.metadata_bytes_max:
            # As Kafka answers when the record that holds them would be too large.
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE

    def _assign(
        self, assignments: Mapping[str, bytes], decision: GroupDecision, now: Moment
    ) -> None:
        """The leader has spoken: a member it left out gets an empty assignment."""
        members = {
            member_id: member.with_share(member.subscription, assignments.get(member_id, b""))
            for member_id, member in self.image.members.items()
        }
        image = self.image._replace(state_timestamp_ms=now.wall_ms, members=members)
        decision.records.append(GroupRecord(self.group_id, image))
        for member_id, token in self._syncs.waiting.items():
            decision.reply(token, synced(image, member_id))
            self._touch(member_id, now)
        self._syncs.waiting.clear()

    # ---- staying and leaving ---------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> ErrorCode:
        """A member is alive; it hears whether it has to join again."""
        error = self._member_error(request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return error
        self._touch(request.member_id, now)
        is_settled = self._room is None and not self._was_consumer_group
        return ErrorCode.NONE if is_settled else ErrorCode.REBALANCE_IN_PROGRESS

    def leave(self, request: LeaveRequest, token: Token, now: Moment) -> GroupDecision:
        """Members go; the others learn it by the rebalance that follows."""
        decision: GroupDecision = Decision()
        errors = []
        leaving: dict[str, str] = {}
        for member in request.members:
            error, member_id = self._leave_one(member)
            errors.append(error)
            if member_id is not None:
                leaving[member_id] = member.reason
        if leaving:
            said = next(iter(leaving.values()))
            reason = f"{_members(list(leaving))} left{_in_its_words(said)}"
            self._remove(leaving, reason, decision, now)
        else:
            self._settle(decision, now)  # An id that was only handed out may be gone.
        decision.reply(token, LeaveResponse(ErrorCode.NONE, tuple(errors)))
        return decision

    def _leave_one(self, member: LeavingMember) -> tuple[ErrorCode, str | None]:
        if member.instance_id is None and member.member_id in self._handed_out:
            self._handed_out.remove(member.member_id)
            return ErrorCode.NONE, None
        if member.member_id == NO_MEMBER_ID and member.instance_id is not None:
            static_id = self._presence.static_id(member.instance_id)
            known = ErrorCode.UNKNOWN_MEMBER_ID if static_id is None else ErrorCode.NONE
            return known, static_id
        error = self._identity_error(member.member_id, member.instance_id)
        return error, member.member_id if error is ErrorCode.NONE else None

    def commit_error(
        self, member_id: str, instance_id: str | None, generation: int, now: Moment
    ) -> ErrorCode:
        """Whether this consumer may commit offsets; a member that does is alive."""
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and member_id == NO_MEMBER_ID and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self._member_error(member_id, instance_id, generation)
        if error is not ErrorCode.NONE:
            return error
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._touch(member_id, now)
        return ErrorCode.NONE

    def tick(self, now: Moment) -> GroupDecision:
        """Let time do its work: sessions end, rooms close, those who never synced are removed."""
        decision: GroupDecision = Decision()
        self._handed_out.expire(now.monotonic_ms)
        silent = {each: None for each in self.members if self._is_gone(each, now)}
        late = self._syncs.late(self.members, now.monotonic_ms)
        unsynced = [each for each in late if each not in silent]
        if silent:
            self._note_gone(list(silent), "not heard of for the session timeout", decision)
        if unsynced:
            reason = "did not ask for the assignment within the rebalance timeout"
            self._note_gone(unsynced, reason, decision)
        if silent or unsynced:
            gone = [*silent, *unsynced]
            self._remove(gone, f"{_members(gone)} expired", decision, now)
        else:
            self._settle(decision, now)
        self._presence.look_again()
        return decision

    def next_deadline_ms(self) -> int | None:
        """The monotonic time before which `tick` has nothing to do; None if it never has."""
        deadlines = (
            self._presence.earliest_ms,
            self._handed_out.earliest_ms,
            self._syncs.deadline_ms,
            None if self._room is None else self._room.deadline_ms,
        )
        return min((each for each in deadlines if each is not None), default=None)

    def _is_gone(self, member_id: str, now: Moment) -> bool:
        """Whether a session is over; who waits for us cannot heartbeat, so we wait for it."""
        presence = self._presence[member_id]
        if now.monotonic_ms < presence.session_deadline_ms:
            return False
        is_waiting = member_id in self._syncs.waiting or (
            self._room is not None and member_id in self._room.joined
        )
        if is_waiting and not presence.is_new:
            self._touch(member_id, now)
            return False
        return True

    def _remove(
        self, member_ids: Iterable[str], reason: str, decision: GroupDecision, now: Moment
    ) -> None:
        """Take members out, which begins a rebalance or may complete one."""
        room = self._room or self._open_room(reason, decision)
        for member_id in member_ids:
            token = room.remove(member_id)
            self._presence.remove(member_id)
            if token is not None:
                decision.reply(token, JoinResponse(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        self._settle(decision, now)

    def _note_gone(self, member_ids: list[str], reason: str, decision: GroupDecision) -> None:
        decision.note(
            "group member expired",
            f"{_members(member_ids)} {reason}",
            group=self.group_id,
            generation=self.image.generation,
        )

    # ---- who is who ------------------------------------------------------------------------------

    def _own_id(self, request: JoinRequest) -> str | None:
        """Which member of the group a join is about: itself, or the instance it replaces."""
        if request.instance_id is not None and request.member_id == NO_MEMBER_ID:
            return self._presence.static_id(request.instance_id)
        return request.member_id

    def _identity_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this is a member; an instance under an older id is fenced (KIP-345)."""
        member = self.members.get(member_id)
        if instance_id is None or (member is not None and member.instance_id == instance_id):
            return ErrorCode.NONE if member is not None else ErrorCode.UNKNOWN_MEMBER_ID
        if self._presence.static_id(instance_id) is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.FENCED_INSTANCE_ID

    def _member_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Whether this is a member of this very generation."""
        error = self._identity_error(member_id, instance_id)
        if error is ErrorCode.NONE and generation != self.image.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _touch(self, member_id: str, now: Moment) -> None:
        """A sign of life."""
        timeout_ms = self.members[member_id].session_timeout_ms
        self._presence.live_until(member_id, now.monotonic_ms + timeout_ms)

    def _fence(self, member_id: str, by: JoinRequest, decision: GroupDecision) -> None:
        """Whatever the replaced instance waits for, it hears that it was replaced."""
        decision.note(
            "group member fenced",
            f"another process joined with its instance id{_in_its_words(by.reason)}",
            group=self.group_id,
            instance=by.instance_id,
            member=member_id,
            successor=by.member_id,
        )
        joining = None if self._room is None else self._room.joined.pop(member_id, None)
        if joining is not None:
            decision.reply(joining, JoinResponse(ErrorCode.FENCED_INSTANCE_ID, member_id))
        syncing = self._syncs.waiting.pop(member_id, None)
        if syncing is not None:
            decision.reply(syncing, SyncResponse(ErrorCode.FENCED_INSTANCE_ID))


def _members(member_ids: list[str]) -> str:
    """Members in the words of a note: the first, and how many more."""
    [first, *others] = member_ids
    return f"member {first} and {len(others)} more" if others else f"member {first}"


def _in_its_words(reason: str) -> str:
    """What a client said of why it joins or leaves (KIP-800)."""
    return f": {reason}" if reason else ""
