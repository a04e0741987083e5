"""The state of a classic group: its last record, a rebalance, the sessions of its members.

Only `replay` changes the record. The rest is not stored: group.py says why.
"""

from collections.abc import Mapping

from broker.core.coordination.machine import Moment, Token
from broker.core.groups.classic.presence import GroupPresence, Presence
from broker.core.groups.classic.rebalance import PendingRebalance, PendingSyncs
from broker.core.groups.commands.classic import (
    NO_MEMBER_ID,
    GroupProtocol,
    GroupState,
    JoinRequest,
    JoinResponse,
    SyncResponse,
)
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.deadlines import Deadlines
from broker.core.groups.records.classic import GroupImage, Member
from broker.core.groups.settings import GroupSettings
from broker.model.errors import ErrorCode


class ClassicGroupState:
    """The state of one classic group.

    Attributes:
        group_id: the group.
        settings: the configurable limits and intervals.
        image: the content of the last record; empty: the log has none.
        rebalance: the next generation while its members join.
        presence: sessions and protocols of the members.
        pending_members: when member ids expire that were assigned with MEMBER_ID_REQUIRED and have
            not joined yet (KIP-394).
        pending_syncs: syncs that wait for the leader's assignments.
        assigned_bytes: the size of all assignments.
    """

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        """Begin without members and without a record."""
        self.group_id = group_id
        self.settings = settings
        self.image = GroupImage()
        self.rebalance: PendingRebalance | None = None
        self.presence = GroupPresence()
        self.pending_members = Deadlines()
        self.pending_syncs = PendingSyncs()
        self.assigned_bytes = 0

    @property
    def state(self) -> GroupState:
        """The state of the group, as Kafka names it."""
        if self.rebalance is not None:
            return GroupState.PREPARING_REBALANCE
        if not self.image.members:
            return GroupState.EMPTY
        if self.image.state_timestamp_ms is None:
            return GroupState.COMPLETING_REBALANCE
        return GroupState.STABLE

    @property
    def members(self) -> Mapping[str, Member]:
        """The members by id; in a rebalance, the expected ones and the new ones."""
        return self.image.members if self.rebalance is None else self.rebalance.members

    @property
    def protocol_type(self) -> str:
        """The protocol type of the members."""
        return (self.rebalance or self.image).protocol_type

    @property
    def was_consumer_group(self) -> bool:
        """Whether it was converted and no member has joined again: members have its assignments.

        Only such a group has no state timestamp although every member has an assignment.
        """
        if self.image.state_timestamp_ms is not None or not self.image.members:
            return False
        return bool(next(iter(self.image.members.values())).assignment)

    def replay(self, image: GroupImage) -> None:
        """Apply a record; the rebalance that led to it is over."""
        self.image = image
        self.rebalance = None
        self.assigned_bytes = sum(len(each.assignment) for each in image.members.values())

    def resume(self, now: Moment) -> None:
        """Begin a full session timeout for every member after a load."""
        for member in self.image.members.values():
            protocol = GroupProtocol(self.image.protocol or "", member.subscription)
            deadline_ms = now.monotonic_ms + member.session_timeout_ms
            presence = Presence(member.instance_id, (protocol,), deadline_ms)
            self.presence.add(member.member_id, presence)
        if self.state is GroupState.COMPLETING_REBALANCE:
            self.pending_syncs.start(self.image.members, now.monotonic_ms)

    def waiting(self) -> list[Token]:
        """Return the tokens of all joins and syncs that wait here."""
        joining = [] if self.rebalance is None else list(self.rebalance.joined.values())
        return joining + list(self.pending_syncs.waiting.values())

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time before which `tick` has nothing to do; None: never."""
        deadlines = (
            self.presence.earliest_ms,
            self.pending_members.earliest_ms,
            self.pending_syncs.deadline_ms,
            None if self.rebalance is None else self.rebalance.deadline_ms,
        )
        return min((each for each in deadlines if each is not None), default=None)

    def is_session_over(self, member_id: str, now: Moment) -> bool:
        """Return whether a session is over; a member whose request waits here cannot heartbeat."""
        presence = self.presence[member_id]
        if now.monotonic_ms < presence.session_deadline_ms:
            return False
        is_waiting = member_id in self.pending_syncs.waiting or (
            self.rebalance is not None and member_id in self.rebalance.joined
        )
        if is_waiting and not presence.is_new:
            self.extend_session(member_id, now)
            return False
        return True

    def joining_id(self, request: JoinRequest) -> str | None:
        """Return the member id that a join is for: its own, or that of the replaced instance."""
        if request.instance_id is not None and request.member_id == NO_MEMBER_ID:
            return self.presence.static_member_id(request.instance_id)
        return request.member_id

    def identity_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return an error unless this is a member; old ids of an instance are fenced (KIP-345)."""
        member = self.members.get(member_id)
        if instance_id is None or (member is not None and member.instance_id == instance_id):
            return ErrorCode.NONE if member is not None else ErrorCode.UNKNOWN_MEMBER_ID
        if self.presence.static_member_id(instance_id) is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.FENCED_INSTANCE_ID

    def member_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Return an error unless this is a member of the current generation."""
        error = self.identity_error(member_id, instance_id)
        if error is ErrorCode.NONE and generation != self.image.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def extend_session(self, member_id: str, now: Moment) -> None:
        """Restart a member's session timeout."""
        timeout_ms = self.members[member_id].session_timeout_ms
        self.presence.set_session_deadline(member_id, now.monotonic_ms + timeout_ms)

    def reject_waiting(self, decision: GroupDecision) -> None:
        """Answer all waiting joins and syncs with REBALANCE_IN_PROGRESS."""
        error = ErrorCode.REBALANCE_IN_PROGRESS
        if self.rebalance is not None:
            for member_id, token in self.rebalance.joined.items():
                decision.reply(token, JoinResponse(error, member_id))
        for token in self.pending_syncs.waiting.values():
            decision.reply(token, SyncResponse(error))
