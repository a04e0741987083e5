"""One assigned group: a join returns partitions at once; other members get an error and rejoin.

    join, leave, expiry, another topic or assignor, more partitions
        -> generation + 1, all partitions are assigned again, in the same command

No request waits, and no member is notified: a member of an older generation gets STALE_GENERATION
for its next request, and joins again. Expired sessions end together with the next command to the
group. `tick` ends all sessions when the last one has expired, so that an unused group does not keep
expired members; the next command would have the same result.

`image` changes only in `replay`. The times of members' last requests are not stored: after a load
members have a full session timeout.
"""

from typing import TypeAlias

from broker.core.coordination.machine import Decision, Moment
from broker.core.groups.assigned.group_update import AssignedGroupUpdate
from broker.core.groups.assigned.images import AssignedImage, AssignedMember, from_log, to_log
from broker.core.groups.assigned.rejoining import PendingRejoin, only_member_named, unique_member_id
from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommit,
    AssignedCommits,
    AssignedError,
    AssignedJoin,
    AssignedMemberStatus,
    AssignedProtocol,
    AssignedResponse,
    AssignedStatus,
)
from broker.core.groups.commands.classic import (
    NO_MEMBER_ID,
    DescribedMember,
    GroupDescription,
    GroupState,
)
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.commands.listing import GroupListing
from broker.core.groups.records.classic import GroupImage, GroupRecord
from broker.core.groups.records.encoding import Record
from broker.model.errors import ErrorCode
from broker.model.limits import GROUP_BYTES, MEMBER_BYTES

GROUP_TYPE = "classic"  # as ListGroups shows it: Kafka's group type with this record
Outcome: TypeAlias = tuple[
    GroupDecision, AssignedResponse
]  # the response is not in the decision yet
_EXPIRED = "sent no request within the session timeout"


class AssignedGroup:
    """The state machine of one group. Commands return a Decision; `replay` applies its records."""

    def __init__(self, group_id: str, image: AssignedImage, *, members_max: int) -> None:
        """Begin with a state that is not in the log yet."""
        self.group_id = group_id
        self.image = image
        self.tick_scheduled_ms: int | None = None  # when its shard will call `tick`
        self._members_max = members_max
        self._stored = GroupImage()
        self._written: tuple[GroupImage, AssignedImage] | None = None  # by the last command
        self._last_seen_ms: dict[str, int] = {}  # monotonic, by member
        self._pending_rejoins = PendingRejoin()

    # ---- state -----------------------------------------------------------------------------------

    @property
    def state(self) -> GroupState:
        """The state of the group; it is never in a rebalance."""
        return GroupState.STABLE if self.image.members else GroupState.EMPTY

    @property
    def is_idle(self) -> bool:
        """Whether it has no members, live or expired."""
        return not self.image.members

    @property
    def is_stored(self) -> bool:
        """Whether the log has a record of it."""
        return self._stored.generation > 0

    @property
    def memory_bytes(self) -> int:
        """Its size in memory, as memory.py counts it."""
        return GROUP_BYTES + len(self.image.members) * MEMBER_BYTES

    def has_live_members(self, now: Moment) -> bool:
        """Return whether it has a member whose session has not expired."""
        return len(self._expired_members(now)) < len(self.image.members)

    def last_seen_wall_ms(self, member_id: str, now: Moment) -> int:
        """Return the wall time of a member's last request; now, if there was none since a load."""
        silence_ms = now.monotonic_ms - self._last_seen_ms.get(member_id, now.monotonic_ms)
        return now.wall_ms - silence_ms

    def status(self, now: Moment) -> AssignedStatus:
        """Return its status, without expired members."""
        expired = set(self._expired_members(now))
        members = tuple(
            AssignedMemberStatus(each, self.last_seen_wall_ms(each, now), member.partitions)
            for each, member in self.image.members.items()
            if each not in expired
        )
        image = self.image
        return AssignedStatus(
            AssignedError.NONE, image.topic, image.generation, image.timestamp_ms, members
        )

    def describe(self) -> GroupDescription:
        """Return its description for DescribeGroups."""
        members = tuple(
            DescribedMember(
                each.member_id,
                None,
                each.client_id,
                each.client_host,
                each.subscription,
                each.assignment,
            )
            for each in self._stored.members.values()
        )
        return GroupDescription(
            ErrorCode.NONE,
            self.group_id,
            self.state,
            self.image.protocol.value,
            self.image.assignor.value if members else "",
            members,
        )

    def listing(self) -> GroupListing:
        """Return its row of ListGroups."""
        return GroupListing(self.group_id, self.image.protocol.value, self.state.value, GROUP_TYPE)

    def deletion_error(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP if it may not be deleted."""
        return ErrorCode.NONE if self.is_idle else ErrorCode.NON_EMPTY_GROUP

    def offset_deletion_error(self) -> ErrorCode:
        """Return NONE: the topic of its members is always known."""
        return ErrorCode.NONE

    def tombstones(self) -> list[Record]:
        """Return the records that delete it; none if the log has no record of it."""
        return [GroupRecord(self.group_id, None)] if self.is_stored else []

    def subscribes_to(self, topic: str) -> bool:
        """Return whether its members read a topic."""
        return not self.is_idle and topic == self.image.topic

    def retention_start_ms(self, topic: str) -> int | None:
        """Return when the retention of a topic's offsets begins (KIP-211).

        Retention begins at the commit of an offset if that is later.

        None: they do not expire in this state of the group.
        """
        if self.is_idle:
            return self.image.timestamp_ms
        return None if self.subscribes_to(topic) else 0

    # ---- the log ---------------------------------------------------------------------------------

    def replay(self, stored: GroupImage) -> None:
        """Apply a record.

        Raises:
            CodecError: the record is not that of an assigned group.
        """
        if self._written is not None and self._written[0] is stored:
            self.image = self._written[1]
        else:
            self.image = from_log(stored)
        self._written = None
        self._stored = stored
        members = self.image.members
        self._last_seen_ms = {
            each: at for each, at in self._last_seen_ms.items() if each in members
        }
        self._pending_rejoins.retain(members)

    def resume(self, now: Moment) -> None:
        """Begin a full session timeout for every member after a load."""
        self._last_seen_ms = dict.fromkeys(self.image.members, now.monotonic_ms)

    # ---- membership ------------------------------------------------------------------------------

    def join_to_assigned_group(self, request: AssignedJoin, now: Moment) -> Outcome:
        """Join a member; the order of the steps is that of V1's original server."""
        update = AssignedGroupUpdate(self.image)
        if request.topic != update.topic:
            if request.protocol is AssignedProtocol.CURSUS and self.has_live_members(now):
                return Decision(), self._other_topic(request.member_id)
            update.change_topic(request.topic)
        if request.assignor is not None and request.assignor is not update.assignor:
            update.change_assignor(request.assignor)
        self._expire_and_resize(update, request.partition_count, now)
        member_id, error = request.member_id, AssignedError.NONE
        if request.suffix and member_id not in update.members:
            member_id = self._pending_rejoins.first_named(member_id, update.members) or member_id
        if member_id not in update.members:
            member_id, error = self._add_member(update, request)
        if error is AssignedError.NONE:
            self._last_seen_ms[member_id] = now.monotonic_ms
            self._pending_rejoins.remove(member_id)
        return self._decide(update, member_id, request.partition_count, error, now)

    def _add_member(
        self, update: AssignedGroupUpdate, request: AssignedJoin
    ) -> tuple[str, AssignedError]:
        if len(update.members) >= self._members_max:
            return request.member_id, AssignedError.FULL
        member = AssignedMember(
            unique_member_id(request.member_id, request.suffix, update.members),
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
        )
        update.add_member(member)
        return member.member_id, AssignedError.NONE

    def sync(self, call: AssignedCall, now: Moment) -> Outcome:
        """Extend a member's session and return its partitions."""
        update = AssignedGroupUpdate(self.image)
        error = self._call_error(update, call, now)
        # A member of Cursus that has to join again stays live until it does.
        is_stale = (
            error is AssignedError.STALE_GENERATION and call.protocol is AssignedProtocol.CURSUS
        )
        if error is AssignedError.NONE or is_stale:
            self._last_seen_ms[call.member_id] = now.monotonic_ms
        if error is AssignedError.NONE:
            self._pending_rejoins.remove(call.member_id)
        return self._decide(update, call.member_id, call.partition_count, error, now)

    def leave(self, call: AssignedCall, now: Moment) -> Outcome:
        """Remove a member; the group stays, even without members."""
        update = AssignedGroupUpdate(self.image)
        if call.protocol is AssignedProtocol.CURSUS and call.member_id not in update.members:
            call = call._replace(member_id=only_member_named(call.member_id, update.members))
        error = self._call_error(update, call, now)
        if error is AssignedError.NONE:
            update.remove_members([call.member_id], "left")
        return self._decide(update, call.member_id, call.partition_count, error, now)

    def check_commit(self, request: AssignedCommit, now: Moment) -> Outcome:
        """Check that a member may commit, without extending its session."""
        decision, response = self.check(request.call, now)
        is_member = response.error is AssignedError.NONE
        if is_member and request.partition not in response.partitions:
            response = response._replace(error=AssignedError.NOT_ASSIGNED, partitions=())
        return decision, response

    def check(self, call: AssignedCall, now: Moment) -> Outcome:
        """Check that a member is of this generation, without extending its session."""
        update = AssignedGroupUpdate(self.image)
        error = self._call_error(update, call, now)
        return self._decide(update, call.member_id, call.partition_count, error, now)

    def check_commits(self, request: AssignedCommits, now: Moment) -> Outcome:
        """Check that a member may commit all of these; commits without a member are allowed."""
        if not request.is_from_member:
            return Decision(), AssignedResponse(AssignedError.NONE)
        decision, response = self.check(request.call, now)
        if response.error is not AssignedError.NONE:
            return decision, response
        owned = frozenset(response.partitions)
        for partition, _ in request.offsets:
            if partition not in owned:
                self._pending_rejoins.add(response.member_id)
                response = response._replace(
                    error=AssignedError.NOT_ASSIGNED, partitions=(), partition=partition
                )
                break
        return decision, response

    def commit_error(
        self, member_id: str, instance_id: str | None, generation: int, now: Moment
    ) -> ErrorCode:
        """Return an error unless a Kafka consumer may commit: neither it nor others are members."""
        names_member = member_id != NO_MEMBER_ID or instance_id is not None or generation >= 0
        is_allowed = not names_member and not self.has_live_members(now)
        return ErrorCode.NONE if is_allowed else ErrorCode.UNKNOWN_MEMBER_ID

    def _call_error(
        self, update: AssignedGroupUpdate, call: AssignedCall, now: Moment
    ) -> AssignedError:
        """Return why a member's call is refused, after removing expired members."""
        is_cursus = call.protocol is AssignedProtocol.CURSUS
        if call.protocol is not self.image.protocol:
            return AssignedError.GROUP_NOT_FOUND
        if call.topic != self.image.topic:
            return AssignedError.OTHER_TOPIC if is_cursus else AssignedError.GROUP_NOT_FOUND
        self._expire_and_resize(update, call.partition_count, now)
        is_member = call.member_id in update.members
        if is_cursus and not is_member:  # For V1 this is the last check.
            return AssignedError.UNKNOWN_MEMBER
        if call.generation is not None and call.generation != update.generation:
            if is_member:
                self._pending_rejoins.add(call.member_id)
            return AssignedError.STALE_GENERATION
        return AssignedError.NONE if is_member else AssignedError.UNKNOWN_MEMBER

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: Moment) -> GroupDecision:
        """Remove all members when the last session has expired."""
        decision: GroupDecision = Decision()
        if self.image.members and not self.has_live_members(now):
            update = AssignedGroupUpdate(self.image)
            update.remove_members(self._expired_members(now), _EXPIRED)
            self._record_update(update, 0, decision, now)
        return decision

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time before which `tick` has nothing to do; None: never."""
        deadlines = (
            self._last_seen_ms[each.member_id] + each.session_timeout_ms + 1
            for each in self.image.members.values()
            if each.member_id in self._last_seen_ms
        )
        return max(deadlines, default=None)

    def _expire_and_resize(
        self, update: AssignedGroupUpdate, partition_count: int, now: Moment
    ) -> None:
        """Remove expired members; reassign if the topic has another number of partitions."""
        expired = [each for each in self._expired_members(now) if each in update.members]
        if expired:
            update.remove_members(expired, _EXPIRED)
        has_other_count = partition_count != self.image.partition_count
        if update.members and has_other_count and not update.is_changed:
            update.change_partition_count(partition_count)

    def _expired_members(self, now: Moment) -> list[str]:
        """Return the members whose session has expired."""
        return [
            each.member_id
            for each in self.image.members.values()
            if now.monotonic_ms - self._last_seen_ms.get(each.member_id, now.monotonic_ms)
            > each.session_timeout_ms
        ]

    # ---- decisions -------------------------------------------------------------------------------

    def _decide(
        self,
        update: AssignedGroupUpdate,
        member_id: str,
        partition_count: int,
        error: AssignedError,
        now: Moment,
    ) -> Outcome:
        decision: GroupDecision = Decision()
        image = self._record_update(update, partition_count, decision, now)
        if error is AssignedError.GROUP_NOT_FOUND:
            return decision, AssignedResponse(error, member_id)
        if error is AssignedError.OTHER_TOPIC:
            return decision, self._other_topic(member_id)
        member = image.members.get(member_id) if error is AssignedError.NONE else None
        partitions = () if member is None else member.partitions
        return decision, AssignedResponse(error, member_id, image.generation, partitions)

    def _other_topic(self, member_id: str) -> AssignedResponse:
        return AssignedResponse(AssignedError.OTHER_TOPIC, member_id, topic=self.image.topic)

    def restore(self, now: Moment) -> Outcome:
        """Write a restored group to the log; all its members are live."""
        self.resume(now)
        decision: GroupDecision = Decision()
        self._write(self.image, "imported from another server", decision)
        return decision, AssignedResponse(AssignedError.NONE, generation=self.image.generation)

    def _record_update(
        self,
        update: AssignedGroupUpdate,
        partition_count: int,
        decision: GroupDecision,
        now: Moment,
    ) -> AssignedImage:
        """Return the state after an update, and add its record if there are changes."""
        if not update.is_changed:
            return self.image
        image = update.new_image(partition_count, now.wall_ms)
        self._write(image, "; ".join(update.reasons), decision)
        return image

    def _write(self, image: AssignedImage, reason: str, decision: GroupDecision) -> None:
        stored = to_log(image)
        self._written = (stored, image)
        decision.records.append(GroupRecord(self.group_id, stored))
        decision.note(
            "group rebalance",
            reason,
            group=self.group_id,
            generation=image.generation,
            members=len(image.members),
        )
