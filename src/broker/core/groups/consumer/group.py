"""One consumer group (KIP-848): the broker assigns what members are subscribed to.

    group epoch    incremented when members, subscriptions or topics change
    target epoch   the group epoch for which the target was computed
    member epoch   the target epoch that a member has reached

    Empty --- join ---> Assigning --- target computed ---> Reconciling -- all reached --> Stable
      ^                     ^                                   |                           |
      +-- no members left --+------------- a change ------------+---------------------------+

`state` changes only in `replay`. Sessions, deadlines and a target that is being computed are not
written: after a load members have a full session timeout, and the next heartbeat begins the
computation again, because the target epoch is lower than the group epoch.
"""

from collections.abc import Mapping

from broker.core.coordination.machine import Decision, Moment, Token
from broker.core.groups.commands.consumer import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupDescription,
    ConsumerGroupState,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    DescribedConsumerMember,
)
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.commands.listing import GroupListing
from broker.core.groups.consumer.checks import check_epoch
from broker.core.groups.consumer.group_update import ConsumerGroupUpdate
from broker.core.groups.consumer.membership import Membership
from broker.core.groups.consumer.planning import Planner
from broker.core.groups.consumer.subscriptions import TopicsView
from broker.core.groups.deadlines import Deadlines
from broker.core.groups.records.classic import CONSUMER_PROTOCOL
from broker.core.groups.records.consumer import (
    NO_PARTITIONS,
    ConsumerMember,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    MemberState,
    Partitions,
)
from broker.core.groups.records.encoding import Record
from broker.core.groups.settings import ConsumerSettings
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import COORDINATOR_SLICE_DECISIONS
from broker.model.patterns import compiled

GROUP_TYPE = "consumer"  # as ListGroups shows it


class ConsumerGroup:
    """The state machine of one group. Commands return a Decision; `replay` applies its records."""

    def __init__(self, group_id: str, settings: ConsumerSettings, topics: TopicsView) -> None:
        """Create a group without members that is not in the log yet."""
        self.group_id = group_id
        self.state = Membership(group_id)
        self.tick_scheduled_ms: int | None = None  # when its shard will call `tick`
        self._settings = settings
        self._topics = topics
        self._sessions = Deadlines()
        self._rebalance_timeouts = Deadlines()
        self._planner = Planner(settings, topics)

    # ---- state -----------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """The state of the group, as ConsumerGroupDescribe shows it."""
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
        """Whether it has no members."""
        return not self.state.members

    @property
    def is_stored(self) -> bool:
        """Whether the log has records of it."""
        return self.state.epoch > 0

    @property
    def memory_bytes(self) -> int:
        """Its size in memory, as memory.py counts it."""
        return self.state.memory_bytes

    def listing(self) -> GroupListing:
        """Return its row of ListGroups."""
        return GroupListing(self.group_id, CONSUMER_PROTOCOL, self.state_name, GROUP_TYPE)

    def deletion_error(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP if it may not be deleted."""
        return ErrorCode.NONE if self.is_idle else ErrorCode.NON_EMPTY_GROUP

    def offset_deletion_error(self) -> ErrorCode:
        """Return NONE: the subscriptions of its members are always known."""
        return ErrorCode.NONE

    def tombstones(self) -> list[Record]:
        """Return the records that delete it."""
        return list(self.state.removals())

    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member is subscribed to a topic."""
        return self.state.is_subscribed_to(topic)

    def retention_start_ms(self, _topic: str) -> int | None:
        """Return 0 if it is empty: offsets expire by commit time; None: they do not expire."""
        return 0 if self.is_idle else None

    def describe(self) -> ConsumerGroupDescription:
        """Return its description for ConsumerGroupDescribe."""
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
        """Apply a record."""
        self.state.replay(record)

    def restart(self) -> None:
        """Drop the state: records that were replayed to decide a command are replayed again."""
        self.state = Membership(self.group_id)

    def resume(self, now: Moment) -> None:
        """Begin a full session timeout for every member after a load."""
        for member_id, member in self.state.members.items():
            self.extend_session(member, now)
            current = self.state.current.get(member_id, CurrentAssignment())
            self._update_rebalance_timeout(member, current, now)

    # ---- heartbeat -------------------------------------------------------------------------------

    def heartbeat(self, request: ConsumerHeartbeat, token: Token, now: Moment) -> GroupDecision:
        """Serve a heartbeat: a member joins, stays or leaves."""
        decision: GroupDecision = Decision()
        try:
            if request.member_epoch in {LEAVE_EPOCH, LEAVE_STATIC_EPOCH}:
                response = self._leave(request, decision)
            else:
                response = self._join_or_stay(request, decision, now)
        except RequestError as error:
            response = ConsumerHeartbeatResponse(error.code, error.message)
        decision.reply(token, response)
        return decision

    def _join_or_stay(
        self, request: ConsumerHeartbeat, decision: GroupDecision, now: Moment
    ) -> ConsumerHeartbeatResponse:
        update = ConsumerGroupUpdate(self.state)
        update.may_describe = request.may_describe
        self._find(request, update)
        epoch, assigned = update.current.epoch, update.current.assigned
        is_rejoining = request.member_epoch == JOIN_EPOCH < epoch
        member = _updated(update.member, request, update.member_id)
        if member.topic_regex is not None and member.topic_regex not in self.state.by_regex:
            compiled(member.topic_regex)
        update.set_member(member)
        # A member that joins again owns nothing, unless this is a delayed old request. So it keeps
        # its assignment, and partitions to revoke stay its own until its next heartbeat.
        self.finish_update(update, None if is_rejoining else request.owned, decision, now)
        is_told = request.member_epoch == JOIN_EPOCH or request.is_full
        is_told = is_told or update.current.assigned != assigned
        return ConsumerHeartbeatResponse(
            ErrorCode.NONE,
            member_id=update.member_id,
            member_epoch=update.current.epoch,
            heartbeat_interval_ms=self._group_setting("consumer.heartbeat.interval.ms"),
            assignment=update.current.assigned if is_told else None,
        )

    def _find(self, request: ConsumerHeartbeat, update: ConsumerGroupUpdate) -> None:
        """Select the member of a heartbeat in the update; raise RequestError if it is refused."""
        state = self.state
        member_id = request.member_id or request.fresh_id
        static_id = state.static_id(request.instance_id)
        if request.member_epoch != JOIN_EPOCH:
            self.check_identity(member_id, request.instance_id)
            update.select_member(member_id)
            check_epoch(update.current, request)
        elif static_id is not None and self._is_replaced(static_id, member_id):
            self.replace_static_member(static_id, member_id, update)
        else:
            self.check_members_max(member_id)
            update.select_member(member_id)

    def _is_replaced(self, static_id: str, member_id: str) -> bool:
        """Return whether a join replaces a static member, which must have left or be classic."""
        has_left = self.state.current[static_id].epoch == LEAVE_STATIC_EPOCH
        if static_id == member_id or has_left:
            return has_left
        if self.state.members[static_id].classic is None:
            raise RequestError(
                ErrorCode.UNRELEASED_INSTANCE_ID, f"the instance is in the group as {static_id}"
            )
        return True

    def replace_static_member(
        self, old_id: str, member_id: str, update: ConsumerGroupUpdate
    ) -> None:
        """Give a static member another id."""
        update.replace_member(old_id, member_id)
        self._planner.cancel_target_job()

    def check_members_max(self, member_id: str) -> None:
        """Raise GROUP_MAX_SIZE_REACHED if a new member would exceed the limit."""
        members = self.state.members
        if member_id not in members and len(members) >= self._settings.members_max:
            raise RequestError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the group has its {self._settings.members_max} members",
            )

    def check_identity(self, member_id: str, instance_id: str | None) -> None:
        """Raise RequestError unless this is a member, the current one of its instance (KIP-345)."""
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
        """Remove a member; the next heartbeat of another one computes a new target."""
        self.check_identity(request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_EPOCH:
            self.remove({request.member_id: "left"}, decision)
        else:
            self._leave_temporarily(request.member_id, decision)
        return ConsumerHeartbeatResponse(
            ErrorCode.NONE, member_id=request.member_id, member_epoch=request.member_epoch
        )

    def _leave_temporarily(self, member_id: str, decision: GroupDecision) -> None:
        """Mark a static member as left; it keeps its partitions until its session ends."""
        left = self.state.current[member_id]._replace(
            epoch=LEAVE_STATIC_EPOCH, state=MemberState.STABLE, revoking=NO_PARTITIONS
        )
        decision.records.append(CurrentRecord(self.group_id, member_id, left))
        self._rebalance_timeouts.remove(member_id)

    def remove(self, reasons: Mapping[str, str], decision: GroupDecision) -> None:
        """Remove members, each with a reason for the log."""
        update = ConsumerGroupUpdate(self.state)
        update.remove_members(reasons)
        update.reasons += [f"member {each} {reason}" for each, reason in reasons.items()]
        update.remove_unused_patterns()
        update.refresh_metadata_hash(self._topics)
        update.bump_epoch()
        for member_id in reasons:
            self._remove_deadlines(member_id)
        self._record(update, decision)

    def _remove_deadlines(self, member_id: str) -> None:
        self._sessions.remove(member_id)
        self._rebalance_timeouts.remove(member_id)

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: Moment) -> GroupDecision:
        """Remove members over their deadlines, or else continue a long computation."""
        decision: GroupDecision = Decision()
        late = "did not complete the rebalance within its rebalance timeout"
        gone = dict.fromkeys(self._rebalance_timeouts.expire(now.monotonic_ms), late)
        silent = "sent no heartbeat within the session timeout"
        gone |= dict.fromkeys(self._sessions.expire(now.monotonic_ms), silent)
        # A join whose records were refused (full disk) has left the deadlines of no member.
        gone = {each: why for each, why in gone.items() if each in self.state.members}
        if gone:
            self.remove(gone, decision)
        else:
            if self._planner.deadline_ms is not None:
                decision.weight = COORDINATOR_SLICE_DECISIONS
            update = self._planner.run_slice(self.state, now)
            if update is not None:
                self._record(update, decision)
        return decision

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time of the next `tick`; None: never."""
        deadlines = (
            self._sessions.earliest_ms,
            self._rebalance_timeouts.earliest_ms,
            self._planner.deadline_ms,
        )
        return min((each for each in deadlines if each is not None), default=None)

    # ---- offsets ---------------------------------------------------------------------------------

    def commit_error(
        self, member_id: str, instance_id: str | None, epoch: int, _now: Moment
    ) -> ErrorCode:
        """Return why a consumer may not commit offsets."""
        if epoch < 0 and self.is_idle:
            return ErrorCode.NONE  # An administrator may reset the offsets of an empty group.
        member = self.state.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if instance_id is not None and member.instance_id != instance_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == self.state.current[member_id].epoch:
            return ErrorCode.NONE
        is_classic = member.classic is not None
        return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH

    def uses_member_epochs(self, member_id: str) -> bool:
        """Return whether a member uses the consumer protocol, not the classic one."""
        member = self.state.members.get(member_id)
        return member is not None and member.classic is None

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Return why a consumer may not read the group's offsets; NONE if it names no member."""
        if not member_id and epoch < 0:
            return ErrorCode.NONE
        current = self.state.current.get(member_id or "")
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == current.epoch else ErrorCode.STALE_MEMBER_EPOCH

    # ---- shared by both protocols ----------------------------------------------------------------

    def finish_update(
        self,
        update: ConsumerGroupUpdate,
        owned: Partitions | None,
        decision: GroupDecision,
        now: Moment,
    ) -> None:
        """Compute what follows from an update, and add its records to the decision."""
        self._planner.apply_change(update, owned, now)
        assert update.member is not None
        for member_id in update.removed:
            self._remove_deadlines(member_id)
        self.extend_session(update.member, now)
        if update.current is not self.state.current.get(update.member_id):
            # Its assignment has changed: the next step has a full rebalance timeout.
            self.cancel_rebalance_timeout(update.member_id)
        self._update_rebalance_timeout(update.member, update.current, now)
        self._record(update, decision)

    def _record(self, update: ConsumerGroupUpdate, decision: GroupDecision) -> None:
        decision.records += update.records
        for regex, reason in update.invalid_patterns.items():
            decision.note("group pattern ignored", reason, group=self.group_id, regex=regex)
        if update.reasons:
            reason = "; ".join(update.reasons)
            decision.note("group rebalance", reason, group=self.group_id, epoch=update.epoch)

    def _group_setting(self, name: str) -> int:
        return self._settings.group_setting(self.group_id, name)

    def extend_session(self, member: ConsumerMember, now: Moment) -> None:
        """Restart a member's session timeout."""
        timeout_ms = self._group_setting("consumer.session.timeout.ms")
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self._sessions.set(member.member_id, now.monotonic_ms + timeout_ms)

    def _update_rebalance_timeout(
        self, member: ConsumerMember, current: CurrentAssignment, now: Moment
    ) -> None:
        """Start the rebalance timeout of a member that must revoke partitions, or cancel it."""
        if current.state is not MemberState.UNREVOKED_PARTITIONS:
            self.cancel_rebalance_timeout(member.member_id)
        else:
            self.start_rebalance_timeout(member, now)

    def start_rebalance_timeout(self, member: ConsumerMember, now: Moment) -> None:
        """Start a member's rebalance timeout for its next step, if it is not running."""
        if member.member_id not in self._rebalance_timeouts:
            deadline_ms = now.monotonic_ms + member.rebalance_timeout_ms
            self._rebalance_timeouts.set(member.member_id, deadline_ms)

    def cancel_rebalance_timeout(self, member_id: str) -> None:
        """Cancel the rebalance timeout of a member that has completed its step."""
        self._rebalance_timeouts.remove(member_id)


def _updated(
    member: ConsumerMember | None, request: ConsumerHeartbeat, member_id: str
) -> ConsumerMember:
    """Return the member with the fields that a heartbeat has; the other fields are unchanged."""
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
