"""One assigned group: whoever joins has its partitions at once, the others learn it from an error.

    join, leave, expiry, another topic or assignor, more partitions
        -> generation + 1, all partitions assigned anew, in the same command

Nobody waits and nobody is told: a member of an older generation hears STALE_GENERATION when it
comes next, and joins again (v1.md 1.6). Sessions end when a command touches the group: then all
that are over end together. So that a group nobody touches any more is not full of the dead for
ever, `tick` ends them when the last session is over; the next command would find the same.

`image` changes only in `replay`. When members were heard of is not written: after a load they get
a full session timeout.
"""

from typing import TypeAlias

from broker.core.groups.assigned.commands import (
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
from broker.core.groups.assigned.draft import Draft
from broker.core.groups.assigned.images import AssignedImage, AssignedMember, from_log, to_log
from broker.core.groups.assigned.rejoining import PendingRejoin, only_one, unique_id
from broker.core.groups.commands import (
    NO_MEMBER_ID,
    DescribedMember,
    GroupDecision,
    GroupDescription,
    GroupListing,
    GroupState,
)
from broker.core.groups.records import GroupImage, GroupRecord, Record
from broker.core.machine import Decision, Moment, Token
from broker.model.errors import ErrorCode
from broker.model.limits import GROUP_BYTES, MEMBER_BYTES

GROUP_TYPE = "classic"  # as ListGroups shows it: of Kafka's kinds the one with such a record
Outcome: TypeAlias = tuple[GroupDecision, AssignedResponse]  # the answer is not in the decision yet
_SILENT = "not heard of for the session timeout"


class AssignedGroup:
    """The state machine of one group. Commands return a Decision; `replay` makes it true."""

    def __init__(self, group_id: str, image: AssignedImage, *, members_max: int) -> None:
        """Begin as an image says, of which the log knows nothing yet."""
        self.group_id = group_id
        self.image = image
        self.watched_ms: int | None = None  # when its shard will look at it again
        self._members_max = members_max
        self._stored = GroupImage()
        self._written: tuple[GroupImage, AssignedImage] | None = None  # by the last command
        self._heard_ms: dict[str, int] = {}  # monotonic, by member
        self._pending_rejoin = PendingRejoin()

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def state(self) -> GroupState:
        """Where the group stands: it is never between two generations."""
        return GroupState.STABLE if self.image.members else GroupState.EMPTY

    @property
    def is_idle(self) -> bool:
        """Whether nobody is in it, dead or alive."""
        return not self.image.members

    @property
    def is_stored(self) -> bool:
        """Whether the log knows it."""
        return self._stored.generation > 0

    @property
    def weight(self) -> int:
        """What it takes, as group_sizes.py counts it."""
        return GROUP_BYTES + len(self.image.members) * MEMBER_BYTES

    def has_live_members(self, now: Moment) -> bool:
        """Whether anybody in it has not been silent for too long."""
        return len(self._silent(now)) < len(self.image.members)

    def heard_wall_ms(self, member_id: str, now: Moment) -> int:
        """When a member was last heard of, in wall time; after a load, as if it were now."""
        silence_ms = now.monotonic_ms - self._heard_ms.get(member_id, now.monotonic_ms)
        return now.wall_ms - silence_ms

    def status(self, now: Moment) -> AssignedStatus:
        """What its dialect shows of it: without those who were silent for too long."""
        silent = set(self._silent(now))
        members = tuple(
            AssignedMemberStatus(each, self.heard_wall_ms(each, now), member.partitions)
            for each, member in self.image.members.items()
            if each not in silent
        )
        image = self.image
        return AssignedStatus(
            AssignedError.NONE, image.topic, image.generation, image.timestamp_ms, members
        )

    def describe(self) -> GroupDescription:
        """What an administrator sees."""
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
        """What a list of groups says of it."""
        return GroupListing(self.group_id, self.image.protocol.value, self.state.value, GROUP_TYPE)

    def deletion_error(self) -> ErrorCode:
        """Whether an administrator may delete it."""
        return ErrorCode.NONE if self.is_idle else ErrorCode.NON_EMPTY_GROUP

    def offset_deletion_error(self) -> ErrorCode:
        """Whether it can be told what its members read: always."""
        return ErrorCode.NONE

    def tombstones(self) -> list[Record]:
        """The records that end it, as far as the log knows it."""
        return [GroupRecord(self.group_id, None)] if self.is_stored else []

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads a topic."""
        return not self.is_idle and topic == self.image.topic

    def retention_start_ms(self, topic: str) -> int | None:
        """From when on the offsets of a topic grow old, if not from their commit (KIP-211).

        None: they do not, as long as the group is as it is.
        """
        if self.is_idle:
            return self.image.timestamp_ms
        return None if self.subscribes_to(topic) else 0

    def waiting(self) -> list[Token]:
        """Nobody: every command is answered at once."""
        return []

    # ---- the log ---------------------------------------------------------------------------------

    def replay(self, stored: GroupImage) -> None:
        """What the log says is now so.

        Raises:
            CodecError: it is no such group's.
        """
        if self._written is not None and self._written[0] is stored:
            self.image = self._written[1]
        else:
            self.image = from_log(stored)
        self._written = None
        self._stored = stored
        members = self.image.members
        self._heard_ms = {each: at for each, at in self._heard_ms.items() if each in members}
        self._pending_rejoin.keep(members)

    def resume(self, now: Moment) -> None:
        """After a load: every member has one session timeout to show that it is still there."""
        self._heard_ms = dict.fromkeys(self.image.members, now.monotonic_ms)

    # ---- membership: what a command changes, and its answer --------------------------------------

    def join(self, request: AssignedJoin, now: Moment) -> Outcome:
        """A member asks for its part; the steps and their order are V1's (v1.md 1.6)."""
        draft = Draft(self.image)
        if request.topic != draft.topic:
            if request.protocol is AssignedProtocol.CURSUS and self.has_live_members(now):
                return Decision(), self._other_topic(request.member_id)
            draft.read_topic(request.topic)
        if request.assignor is not None and request.assignor is not draft.assignor:
            draft.assign_by(request.assignor)
        self._let_time_pass(draft, request.partition_count, now)
        member_id, error = request.member_id, AssignedError.NONE
        if request.suffix and member_id not in draft.members:
            member_id = self._pending_rejoin.first_of(member_id, draft.members) or member_id
        if member_id not in draft.members:
            member_id, error = self._admit(draft, request)
        if error is AssignedError.NONE:
            self._heard_ms[member_id] = now.monotonic_ms
            self._pending_rejoin.back(member_id)
        return self._decide(draft, member_id, request.partition_count, error, now)

    def _admit(self, draft: Draft, request: AssignedJoin) -> tuple[str, AssignedError]:
        if len(draft.members) >= self._members_max:
            return request.member_id, AssignedError.FULL
        member = AssignedMember(
            unique_id(request.member_id, request.suffix, draft.members),
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
        )
        draft.admit(member)
        return member.member_id, AssignedError.NONE

    def sync(self, call: AssignedCall, now: Moment) -> Outcome:
        """A member is alive, and hears its partitions again."""
        draft = Draft(self.image)
        error = self._call_error(draft, call, now)
        # One of Cursus's that still has to join again is alive until it does.
        is_told = (
            error is AssignedError.STALE_GENERATION and call.protocol is AssignedProtocol.CURSUS
        )
        if error is AssignedError.NONE or is_told:
            self._heard_ms[call.member_id] = now.monotonic_ms
        if error is AssignedError.NONE:
            self._pending_rejoin.back(call.member_id)
        return self._decide(draft, call.member_id, call.partition_count, error, now)

    def leave(self, call: AssignedCall, now: Moment) -> Outcome:
        """A member goes; the group stays, also without members."""
        draft = Draft(self.image)
        if call.protocol is AssignedProtocol.CURSUS and call.member_id not in draft.members:
            call = call._replace(member_id=only_one(call.member_id, draft.members))
        error = self._call_error(draft, call, now)
        if error is AssignedError.NONE:
            draft.remove([call.member_id], "left")
        return self._decide(draft, call.member_id, call.partition_count, error, now)

    def check_commit(self, request: AssignedCommit, now: Moment) -> Outcome:
        """Whether a member may commit, which is no sign of life."""
        call = request.call
        draft = Draft(self.image)
        error = self._call_error(draft, call, now)
        decision, response = self._decide(draft, call.member_id, call.partition_count, error, now)
        if error is AssignedError.NONE and request.partition not in response.partitions:
            response = response._replace(error=AssignedError.NOT_ASSIGNED, partitions=())
        return decision, response

    def check(self, call: AssignedCall, now: Moment) -> Outcome:
        """Whether a member is of this generation, which is no sign of life."""
        draft = Draft(self.image)
        error = self._call_error(draft, call, now)
        return self._decide(draft, call.member_id, call.partition_count, error, now)

    def check_commits(self, request: AssignedCommits, now: Moment) -> Outcome:
        """Whether a member may commit all of this; others may while they name no member."""
        if not request.is_fenced:
            return Decision(), AssignedResponse(AssignedError.NONE)
        decision, response = self.check(request.call, now)
        if response.error is not AssignedError.NONE:
            return decision, response
        owned = frozenset(response.partitions)
        for partition, _ in request.offsets:
            if partition not in owned:
                self._pending_rejoin.tell(response.member_id)
                response = response._replace(
                    error=AssignedError.NOT_ASSIGNED, partitions=(), partition=partition
                )
                break
        return decision, response

    def commit_error(
        self, member_id: str, instance_id: str | None, generation: int, now: Moment
    ) -> ErrorCode:
        """Whether a consumer of Kafka's may commit offsets: if no member of ours is alive."""
        names_member = member_id != NO_MEMBER_ID or instance_id is not None or generation >= 0
        is_allowed = not names_member and not self.has_live_members(now)
        return ErrorCode.NONE if is_allowed else ErrorCode.UNKNOWN_MEMBER_ID

    def _call_error(self, draft: Draft, call: AssignedCall, now: Moment) -> AssignedError:
        """What forbids a member its call, once the time that has passed has had its effect."""
        is_cursus = call.protocol is AssignedProtocol.CURSUS
        if call.protocol is not self.image.protocol:
            return AssignedError.GROUP_NOT_FOUND
        if call.topic != self.image.topic:
            return AssignedError.OTHER_TOPIC if is_cursus else AssignedError.GROUP_NOT_FOUND
        self._let_time_pass(draft, call.partition_count, now)
        is_member = call.member_id in draft.members
        if is_cursus and not is_member:  # Of it V1 is told last.
            return AssignedError.UNKNOWN_MEMBER
        if call.generation is not None and call.generation != draft.generation:
            if is_member:
                self._pending_rejoin.tell(call.member_id)
            return AssignedError.STALE_GENERATION
        return AssignedError.NONE if is_member else AssignedError.UNKNOWN_MEMBER

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: Moment) -> GroupDecision:
        """End all sessions together, when the last of them is over."""
        decision: GroupDecision = Decision()
        if self.image.members and not self.has_live_members(now):
            draft = Draft(self.image)
            draft.remove(self._silent(now), _SILENT)
            self._record(draft, 0, decision, now)
        return decision

    def next_deadline_ms(self) -> int | None:
        """The monotonic time before which `tick` has nothing to do; None if it never has."""
        deadlines = (
            self._heard_ms[each.member_id] + each.session_timeout_ms + 1
            for each in self.image.members.values()
            if each.member_id in self._heard_ms
        )
        return max(deadlines, default=None)

    def _let_time_pass(self, draft: Draft, partition_count: int, now: Moment) -> None:
        """Sessions may be over, the topic may have grown; of who was dropped there is nothing."""
        silent = [each for each in self._silent(now) if each in draft.members]
        if silent:
            draft.remove(silent, _SILENT)
        has_other_count = partition_count != self.image.partition_count
        if draft.members and has_other_count and not draft.is_changed:
            draft.resize(partition_count)

    def _silent(self, now: Moment) -> list[str]:
        """Members whose session is over."""
        return [
            each.member_id
            for each in self.image.members.values()
            if now.monotonic_ms - self._heard_ms.get(each.member_id, now.monotonic_ms)
            > each.session_timeout_ms
        ]

    # ---- deciding --------------------------------------------------------------------------------

    def _decide(
        self,
        draft: Draft,
        member_id: str,
        partition_count: int,
        error: AssignedError,
        now: Moment,
    ) -> Outcome:
        decision: GroupDecision = Decision()
        image = self._record(draft, partition_count, decision, now)
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
        """The group as its image says, which the log does not know yet; everybody is alive."""
        self.resume(now)
        decision: GroupDecision = Decision()
        self._write(self.image, "it was brought from another server", decision)
        return decision, AssignedResponse(AssignedError.NONE, generation=self.image.generation)

    def _record(
        self, draft: Draft, partition_count: int, decision: GroupDecision, now: Moment
    ) -> AssignedImage:
        """The group as it will be, with the record that makes it so if it is not."""
        if not draft.is_changed:
            return self.image
        image = draft.image(partition_count, now.wall_ms)
        self._write(image, "; ".join(draft.reasons), decision)
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
