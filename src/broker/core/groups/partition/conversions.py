"""Conversions of groups between group types (KIP-848, "Online migration").

A group without members gets the type of the next member that joins. A group with members is
converted as group.consumer.migration.policy allows, in one batch of records. A group that a command
has prepared is kept here until its records are replayed; then the shard takes it.
"""

from collections.abc import Callable, Iterator

from broker.core.coordination.machine import Decision, Moment, Token
from broker.core.groups.assigned.group import AssignedGroup, Outcome
from broker.core.groups.assigned.images import AssignedImage, first_image, from_log
from broker.core.groups.classic.group import ClassicGroup
from broker.core.groups.commands.assigned import AssignedError, AssignedJoin, AssignedResponse
from broker.core.groups.commands.classic import GroupState, JoinRequest
from broker.core.groups.commands.consumer import (
    JOIN_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
)
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.consumer.checks import check_heartbeat
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.consumer.membership import added_bytes_of_heartbeat
from broker.core.groups.consumer.subscriptions import TopicsView
from broker.core.groups.memory import GroupMemoryBudget
from broker.core.groups.partition.group_types import Group
from broker.core.groups.partition.migration import downgrade_records, upgrade_records
from broker.core.groups.records.classic import GroupImage
from broker.core.groups.records.consumer import ConsumerRecord
from broker.core.groups.settings import GroupSettings
from broker.model import limits
from broker.model.errors import ErrorCode, RequestError


class Conversions:
    """Groups of one shard that are being converted."""

    def __init__(
        self, settings: GroupSettings, topics: TopicsView, memory_budget: GroupMemoryBudget
    ) -> None:
        """Begin without prepared groups."""
        self.downgraded: dict[str, None] = {}  # classic now, not rebalanced yet
        self._settings = settings
        self._topics = topics
        self._memory_budget = memory_budget
        self._prepared: dict[str, Group] = {}

    # ---- replay ----------------------------------------------------------------------------------

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """Return the consumer group whose first record is replayed."""
        prepared = self._prepared.get(group_id)
        if isinstance(prepared, ConsumerGroup):
            del self._prepared[group_id]
            return prepared
        return ConsumerGroup(group_id, self._settings.consumer, self._topics)

    def classic_group(self, group_id: str) -> ClassicGroup:
        """Return the classic group that replaces a group of another type."""
        prepared = self._prepared.get(group_id)
        if isinstance(prepared, ClassicGroup):
            del self._prepared[group_id]
            return prepared
        return ClassicGroup(group_id, self._settings)

    def assigned_group(self, group_id: str, stored: GroupImage) -> AssignedGroup:
        """Return the assigned group whose first record is replayed.

        Raises:
            CodecError: the record is not that of an assigned group.
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

    def convert_to_assigned_on_join(
        self, request: AssignedJoin, existing: Group | None, now: Moment
    ) -> Outcome:
        """Join the first member of an assigned group, which may have had another type."""
        error = self._in_use_error(existing, now)
        if error is not AssignedError.NONE:
            return Decision(), AssignedResponse(error, request.member_id)
        image = first_image(request.protocol, request.topic, request.assignor)
        group = self._assigned(request.group_id, image)
        return self._replace_group(group, group.join_to_assigned_group(request, now), existing)

    def restore_assigned_group(
        self, group_id: str, image: AssignedImage, existing: Group | None, now: Moment
    ) -> Outcome:
        """Create an assigned group from another server's state, unless it exists."""
        is_here = isinstance(existing, AssignedGroup)  # even if it has no live members
        error = AssignedError.OTHER_PROTOCOL if is_here else self._in_use_error(existing, now)
        if error is not AssignedError.NONE:
            return Decision(), AssignedResponse(error)
        group = self._assigned(group_id, image)
        return self._replace_group(group, group.restore(now), existing)

    def _replace_group(
        self, group: AssignedGroup, outcome: Outcome, existing: Group | None
    ) -> Outcome:
        """Prepare an assigned group that replaces an existing group."""
        decision, response = outcome
        if isinstance(
            existing, ConsumerGroup
        ):  # The record of a classic or assigned group has the same key.
            decision.records = [*existing.tombstones(), *decision.records]
        self._prepared[group.group_id] = group
        return decision, response

    def _in_use_error(self, existing: Group | None, now: Moment) -> AssignedError:
        if existing is None:
            return AssignedError.NONE if self._memory_budget.allows_group else AssignedError.FULL
        is_free = existing.is_idle
        if isinstance(
            existing, ClassicGroup
        ):  # A client that has only requested a member id is not a member.
            is_free = existing.state is GroupState.EMPTY
        elif isinstance(existing, AssignedGroup):
            is_free = not existing.has_live_members(now)
        return AssignedError.NONE if is_free else AssignedError.OTHER_PROTOCOL

    # ---- to a consumer group ---------------------------------------------------------------------

    def heartbeat(
        self, request: ConsumerHeartbeat, existing: Group | None, token: Token, now: Moment
    ) -> GroupDecision:
        """Serve a heartbeat; a group of another type may become a consumer group."""
        try:
            check_heartbeat(request, self._settings.consumer)
            self._check_memory(request, existing)
            if isinstance(existing, ConsumerGroup):
                decision = existing.heartbeat(request, token, now)
                self.maybe_downgrade(existing, decision)
                return decision
            self._check_new_group(request, existing)
            return self._convert_to_consumer_group(request, existing, token, now)
        except RequestError as error:
            response = ConsumerHeartbeatResponse(error.code, error.message)
            return Decision((), [(token, response)])

    def _check_memory(self, request: ConsumerHeartbeat, existing: Group | None) -> None:
        members = existing.state.members if isinstance(existing, ConsumerGroup) else {}
        member = members.get(request.member_id)
        if member is None and request.member_epoch != JOIN_EPOCH:
            return  # an unknown member
        if not self._memory_budget.allows_bytes(added_bytes_of_heartbeat(request, member)):
            text = "the groups of the broker use all memory that is allowed"
            raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)

    def _check_new_group(self, request: ConsumerHeartbeat, existing: Group | None) -> None:
        if request.member_epoch != JOIN_EPOCH:
            verb = "does not exist" if existing is None else "is not a consumer group"
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {verb}")
        if existing is None and not self._memory_budget.allows_group:
            raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the broker has too many groups")

    def _convert_to_consumer_group(
        self,
        request: ConsumerHeartbeat,
        existing: ClassicGroup | AssignedGroup | None,
        token: Token,
        now: Moment,
    ) -> GroupDecision:
        """Serve the first heartbeat of a consumer group, in one batch with the conversion."""
        group = ConsumerGroup(request.group_id, self._settings.consumer, self._topics)
        before = self._upgrade_records(existing, now)
        for record in before:
            group.replay(record)
        group.resume(now)
        decision = group.heartbeat(request, token, now)
        if not decision.records:
            return decision
        if existing is not None:
            decision.records = [*existing.tombstones(), *before, *decision.records]
        if isinstance(existing, ClassicGroup):
            existing.reject_waiting(decision)
        if before:
            decision.note(
                "group upgraded", "a consumer protocol member joined", group=request.group_id
            )
        group.restart()
        self._prepared[request.group_id] = group
        return decision

    def _upgrade_records(
        self, existing: ClassicGroup | AssignedGroup | None, now: Moment
    ) -> list[ConsumerRecord]:
        """Return the records that carry a group's state over into a consumer group."""
        if isinstance(existing, AssignedGroup):
            if existing.has_live_members(now):
                raise RequestError(
                    ErrorCode.GROUP_ID_NOT_FOUND, "the group has members of another protocol"
                )
            return []
        if existing is None or not existing.members:
            return []
        return upgrade_records(existing, self._settings.consumer, self._topics)

    # ---- to a classic group ----------------------------------------------------------------------

    def convert_to_classic_on_join(
        self,
        request: JoinRequest,
        existing: ConsumerGroup | AssignedGroup,
        token: Token,
        now: Moment,
    ) -> GroupDecision:
        """Join a classic member to a group of another type without members: it becomes classic.

        It is not converted while the member has only been given an id (MEMBER_ID_REQUIRED).
        """
        group = self._prepared.pop(request.group_id, None)
        if not isinstance(group, ClassicGroup):
            group = ClassicGroup(request.group_id, self._settings)
        group.tick(now)  # Pending member ids expire.
        decision = group.join_to_classic_group(request, token, now)
        if not group.is_idle:
            self._prepared[request.group_id] = group
        if group.members:
            decision.records = [*existing.tombstones(), *decision.records]
        return decision

    def maybe_downgrade(self, group: ConsumerGroup, decision: GroupDecision) -> None:
        """Convert a group to classic if this decision removes its last consumer protocol member."""
        records = downgrade_records(group, decision, self._settings.consumer, self._topics)
        if records is not None:
            decision.records = records
            decision.note(
                "group downgraded", "its last consumer protocol member left", group=group.group_id
            )
            self.downgraded[group.group_id] = None

    def rebalance_downgraded(
        self, find: Callable[[str], Group | None], now: Moment
    ) -> Iterator[tuple[Group, GroupDecision]]:
        """Make the members of downgraded groups join again."""
        while self.downgraded:
            group = find(self.downgraded.popitem()[0])
            if isinstance(group, ClassicGroup):
                yield group, group.trigger_rebalance("the group was a consumer group", now)
