"""Which kind a group is, and how it becomes the other one (KIP-848, "Online migration").

A group without members is whatever the next one who joins makes of it. A group with members changes
as group.consumer.migration.policy allows, in one batch of records. What a command has made ready
stands here until its records are replayed: only then does the shard know it.
"""

from collections.abc import Callable, Iterator

from broker.core.groups.classic import ClassicGroup
from broker.core.groups.commands import GroupDecision, GroupSettings, JoinRequest
from broker.core.groups.consumer.checks import check_heartbeat
from broker.core.groups.consumer.commands import (
    JOIN_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
)
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.consumer.migration import downgraded, upgrade_records
from broker.core.groups.consumer.records import ConsumerRecord
from broker.core.groups.consumer.subscriptions import SeenTopics
from broker.core.groups.kinds import Group
from broker.core.machine import Decision, Moment, Token
from broker.model.errors import ErrorCode, RequestError


class Conversions:
    """Groups of one shard that are about to be of another kind."""

    def __init__(
        self, settings: GroupSettings, topics: SeenTopics, has_room: Callable[[], bool]
    ) -> None:
        """Begin with none."""
        self.downgraded: set[str] = set()  # classic groups now, their members do not know it yet
        self._settings = settings
        self._topics = topics
        self._has_room = has_room
        self._prepared: dict[str, Group] = {}

    # ---- what the log makes true -----------------------------------------------------------------

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """A consumer group that the log now knows."""
        prepared = self._prepared.pop(group_id, None)
        if isinstance(prepared, ConsumerGroup):
            return prepared
        return ConsumerGroup(group_id, self._settings.consumer, self._topics)

    def classic_group(self, group_id: str) -> ClassicGroup:
        """A group that was a consumer group as far as the log knows."""
        prepared = self._prepared.pop(group_id, None)
        if isinstance(prepared, ClassicGroup):
            return prepared
        return ClassicGroup(group_id, self._settings)

    # ---- to a consumer group ---------------------------------------------------------------------

    def heartbeat(
        self, request: ConsumerHeartbeat, known: Group | None, token: Token, now: Moment
    ) -> GroupDecision:
        """A heartbeat to a group that may not be a consumer group yet."""
        try:
            check_heartbeat(request, self._settings.consumer)
            if isinstance(known, ConsumerGroup):
                decision = known.heartbeat(request, token, now)
                self.maybe_downgrade(known, decision)
                return decision
            self._check_makes_group(request, known)
            return self._begin(request, known, token, now)
        except RequestError as error:
            response = ConsumerHeartbeatResponse(error.code, error.message)
            return Decision((), [(token, response)])

    def _check_makes_group(self, request: ConsumerHeartbeat, known: Group | None) -> None:
        if request.member_epoch != JOIN_EPOCH:
            verb = "does not exist" if known is None else "is not a consumer group"
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {verb}")
        if known is None and not self._has_room():
            raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the broker knows too many groups")

    def _begin(
        self, request: ConsumerHeartbeat, known: ClassicGroup | None, token: Token, now: Moment
    ) -> GroupDecision:
        """The first heartbeat of a consumer group, in one batch with what it was before."""
        group = ConsumerGroup(request.group_id, self._settings.consumer, self._topics)
        before = self._upgrade(known) if known is not None and not known.is_idle else []
        for record in before:
            group.replay(record)
        group.resume(now)
        decision = group.heartbeat(request, token, now)
        if not decision.records:
            return decision
        if known is not None:
            decision.records = [*known.tombstones(), *before, *decision.records]
            known.dismiss(decision)
        if before:
            decision.note(
                "group upgraded", "a consumer protocol member joined", group=request.group_id
            )
        group.restart()
        self._prepared[request.group_id] = group
        return decision

    def _upgrade(self, group: ClassicGroup) -> list[ConsumerRecord]:
        return upgrade_records(group, self._settings.consumer, self._topics)

    # ---- to a classic group ----------------------------------------------------------------------

    def join(
        self, request: JoinRequest, known: ConsumerGroup, token: Token, now: Moment
    ) -> GroupDecision:
        """A classic member joins a consumer group without members, which is classic from now on."""
        group = ClassicGroup(request.group_id, self._settings)
        decision = group.join(request, token, now)
        if not group.is_idle:
            decision.records = [*known.tombstones(), *decision.records]
            self._prepared[request.group_id] = group
        return decision

    def maybe_downgrade(self, group: ConsumerGroup, decision: GroupDecision) -> None:
        """Make a group classic again when its last other member leaves by this decision."""
        records = downgraded(group, decision, self._settings.consumer, self._topics)
        if records is not None:
            decision.records = records
            decision.note(
                "group downgraded", "its last consumer protocol member left", group=group.group_id
            )
            self.downgraded.add(group.group_id)

    def rebalances(
        self, find: Callable[[str], Group | None], now: Moment
    ) -> Iterator[tuple[Group, GroupDecision]]:
        """Have members of what are classic groups now join again."""
        while self.downgraded:
            group = find(self.downgraded.pop())
            if isinstance(group, ClassicGroup):
                yield group, group.begin_rebalance("the group was a consumer group", now)
