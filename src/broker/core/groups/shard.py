"""The groups of one partition of `__consumer_offsets`: which group a command is for.

Pure like the groups themselves: commands give a Decision, `replay` makes it true, `tick` lets time
pass. A group exists as long as the log knows it or somebody is on the way into it.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from broker.core.groups.administration import Administration, fetch_error
from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.assigned.images import is_assigned
from broker.core.groups.assigned.shard import AssignedGroups
from broker.core.groups.classic import ClassicGroup
from broker.core.groups.commands import (
    NO_MEMBER_ID,
    CommitRequest,
    CommitResponse,
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    GroupDecision,
    GroupDescription,
    GroupSettings,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    Response,
    SyncRequest,
    SyncResponse,
)
from broker.core.groups.consumer.classic_members import ClassicMembers
from broker.core.groups.consumer.commands import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
)
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.consumer.records import (
    ConsumerEpochRecord,
    ConsumerRecord,
    is_deletion,
)
from broker.core.groups.consumer.subscriptions import NoTopics, SeenTopics
from broker.core.groups.conversions import Conversions
from broker.core.groups.group_sizes import GroupMemoryBudget, GroupSizes
from broker.core.groups.kinds import Group
from broker.core.groups.offsets import CommittedOffsets
from broker.core.groups.records import GroupImage, GroupRecord, OffsetRecord, Record
from broker.core.machine import Decision, Moment, Token
from broker.model import limits
from broker.model.errors import ErrorCode


class GroupShard:
    """The groups and committed offsets that one coordinator partition keeps."""

    def __init__(
        self,
        settings: GroupSettings,
        budget: GroupMemoryBudget | None = None,
        topics: SeenTopics | None = None,
        assigned_changed: Callable[[str | None], None] = lambda _group_id: None,
    ) -> None:
        """Begin with nothing.

        Args:
            settings: what an operator may move.
            budget: what all groups of the broker may hold.
            topics: what consumer groups can be subscribed to.
            assigned_changed: is told of each change of an assigned group: its name, or None
                when only its offsets are others.
        """
        self._assigned_changed = assigned_changed
        self._settings = settings
        self._budget = budget or GroupMemoryBudget(settings.held_bytes_max)
        self._sizes = GroupSizes()
        self._topics = topics or NoTopics()
        self.groups: dict[str, Group] = {}
        self.offsets = CommittedOffsets(settings, self._budget)
        self._conversions = Conversions(settings, self._topics, self._budget)
        self.administration = Administration(self.groups, self.offsets, settings)
        self.assigned = AssignedGroups(
            self._find,
            self._watch,
            self.offsets,
            self._conversions,
            self._commit_error,
            self._budget,
        )
        # When to look at which group again. An entry may be early, never late: a member that
        # stays alive moves its deadline without telling.
        self._deadlines: list[tuple[int, str]] = []
        self._resting: set[str] = set()  # loaded, their members' sessions not begun yet

    @property
    def held(self) -> tuple[int, int]:
        """How many groups it has, and how many bytes they and their offsets take."""
        return len(self.groups), self._sizes.total + self.offsets.weight

    # ---- the log ---------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """What the log says is now so."""
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
            self._weigh(record.group_id)
        else:
            self._replay_consumer(record)
            self._weigh(record.group_id)

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
            self._watch(group)
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
        self._watch(group)
        self._assigned_changed(group_id)

    def _replay_consumer(self, record: ConsumerRecord) -> None:
        """A deletion is no reason to know a group; anything else makes it a consumer group."""
        group_id = record.group_id
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.replay(record)
        elif not is_deletion(record):
            group = self.groups[group_id] = self._conversions.consumer_group(group_id)
            group.replay(record)
            self._watch(group)
        if isinstance(record, ConsumerEpochRecord) and record.epoch is None and group is not None:
            group = self.groups[group_id] = self._conversions.classic_group(group_id)
            if group_id in self._conversions.downgraded:
                self._resting.add(group_id)
            self._watch(group)
            self._forget_unknown(group_id)

    @property
    def pending(self) -> "GroupShard":
        """Where offsets go that are committed in transactions."""
        return self

    def replay_pending(self, producer_id: int, record: Record) -> None:
        """Keep an offset until its transaction ends; nothing else is written in transactions."""
        if isinstance(record, OffsetRecord):
            self.offsets.pending.replay_pending(producer_id, record)
            self._group(record.group_id)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """The offsets of a producer's transaction count from now on, or are forgotten."""
        pending = self.offsets.pending
        for group_id in pending.end_transaction(producer_id, is_committed=is_committed):
            if isinstance(self.groups.get(group_id), AssignedGroup):
                self._assigned_changed(None)
            self._forget_unknown(group_id)

    def resume(self, now: Moment) -> Iterator[GroupDecision]:
        """After a load: members have a session timeout to show themselves.

        It comes in steps; a group that is asked for meanwhile goes on at once.
        """
        self._resting = {each.group_id for each in self.groups.values() if not each.is_idle}
        return self._resume_all(list(self._resting), now)

    def _resume_all(self, group_ids: list[str], now: Moment) -> Iterator[GroupDecision]:
        for group_id in group_ids:
            self._find(group_id, now)
            yield Decision()

    def waiting(self) -> list[Token]:
        """Everybody whose request is parked in a group, or takes several steps."""
        parked = [token for group in self.groups.values() for token in group.waiting()]
        return parked + self.administration.waiting()

    # ---- membership ------------------------------------------------------------------------------

    def join(self, request: JoinRequest, token: Token, now: Moment) -> GroupDecision:
        """A member asks to be in its group, which a member without an id creates."""
        known = self._find(request.group_id, now)
        error = self._join_error(request, known, now)
        if error is not ErrorCode.NONE:
            return _answer(token, JoinResponse(error, request.member_id))
        if isinstance(known, AssignedGroup):
            return self._conversions.join(request, known, token, now)
        if isinstance(known, ConsumerGroup):
            if known.is_idle:
                return self._conversions.join(request, known, token, now)
            decision = self._classic_members(known).join(request, token, now)
            self._conversions.maybe_downgrade(known, decision)
            self._watch(known)
            return decision
        group = known or self._classic_group(request.group_id)
        decision = group.join(request, token, now)
        if not decision.records:
            self._forget_unknown(request.group_id)
        self._watch(group)
        return decision

    def _join_error(self, request: JoinRequest, group: Group | None, now: Moment) -> ErrorCode:
        settings = self._settings
        if not request.group_id or _is_unwritable(request.group_id):
            return ErrorCode.INVALID_GROUP_ID
        if not (
            settings.session_timeout_ms_min
            <= request.session_timeout_ms
            <= settings.session_timeout_ms_max
        ):
            return ErrorCode.INVALID_SESSION_TIMEOUT
        protocols = [protocol.name for protocol in request.protocols]
        names = (request.client_id, request.instance_id or "", request.protocol_type, *protocols)
        if any(len(name.encode()) > limits.CLIENT_ID_BYTES_MAX for name in names):
            return ErrorCode.INVALID_REQUEST  # They are stored, as an id or part of one.
        if group is None and request.member_id != NO_MEMBER_ID:
            return ErrorCode.UNKNOWN_MEMBER_ID
        has_group = group is not None or self._budget.has_group
        if not (has_group and self._budget.has_bytes(_growth(request, group))):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        # The protocol types of assigned groups are the broker's own.
        is_taken = isinstance(group, AssignedGroup) and group.has_live_members(now)
        is_inconsistent = is_taken or is_assigned(request.protocol_type)
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_inconsistent else ErrorCode.NONE

    def sync(self, request: SyncRequest, token: Token, now: Moment) -> GroupDecision:
        """A member asks for its assignment."""
        group = self._find_for_classic(request.group_id, now)
        if group is None:
            return _answer(token, SyncResponse(_unknown(request.group_id)))
        growth = group.growth_by(request.assignments) if isinstance(group, ClassicGroup) else 0
        if request.assignments and not self._budget.has_bytes(growth):
            # As where they are too much for one group.
            return _answer(token, SyncResponse(ErrorCode.UNKNOWN_SERVER_ERROR))
        decision = self._for_classic(group).sync(request, token, now)
        self._watch(group)
        return decision

    def heartbeat(self, request: HeartbeatRequest, token: Token, now: Moment) -> GroupDecision:
        """A member is alive."""
        group = self._find_for_classic(request.group_id, now)
        if group is None:
            return _answer(token, _unknown(request.group_id))
        error = self._for_classic(group).heartbeat(request, now)
        if isinstance(group, ConsumerGroup):
            self._watch(group)  # It may be waiting for this member from now on.
        return _answer(token, error)

    def leave(self, request: LeaveRequest, token: Token, now: Moment) -> GroupDecision:
        """Members leave."""
        group = self._find_for_classic(request.group_id, now)
        if group is None:
            error = _unknown(request.group_id)
            is_invalid = error is ErrorCode.INVALID_GROUP_ID
            errors = () if is_invalid else (error,) * len(request.members)
            overall = error if is_invalid else ErrorCode.NONE
            return _answer(token, LeaveResponse(overall, errors))
        decision = self._for_classic(group).leave(request, token, now)
        if isinstance(group, ConsumerGroup):
            self._conversions.maybe_downgrade(group, decision)
        if not decision.records:
            self._forget_unknown(request.group_id)
        self._watch(group)
        return decision

    def describe(self, group_id: str, token: Token) -> GroupDecision:
        """What an administrator sees; a group that nobody knows is Dead."""
        group = self.groups.get(group_id)
        if group is None or isinstance(group, ConsumerGroup):
            return _answer(token, GroupDescription(ErrorCode.NONE, group_id))
        return _answer(token, group.describe())

    # ---- the consumer protocol -------------------------------------------------------------------

    def consumer_heartbeat(
        self, request: ConsumerHeartbeat, token: Token, now: Moment
    ) -> GroupDecision:
        """A member of the consumer protocol joins, which may make its group, stays or leaves."""
        if _is_unwritable(request.group_id):
            return _answer(
                token,
                ConsumerHeartbeatResponse(ErrorCode.INVALID_REQUEST, "the group id is too long"),
            )
        group = self._find(request.group_id, now)
        decision = self._conversions.heartbeat(request, group, token, now)
        if group is not None:
            self._watch(group)
        return decision

    def consumer_describe(self, group_id: str, token: Token) -> GroupDecision:
        """What an administrator sees; only of a consumer group."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return _answer(token, group.describe())
        message = "the group does not exist" if group is None else "it is not a consumer group"
        return _answer(
            token, ConsumerGroupDescription(ErrorCode.GROUP_ID_NOT_FOUND, group_id, message)
        )

    # ---- offsets ---------------------------------------------------------------------------------

    def commit(self, request: CommitRequest, token: Token, now: Moment) -> GroupDecision:
        """A consumer says how far it has read; one without membership creates its group."""
        error = self._commit_error(request, now)
        if error is not ErrorCode.NONE:
            return _answer(token, CommitResponse((error,) * len(request.offsets)))
        records, errors = self.offsets.commit(request, now.wall_ms)
        return Decision(records, [(token, CommitResponse(errors))], request.transaction)

    def _commit_error(self, request: CommitRequest, now: Moment) -> ErrorCode:
        if (not request.group_id and request.generation >= 0) or _is_unwritable(request.group_id):
            return ErrorCode.INVALID_GROUP_ID
        group = self._find(request.group_id, now)
        if group is not None:
            return _commit_error(group, request, now)
        if request.generation >= 0:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE if self._budget.has_group else ErrorCode.GROUP_MAX_SIZE_REACHED

    def fetch_offsets(self, request: FetchOffsetsRequest, token: Token) -> GroupDecision:
        """What was committed; nothing, without an error, for a group that nobody knows."""
        error = fetch_error(self.groups.get(request.group_id), request)
        if error is not ErrorCode.NONE:
            return _answer(token, FetchOffsetsResponse(error))
        found = self.offsets.fetch(request)
        unstable = self.offsets.unstable(request.group_id, found) if request.requires_stable else ()
        return _answer(token, FetchOffsetsResponse(ErrorCode.NONE, found, frozenset(unstable)))

    def expire(self, now: Moment) -> Iterator[GroupDecision]:
        """Groups forget what is too old, and are forgotten with their last offset."""
        return self.administration.expire(now)

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: Moment) -> Iterator[GroupDecision]:
        """Let the time pass for every group whose deadline has come.

        Each decision must have its effect before the next one is asked for.
        """
        for group, decision in self._conversions.rebalances(
            lambda name: self._find(name, now), now
        ):
            yield decision
            self._watch(group)
        yield from self._tick_groups(now)

    def _tick_groups(self, now: Moment) -> Iterator[GroupDecision]:
        while self._deadlines and self._deadlines[0][0] <= now.monotonic_ms:
            deadline_ms, group_id = heappop(self._deadlines)
            group = self.groups.get(group_id)
            if group is None or group.watched_ms != deadline_ms:
                continue  # An entry that a nearer deadline has replaced.
            group.watched_ms = None
            yield self._tick_group(group, now)
            self._forget_unknown(group_id)
            self._watch(group)

    def _tick_group(self, group: Group, now: Moment) -> GroupDecision:
        decision = group.tick(now)
        if isinstance(group, ConsumerGroup):
            self._conversions.maybe_downgrade(group, decision)
        return decision

    def end_sessions(self, group_id: str, now: Moment) -> GroupDecision:
        """What the tick would do to a group, now: somebody of another dialect wants to join it."""
        group = self._find(group_id, now)
        deadline_ms = None if group is None else group.next_deadline_ms()
        if group is None or deadline_ms is None or now.monotonic_ms < deadline_ms:
            return Decision()
        return self._tick_group(group, now)

    def next_deadline_ms(self) -> int | None:
        """The monotonic time of the next look at a group; None if there is none."""
        if self._conversions.downgraded:
            return 0
        return self._deadlines[0][0] if self._deadlines else None

    def _watch(self, group: Group) -> None:
        """Something happened to a group: look at it again when its next deadline comes."""
        self._weigh(group.group_id)
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is None or self.groups.get(group.group_id) is not group:
            return
        if group.watched_ms is None or deadline_ms < group.watched_ms:
            group.watched_ms = deadline_ms
            heappush(self._deadlines, (deadline_ms, group.group_id))

    def _weigh(self, group_id: str) -> None:
        self._sizes.update(group_id, self.groups.get(group_id))

    # ---- which groups there are ------------------------------------------------------------------

    def _find(self, group_id: str, now: Moment) -> Group | None:
        """The group, if there is one, with its members' sessions running."""
        group = self.groups.get(group_id)
        if group is not None and group_id in self._resting:
            group.resume(now)
            self._resting.discard(group_id)
            self._watch(group)
        return group

    def _find_for_classic(self, group_id: str, now: Moment) -> ClassicGroup | ConsumerGroup | None:
        """The group, if members of the classic protocol can be in it.

        The one without a name has none, though offsets may be committed for it.
        """
        group = self._find(group_id, now) if group_id else None
        return None if isinstance(group, AssignedGroup) else group

    def _for_classic(self, group: ClassicGroup | ConsumerGroup) -> ClassicGroup | ClassicMembers:
        """Who answers members of the classic protocol."""
        return group if isinstance(group, ClassicGroup) else self._classic_members(group)

    def _classic_members(self, group: ConsumerGroup) -> ClassicMembers:
        return ClassicMembers(group, self._topics, self._settings.metadata_bytes_max)

    def _group(self, group_id: str) -> Group:
        """The group of that name, of whatever kind; offsets alone make it a classic one."""
        return self.groups.get(group_id) or self._classic_group(group_id)

    def _classic_group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            group = self.groups[group_id] = ClassicGroup(group_id, self._settings)
            self._weigh(group_id)
        return group

    def _forget_unknown(self, group_id: str) -> None:
        """Drop a group of which the log says nothing and in which nobody is."""
        group = self.groups.get(group_id)
        if group is None or not group.is_idle or group.is_stored:
            return
        if not self.offsets.has_any(group_id):
            del self.groups[group_id]
            self._weigh(group_id)


def _growth(request: JoinRequest, group: Group | None) -> int:
    """How much more its group takes with this member in it, at most."""
    if isinstance(group, ClassicGroup):
        return group.growth(request)
    return limits.MEMBER_BYTES + sum(protocol.size for protocol in request.protocols)


def _commit_error(group: Group, request: CommitRequest, now: Moment) -> ErrorCode:
    """Why a consumer may not commit; a producer commits for whoever it says (KIP-447).

    An old producer says nothing of a member, and one that does may be between two generations.
    """
    names_member = request.generation >= 0 or request.member_id or request.instance_id is not None
    is_assigned_here = isinstance(group, AssignedGroup)  # for whom no producer of Kafka's reads
    if request.transaction is not None and not names_member and not is_assigned_here:
        return ErrorCode.NONE
    error = group.commit_error(request.member_id, request.instance_id, request.generation, now)
    if request.transaction is not None and error is ErrorCode.REBALANCE_IN_PROGRESS:
        return ErrorCode.NONE
    is_epoch = isinstance(group, ConsumerGroup) and group.gives_epochs_to(request.member_id)
    if error is ErrorCode.NONE and is_epoch and not request.knows_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return error


def _answer(token: Token, response: Response) -> GroupDecision:
    return Decision((), [(token, response)])


def _is_unwritable(group_id: str) -> bool:
    """Whether no record can have it: too long, or of bytes that were no text."""
    try:
        return len(group_id.encode()) > limits.GROUP_ID_BYTES_MAX
    except UnicodeEncodeError:
        return True


def _unknown(group_id: str) -> ErrorCode:
    """Why nobody can be a member of a group that does not exist."""
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID
