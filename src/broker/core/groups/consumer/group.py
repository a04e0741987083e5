"""One consumer group (KIP-848): members say what they want and own, the broker assigns.

    group epoch    grows when members, subscriptions or topics change
    target epoch   the group epoch that the target was computed for
    member epoch   the target epoch that a member has come to

    Empty --- join ---> Assigning --- target computed ---> Reconciling --- all there ---> Stable
      ^                     ^                                   |                           |
      +---- nobody left ----+------------- a change ------------+---------------------------+

(kafka.md 2.7.) What `state` holds changes only in `replay`. Sessions, deadlines and a target that
is being computed are not written: after a load members get a full session timeout, and the next
heartbeat begins the computation anew, because the target epoch is behind the group's.
"""

from collections.abc import Mapping

from broker.core.groups.commands import GroupDecision, GroupListing
from broker.core.groups.consumer.checks import check_epoch
from broker.core.groups.consumer.commands import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupDescription,
    ConsumerGroupState,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    ConsumerSettings,
    DescribedConsumerMember,
)
from broker.core.groups.consumer.draft import Draft
from broker.core.groups.consumer.membership import Membership
from broker.core.groups.consumer.planning import Planner
from broker.core.groups.consumer.records import (
    NO_PARTITIONS,
    ConsumerMember,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    MemberState,
    Partitions,
)
from broker.core.groups.consumer.subscriptions import SeenTopics
from broker.core.groups.consumer.watch import Watch
from broker.core.groups.records import Record
from broker.core.groups.subscription import CONSUMER_PROTOCOL
from broker.core.machine import Decision, Moment, Token
from broker.core.patterns import compiled
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import COORDINATOR_SLICE_DECISIONS

GROUP_TYPE = "consumer"  # as ListGroups shows it


class ConsumerGroup:
    """The state machine of one group. Commands return a Decision; `replay` makes it true."""

    def __init__(self, group_id: str, settings: ConsumerSettings, topics: SeenTopics) -> None:
        """Begin without members, as a group that nobody has written of."""
        self.group_id = group_id
        self.state = Membership(group_id)
        self.watched_ms: int | None = None  # when its shard will look at it again
        self._settings = settings
        self._topics = topics
        self._watch = Watch()
        self._planner = Planner(settings, topics)

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """Where the group stands, as tools show it."""
        state = self.state
        if not state.members:
            return ConsumerGroupState.EMPTY.value
        if state.epoch > state.target_epoch:
            return ConsumerGroupState.ASSIGNING.value
        if all(map(state.is_reconciled, state.members)):
            return ConsumerGroupState.STABLE.value
        return ConsumerGroupState.RECONCILING.value

    @property
    def is_idle(self) -> bool:
        """Whether nobody is in it."""
        return not self.state.members

    @property
    def is_stored(self) -> bool:
        """Whether the log knows it."""
        return self.state.epoch > 0

    @property
    def weight(self) -> int:
        """What it takes, as group_sizes.py counts it."""
        return self.state.weight

    def listing(self) -> GroupListing:
        """What a list of groups says of it."""
        return GroupListing(self.group_id, CONSUMER_PROTOCOL, self.state_name, GROUP_TYPE)

    def deletion_error(self) -> ErrorCode:
        """Whether an administrator may delete it."""
        return ErrorCode.NONE if self.is_idle else ErrorCode.NON_EMPTY_GROUP

    def offset_deletion_error(self) -> ErrorCode:
        """Whether it can be told what its members are subscribed to: always."""
        return ErrorCode.NONE

    def tombstones(self) -> list[Record]:
        """The records that end it."""
        return list(self.state.removals())

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads a topic."""
        return self.state.is_subscribed_to(topic)

    def retention_start_ms(self, _topic: str) -> int | None:
        """From when on offsets grow old: from their commit, once the group is empty."""
        return 0 if self.is_idle else None

    def waiting(self) -> list[Token]:
        """Nobody: a heartbeat is answered at once."""
        return []

    def describe(self) -> ConsumerGroupDescription:
        """What an administrator sees."""
        state = self.state
        members = tuple(
            DescribedConsumerMember(
                member,
                state.current.get(member.member_id, CurrentAssignment()),
                state.target.get(member.member_id, NO_PARTITIONS),
            )
            for member in state.members.values()
        )
        ids = {
            topic_id
            for each in members
            for partitions in (each.current.assigned, each.target)
            for topic_id in partitions
        }
        found = [topic for topic in map(self._topics.by_id, ids) if topic is not None]
        return ConsumerGroupDescription(
            ErrorCode.NONE,
            self.group_id,
            state=self.state_name,
            epoch=state.epoch,
            target_epoch=state.target_epoch,
            assignor=self._planner.assignor(state),
            members=members,
            topic_names={topic.topic_id: topic.name for topic in found},
        )

    # ---- the log ---------------------------------------------------------------------------------

    def replay(self, record: ConsumerRecord) -> None:
        """What the record says is now so."""
        self.state.replay(record)

    def restart(self) -> None:
        """Forget what was replayed, to be replayed again: it was only to decide by."""
        self.state = Membership(self.group_id)

    def resume(self, now: Moment) -> None:
        """After a load: every member has one session timeout to show that it is still there."""
        for member_id, member in self.state.members.items():
            self.heard_of(member, now)
            current = self.state.current.get(member_id, CurrentAssignment())
            self._watch_step(member, current, now)

    # ---- heartbeat -------------------------------------------------------------------------------

    def heartbeat(self, request: ConsumerHeartbeat, token: Token, now: Moment) -> GroupDecision:
        """A member joins, stays or leaves; it hears what it has now."""
        decision: GroupDecision = Decision()
        try:
            if request.member_epoch == LEAVE_EPOCH:
                response = self._leave(request, decision)
            elif request.member_epoch == LEAVE_STATIC_EPOCH:
                response = self._leave_for_a_while(request, decision)
            else:
                response = self._stay(request, decision, now)
        except RequestError as error:
            response = ConsumerHeartbeatResponse(error.code, error.message)
        decision.reply(token, response)
        return decision

    def _stay(
        self, request: ConsumerHeartbeat, decision: GroupDecision, now: Moment
    ) -> ConsumerHeartbeatResponse:
        draft = Draft(self.state)
        self._find(request, draft)
        epoch, assigned = draft.current.epoch, draft.current.assigned
        is_rejoining = request.member_epoch == JOIN_EPOCH < epoch
        member = _updated(draft.member, request, draft.member_id)
        if member.topic_regex is not None and member.topic_regex not in self.state.by_regex:
            compiled(member.topic_regex)
        draft.subscribe(member)
        # A member that joins again owns nothing, unless an old request of its is late: what it
        # has stays its own, and what it must give back waits for its next word.
        self.settle(draft, None if is_rejoining else request.owned, decision, now)
        is_told = request.member_epoch == JOIN_EPOCH or request.is_full
        is_told = is_told or draft.current.assigned != assigned
        return ConsumerHeartbeatResponse(
            ErrorCode.NONE,
            member_id=draft.member_id,
            member_epoch=draft.current.epoch,
            heartbeat_interval_ms=self._own_setting("consumer.heartbeat.interval.ms"),
            assignment=draft.current.assigned if is_told else None,
        )

    def _find(self, request: ConsumerHeartbeat, draft: Draft) -> None:
        """Open the draft for the member that a heartbeat is from, or refuse it."""
        state = self.state
        member_id = request.member_id or request.fresh_id
        static_id = state.static_id(request.instance_id)
        if request.member_epoch != JOIN_EPOCH:
            self.check_identity(member_id, request.instance_id)
            draft.choose(member_id)
            check_epoch(draft.current, request)
        elif static_id is not None and self._is_replaced(static_id, member_id):
            self.replace(static_id, member_id, draft)
        else:
            self.check_room(member_id)
            draft.choose(member_id)

    def _is_replaced(self, static_id: str, member_id: str) -> bool:
        """Whether an instance goes on as a new member; it must have left, or be a classic one."""
        has_left = self.state.current[static_id].epoch == LEAVE_STATIC_EPOCH
        if static_id == member_id or has_left:
            return has_left
        if self.state.members[static_id].classic is None:
            raise RequestError(
                ErrorCode.UNRELEASED_INSTANCE_ID, f"the instance is in the group as {static_id}"
            )
        return True

    def replace(self, old_id: str, member_id: str, draft: Draft) -> None:
        """Let a static member go on under another id."""
        draft.replace(old_id, member_id)
        self._planner.drop_target()

    def check_room(self, member_id: str) -> None:
        """Refuse one member too many."""
        members = self.state.members
        if member_id not in members and len(members) >= self._settings.members_max:
            raise RequestError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the group has its {self._settings.members_max} members",
            )

    def check_identity(self, member_id: str, instance_id: str | None) -> None:
        """Refuse whoever is not a member, or is no longer its instance (KIP-345)."""
        static_id = self.state.static_id(instance_id)
        if instance_id is not None and static_id is None:
            raise RequestError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"instance {instance_id} is not in the group"
            )
        if instance_id is not None and static_id != member_id:
            raise RequestError(
                ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id} is now {static_id}"
            )
        if member_id not in self.state.members:
            raise RequestError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} is not in the group"
            )

    # ---- leaving ---------------------------------------------------------------------------------

    def _leave(
        self, request: ConsumerHeartbeat, decision: GroupDecision
    ) -> ConsumerHeartbeatResponse:
        """A member goes for good; the next heartbeat of another computes the target anew."""
        self.check_identity(request.member_id, request.instance_id)
        self.remove({request.member_id: "left"}, decision)
        return ConsumerHeartbeatResponse(
            ErrorCode.NONE, member_id=request.member_id, member_epoch=request.member_epoch
        )

    def _leave_for_a_while(
        self, request: ConsumerHeartbeat, decision: GroupDecision
    ) -> ConsumerHeartbeatResponse:
        """A static member goes and keeps what it has, as long as its session lasts."""
        self.check_identity(request.member_id, request.instance_id)
        current = self.state.current[request.member_id]
        left = current._replace(
            epoch=LEAVE_STATIC_EPOCH, state=MemberState.STABLE, revoking=NO_PARTITIONS
        )
        decision.records.append(CurrentRecord(self.group_id, request.member_id, left))
        self._watch.be_content_with(request.member_id)
        return ConsumerHeartbeatResponse(
            ErrorCode.NONE, member_id=request.member_id, member_epoch=request.member_epoch
        )

    def remove(self, reasons: Mapping[str, str], decision: GroupDecision) -> None:
        """Take members out, each for its reason."""
        draft = Draft(self.state)
        draft.remove(reasons)
        draft.reasons += [f"member {each} {reason}" for each, reason in reasons.items()]
        draft.forget_patterns()
        draft.follow(self._topics)
        draft.bump()
        for member_id in reasons:
            self._watch.forget(member_id)
        self._record(draft, decision)

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: Moment) -> GroupDecision:
        """Let time do its work: sessions end, patience ends, a long computation goes on."""
        decision: GroupDecision = Decision()
        gone = self._watch.too_late(now.monotonic_ms)
        if gone:
            self.remove(gone, decision)
        else:
            if self._planner.deadline_ms is not None:
                decision.weight = COORDINATOR_SLICE_DECISIONS
            draft = self._planner.work(self.state, now)
            if draft is not None:
                self._record(draft, decision)
        return decision

    def next_deadline_ms(self) -> int | None:
        """The monotonic time at which `tick` has something to do; None if never."""
        deadlines = (self._watch.earliest_ms, self._planner.deadline_ms)
        return min((each for each in deadlines if each is not None), default=None)

    # ---- offsets ---------------------------------------------------------------------------------

    def commit_error(
        self, member_id: str, instance_id: str | None, epoch: int, _now: Moment
    ) -> ErrorCode:
        """Whether this consumer may commit offsets."""
        if epoch < 0 and self.is_idle:
            return ErrorCode.NONE  # An administrator moves the offsets of a group at rest.
        member = self.state.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if instance_id is not None and member.instance_id != instance_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == self.state.current[member_id].epoch:
            return ErrorCode.NONE
        is_classic = member.classic is not None
        return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH

    def gives_epochs_to(self, member_id: str) -> bool:
        """Whether a member speaks the consumer protocol, not the classic one."""
        member = self.state.members.get(member_id)
        return member is not None and member.classic is None

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether this consumer may read the group's offsets; whoever names no member may."""
        if not member_id and epoch < 0:
            return ErrorCode.NONE
        current = self.state.current.get(member_id or "")
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == current.epoch else ErrorCode.STALE_MEMBER_EPOCH

    # ---- what is not written ---------------------------------------------------------------------

    def settle(
        self, draft: Draft, owned: Partitions | None, decision: GroupDecision, now: Moment
    ) -> None:
        """Decide for what has been drafted, and all that follows from it."""
        self._planner.advance(draft, owned, now)
        assert draft.member is not None
        for member_id in draft.removed:
            self._watch.forget(member_id)
        self.heard_of(draft.member, now)
        if draft.current is not self.state.current.get(draft.member_id):
            # It has taken a step. What it is told to do next has the whole of its time again.
            self.be_content_with(draft.member_id)
        self._watch_step(draft.member, draft.current, now)
        self._record(draft, decision)

    def _record(self, draft: Draft, decision: GroupDecision) -> None:
        decision.records += draft.records
        for regex, reason in draft.unreadable.items():
            decision.note("group pattern ignored", reason, group=self.group_id, regex=regex)
        if draft.reasons:
            reason = "; ".join(draft.reasons)
            decision.note("group rebalance", reason, group=self.group_id, epoch=draft.epoch)

    def _own_setting(self, name: str) -> int:
        return self._settings.group_setting(self.group_id, name)

    def heard_of(self, member: ConsumerMember, now: Moment) -> None:
        """A sign of life."""
        timeout_ms = self._own_setting("consumer.session.timeout.ms")
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self._watch.heard_of(member.member_id, now.monotonic_ms + timeout_ms)

    def _watch_step(self, member: ConsumerMember, current: CurrentAssignment, now: Moment) -> None:
        """Give a member its own rebalance timeout to give partitions back."""
        if current.state is not MemberState.UNREVOKED_PARTITIONS:
            self.be_content_with(member.member_id)
        else:
            self.expect(member, now)

    def expect(self, member: ConsumerMember, now: Moment) -> None:
        """Give a member its rebalance timeout for its next step, from when it was told of it."""
        self._watch.expect(member.member_id, now.monotonic_ms + member.rebalance_timeout_ms)

    def be_content_with(self, member_id: str) -> None:
        """A member has done what it was told."""
        self._watch.be_content_with(member_id)


def _updated(
    member: ConsumerMember | None, request: ConsumerHeartbeat, member_id: str
) -> ConsumerMember:
    """The member as a heartbeat says it is; what the heartbeat does not say stays."""
    before = member or ConsumerMember(member_id)
    names, regex = request.topic_names, request.topic_regex
    return ConsumerMember(
        member_id,
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        before.topic_names if names is None else tuple(sorted(set(names))),
        before.topic_regex if regex is None else regex or None,
        before.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        before.assignor if request.assignor is None else request.assignor,
    )
