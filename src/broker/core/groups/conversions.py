"""Which kind a group is, and how it becomes the other one (KIP-848, "Online migration").

A group without members is whatever the next one who joins makes of it. A group with members changes
as group.consumer.migration.policy allows, in one batch of records. What a command has made ready
stands here until its records are replayed: only then does the shard know it.
"""

from collections.abc import Callable, Iterator

from broker.core.groups.assigned.commands import AssignedError, AssignedJoin, AssignedResponse
from broker.core.groups.assigned.group import AssignedGroup, Outcome
from broker.core.groups.assigned.images import AssignedImage, first_image, from_log
from broker.core.groups.classic import ClassicGroup
from broker.core.groups.commands import GroupDecision, GroupSettings, GroupState, JoinRequest
from broker.core.groups.consumer.checks import check_heartbeat
from broker.core.groups.consumer.commands import (
    JOIN_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
)
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.consumer.membership import growth
from broker.core.groups.consumer.migration import downgraded, upgrade_records
from broker.core.groups.consumer.records import ConsumerRecord
from broker.core.groups.consumer.subscriptions import SeenTopics
from broker.core.groups.group_sizes import GroupMemoryBudget
from broker.core.groups.kinds import Group
from broker.core.groups.records import GroupImage
from broker.core.machine import Decision, Moment, Token
from broker.model import limits
from broker.model.errors import ErrorCode, RequestError


class Conversions:
    """Groups of one shard that are about to be of another kind."""

    def __init__(
        self, settings: GroupSettings, topics: SeenTopics, budget: GroupMemoryBudget
    ) -> None:
        """Begin with none."""
        self.downgraded: dict[str, None] = {}  # classic now, their members do not know it yet
        self._settings = settings
        self._topics = topics
        self._budget = budget
        self._prepared: dict[str, Group] = {}

    # ---- what the log makes true -----------------------------------------------------------------

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """A consumer group that the log now knows."""
        prepared = self._prepared.get(group_id)
        if isinstance(prepared, ConsumerGroup):
            del self._prepared[group_id]
            return prepared
        return ConsumerGroup(group_id, self._settings.consumer, self._topics)

    def classic_group(self, group_id: str) -> ClassicGroup:
        """A group that was of another kind as far as the log knows."""
        prepared = self._prepared.get(group_id)
        if isinstance(prepared, ClassicGroup):
            del self._prepared[group_id]
            return prepared
        return ClassicGroup(group_id, self._settings)

    def assigned_group(self, group_id: str, stored: GroupImage) -> AssignedGroup:
        """An assigned group that the log now knows.

        Raises:
            CodecError: the record is no such group's.
        """
        prepared = self._prepared.get(group_id)
        if isinstance(prepared, AssignedGroup):
            del self._prepared[group_id]
            return prepared
        return self._assigned(group_id, from_log(stored))

    def _assigned(self, group_id: str, image: AssignedImage) -> AssignedGroup:
        members_max = min(self._settings.members_max, limits.ASSIGNED_MEMBERS_MAX)
        return AssignedGroup(group_id, image, members_max=members_max)

    # ---- to an assigned group --------------------------------------------------------------------

    def assigned_join(self, request: AssignedJoin, known: Group | None, now: Moment) -> Outcome:
        """The first member of an assigned group, whatever the group was before."""
        error = self._taken_error(known, now)
        if error is not AssignedError.NONE:
            return Decision(), AssignedResponse(error, request.member_id)
        image = first_image(request.protocol, request.topic, request.assignor)
        group = self._assigned(request.group_id, image)
        return self._instead(group, group.join(request, now), known)

    def restored(
        self, group_id: str, image: AssignedImage, known: Group | None, now: Moment
    ) -> Outcome:
        """An assigned group that another server has left; one that is here already goes on."""
        is_here = isinstance(known, AssignedGroup)  # also when nobody in it is alive any more
        error = AssignedError.OTHER_PROTOCOL if is_here else self._taken_error(known, now)
        if error is not AssignedError.NONE:
            return Decision(), AssignedResponse(error)
        group = self._assigned(group_id, image)
        return self._instead(group, group.restore(now), known)

    def _instead(self, group: AssignedGroup, outcome: Outcome, known: Group | None) -> Outcome:
        """Have an assigned group take the place of what there was."""
        decision, response = outcome
        if isinstance(known, ConsumerGroup):  # The record of another kind is replaced, not ended.
            decision.records = [*known.tombstones(), *decision.records]
        self._prepared[group.group_id] = group
        return decision, response

    def _taken_error(self, known: Group | None, now: Moment) -> AssignedError:
        if known is None:
            return AssignedError.NONE if self._budget.has_group else AssignedError.FULL
        is_free = known.is_idle
        if isinstance(known, ClassicGroup):  # Who has only asked for a member id is not in it.
            is_free = known.state is GroupState.EMPTY
        elif isinstance(known, AssignedGroup):
            is_free = not known.has_live_members(now)
        return AssignedError.NONE if is_free else AssignedError.OTHER_PROTOCOL

    # ---- to a consumer group ---------------------------------------------------------------------

    def heartbeat(
        self, request: ConsumerHeartbeat, known: Group | None, token: Token, now: Moment
    ) -> GroupDecision:
        """A heartbeat to a group that may not be a consumer group yet."""
        try:
            check_heartbeat(request, self._settings.consumer)
            self._check_growth(request, known)
            if isinstance(known, ConsumerGroup):
                decision = known.heartbeat(request, token, now)
                self.maybe_downgrade(known, decision)
                return decision
            self._check_makes_group(request, known)
            return self._begin(request, known, token, now)
        except RequestError as error:
            response = ConsumerHeartbeatResponse(error.code, error.message)
            return Decision((), [(token, response)])

    def _check_growth(self, request: ConsumerHeartbeat, known: Group | None) -> None:
        members = known.state.members if isinstance(known, ConsumerGroup) else {}
        member = members.get(request.member_id)
        if member is None and request.member_epoch != JOIN_EPOCH:
            return  # nobody here
        if not self._budget.has_bytes(growth(request, member)):
            text = "the groups of the broker hold as much as they may"
            raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)

    def _check_makes_group(self, request: ConsumerHeartbeat, known: Group | None) -> None:
        if request.member_epoch != JOIN_EPOCH:
            verb = "does not exist" if known is None else "is not a consumer group"
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {verb}")
        if known is None and not self._budget.has_group:
            raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the broker knows too many groups")

    def _begin(
        self,
        request: ConsumerHeartbeat,
        known: ClassicGroup | AssignedGroup | None,
        token: Token,
        now: Moment,
    ) -> GroupDecision:
        """The first heartbeat of a consumer group, in one batch with what it was before."""
        group = ConsumerGroup(request.group_id, self._settings.consumer, self._topics)
        before = self._before(known, now)
        for record in before:
            group.replay(record)
        group.resume(now)
        decision = group.heartbeat(request, token, now)
        if not decision.records:
            return decision
        if known is not None:
            decision.records = [*known.tombstones(), *before, *decision.records]
        if isinstance(known, ClassicGroup):
            known.dismiss(decision)
        if before:
            decision.note(
                "group upgraded", "a consumer protocol member joined", group=request.group_id
            )
        group.restart()
        self._prepared[request.group_id] = group
        return decision

    def _before(
        self, known: ClassicGroup | AssignedGroup | None, now: Moment
    ) -> list[ConsumerRecord]:
        """What a consumer group takes over from what the group was."""
        if isinstance(known, AssignedGroup):
            if known.has_live_members(now):
                raise RequestError(
                    ErrorCode.GROUP_ID_NOT_FOUND, "the group has members of another protocol"
                )
            return []
        if known is None or not known.members:
            return []
        return upgrade_records(known, self._settings.consumer, self._topics)

    # ---- to a classic group ----------------------------------------------------------------------

    def join(
        self,
        request: JoinRequest,
        known: ConsumerGroup | AssignedGroup,
        token: Token,
        now: Moment,
    ) -> GroupDecision:
        """A classic member joins a group of another kind that nobody is in: it is classic now.

        Not yet when it has only been given an id to join with.
        """
        group = self._prepared.pop(request.group_id, None)
        if not isinstance(group, ClassicGroup):
            group = ClassicGroup(request.group_id, self._settings)
        group.tick(now)  # The ids that it has given grow old.
        decision = group.join(request, token, now)
        if not group.is_idle:
            self._prepared[request.group_id] = group
        if group.members:
            decision.records = [*known.tombstones(), *decision.records]
        return decision

    def maybe_downgrade(self, group: ConsumerGroup, decision: GroupDecision) -> None:
        """Make a group classic again when its last other member leaves by this decision."""
        records = downgraded(group, decision, self._settings.consumer, self._topics)
        if records is not None:
            decision.records = records
            decision.note(
                "group downgraded", "its last consumer protocol member left", group=group.group_id
            )
            self.downgraded[group.group_id] = None

    def rebalances(
        self, find: Callable[[str], Group | None], now: Moment
    ) -> Iterator[tuple[Group, GroupDecision]]:
        """Have members of what are classic groups now join again."""
        while self.downgraded:
            group = find(self.downgraded.popitem()[0])
            if isinstance(group, ClassicGroup):
                yield group, group.begin_rebalance("the group was a consumer group", now)
