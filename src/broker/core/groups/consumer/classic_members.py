"""Members of the classic protocol in a consumer group: they join, sync and heartbeat as ever.

What they ask is translated (KIP-848, "Online migration"): a join is a heartbeat that says
everything, its answer names nobody as the leader, so that nobody assigns; a sync hands out what the
broker has assigned; a heartbeat says REBALANCE_IN_PROGRESS as long as joining again would bring the
member further. The generation is the member's epoch. An eager member joins without partitions and
so has given all back; a cooperative one says which it still owns.
"""

from broker.codec.coordinator_records import (
    decode_subscription,
    encode_assignment,
)
from broker.core.groups.commands import (
    NO_MEMBER_ID,
    GroupDecision,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from broker.core.groups.consumer.draft import Draft
from broker.core.groups.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from broker.core.groups.consumer.reconcile import difference
from broker.core.groups.consumer.records import (
    NO_PARTITIONS,
    ClassicMetadata,
    ClassicProtocol,
    ConsumerMember,
    CurrentAssignment,
    MemberState,
    Partitions,
    in_order,
)
from broker.core.groups.consumer.subscriptions import SeenTopics
from broker.core.machine import Decision, Moment, Token
from broker.model.errors import CodecError, ErrorCode, RequestError


class Subscription:
    """What a classic member says of itself in the consumer protocol's words."""

    def __init__(self, metadata: bytes, topics: SeenTopics) -> None:
        """Read it.

        Raises:
            CodecError: it is no subscription.
        """
        self.version, body = decode_subscription(metadata)
        self.topic_names = tuple(sorted(set(body["topics"])))
        self.rack_id: str | None = body.get("rack_id")
        self.owned = by_id(
            {each["topic"]: each["partitions"] for each in body.get("owned_partitions") or ()},
            topics,
        )


def by_id(partitions: dict[str, list[int]], topics: SeenTopics) -> Partitions:
    """The partitions by topic id; what does not exist is left out."""
    found = {name: topics.get(name) for name in partitions}
    return in_order(
        {
            topic.topic_id: {each for each in partitions[name] if each < topic.partition_count}
            for name, topic in found.items()
            if topic is not None
        }
    )


def consumer_member(
    member_id: str, request: JoinRequest, subscription: Subscription
) -> ConsumerMember:
    """The member that a join describes."""
    protocols = tuple(ClassicProtocol(each.name, each.metadata) for each in request.protocols)
    return ConsumerMember(
        member_id,
        request.instance_id,
        subscription.rack_id,
        request.client_id,
        request.client_host,
        subscription.topic_names,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicMetadata(request.session_timeout_ms, protocols),
    )


class ClassicMembers:
    """One consumer group as its members of the classic protocol see it."""

    def __init__(self, group: ConsumerGroup, topics: SeenTopics) -> None:
        """Translate for this group."""
        self._group = group
        self._state = group.state
        self._topics = topics

    # ---- join ------------------------------------------------------------------------------------

    def join(self, request: JoinRequest, token: Token, now: Moment) -> GroupDecision:
        """A member joins, at once: there is nobody to wait for."""
        decision: GroupDecision = Decision()
        try:
            response = self._join(request, decision, now)
        except RequestError as error:
            response = JoinResponse(error.code, request.member_id)
        decision.reply(token, response)
        return decision

    def _join(self, request: JoinRequest, decision: GroupDecision, now: Moment) -> JoinResponse:
        subscription = self._subscription(request)
        static_id = self._state.static_id(request.instance_id)
        member_id = request.member_id
        if member_id == NO_MEMBER_ID:
            member_id = f"{request.instance_id or request.client_id}-{request.fresh_id}"
            if request.requires_member_id and request.instance_id is None:
                return JoinResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        elif static_id not in {None, member_id}:
            raise RequestError(ErrorCode.FENCED_INSTANCE_ID)
        elif member_id not in self._state.members and subscription.owned:
            # Its session has ended, and what it thinks that it owns may be another's by now. Kafka
            # takes it in as a new member, which never learns of that.
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        draft = Draft(self._state)
        if static_id is not None and static_id != member_id:
            self._group.replace(static_id, member_id, draft)
        else:
            self._group.check_room(member_id)
            draft.choose(member_id)
        member = consumer_member(member_id, request, subscription)
        draft.subscribe(member)
        self._group.settle(draft, subscription.owned, decision, now)
        self._group.be_content_with(member_id)
        self._group.expect(member, now)  # to sync
        return JoinResponse(
            ErrorCode.NONE,
            member_id,
            draft.current.epoch,
            PROTOCOL_TYPE,
            request.protocols[0].name,
        )

    def _subscription(self, request: JoinRequest) -> Subscription:
        """What a join says, if the group can be joined so."""
        names = {each.name for each in request.protocols}
        for member in self._state.members.values():
            if member.classic is not None and member.member_id != request.member_id:
                names &= {each.name for each in member.classic.protocols}
        if request.protocol_type != PROTOCOL_TYPE or not names:
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        try:
            return Subscription(request.protocols[0].metadata, self._topics)
        except CodecError:
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None

    # ---- sync ------------------------------------------------------------------------------------

    def sync(self, request: SyncRequest, token: Token, now: Moment) -> GroupDecision:
        """A member asks for its assignment; the broker has made it."""
        try:
            response = self._sync(request, now)
        except RequestError as error:
            response = SyncResponse(error.code)
        return Decision((), [(token, response)])

    def _sync(self, request: SyncRequest, now: Moment) -> SyncResponse:
        member, classic = self._member(request.member_id, request.instance_id, request.generation)
        protocol = classic.protocols[0]
        is_other = request.protocol_type not in {None, PROTOCOL_TYPE}
        if is_other or request.protocol not in {None, protocol.name}:
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._group.heard_of(member, now)
        current = self._state.current[member.member_id]
        must_revoke = current.state is MemberState.UNREVOKED_PARTITIONS
        if self._state.epoch > current.epoch and not must_revoke:
            self._group.expect(member, now)
            raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._group.be_content_with(member.member_id)
        if must_revoke:  # It joins again when it has.
            self._group.expect(member, now)
        assignment = self._assignment(protocol.metadata, current)
        return SyncResponse(ErrorCode.NONE, assignment, PROTOCOL_TYPE, protocol.name)

    def _assignment(self, metadata: bytes, current: CurrentAssignment) -> bytes:
        version = Subscription(metadata, self._topics).version
        return assignment_bytes(version, current.assigned, self._topics)

    # ---- staying and leaving ---------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> ErrorCode:
        """A member is alive; it hears whether joining again would bring it further."""
        try:
            member, _ = self._member(request.member_id, request.instance_id, request.generation)
        except RequestError as error:
            return error.code
        self._group.heard_of(member, now)
        current = self._state.current[member.member_id]
        must_join = (
            current.epoch < self._state.epoch
            or current.state is MemberState.UNREVOKED_PARTITIONS
            or (
                current.state is MemberState.UNRELEASED_PARTITIONS
                and self._can_get_more(current, member)
            )
        )
        if not must_join:
            return ErrorCode.NONE
        self._group.expect(member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _can_get_more(self, current: CurrentAssignment, member: ConsumerMember) -> bool:
        """Whether something that the member waits for is free now."""
        target = self._state.target.get(member.member_id, NO_PARTITIONS)
        return any(
            self._state.owner(topic, partition) is None
            for topic, partitions in difference(target, current.assigned).items()
            for partition in partitions
        )

    def leave(self, request: LeaveRequest, token: Token, _now: Moment) -> GroupDecision:
        """Members leave, or an administrator takes static ones out."""
        decision: GroupDecision = Decision()
        errors, leaving = [], {}
        for each in request.members:
            try:
                leaving[self._leaver(each)] = "left"
                errors.append(ErrorCode.NONE)
            except RequestError as error:
                errors.append(error.code)
        if leaving:
            self._group.remove(leaving, decision)
        decision.reply(token, LeaveResponse(ErrorCode.NONE, tuple(errors)))
        return decision

    def _leaver(self, leaving: LeavingMember) -> str:
        member_id = leaving.member_id
        if member_id == NO_MEMBER_ID and leaving.instance_id is not None:
            member_id = self._state.static_id(leaving.instance_id) or NO_MEMBER_ID
        self._identity(member_id, leaving.instance_id)
        return member_id

    # ---- who is who ------------------------------------------------------------------------------

    def _member(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[ConsumerMember, ClassicMetadata]:
        """The member of this very generation."""
        found = self._identity(member_id, instance_id)
        if generation != self._state.current[member_id].epoch:
            raise RequestError(ErrorCode.ILLEGAL_GENERATION)
        return found

    def _identity(
        self, member_id: str, instance_id: str | None
    ) -> tuple[ConsumerMember, ClassicMetadata]:
        self._group.check_identity(member_id, instance_id)
        member = self._state.members[member_id]
        if member.classic is None:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member, member.classic


def assignment_bytes(version: int, partitions: Partitions, topics: SeenTopics) -> bytes:
    """An assignment in the words that classic members understand."""
    found = ((topics.by_id(topic_id), numbers) for topic_id, numbers in partitions.items())
    assigned = [
        {"topic": topic.name, "partitions": list(numbers)}
        for topic, numbers in found
        if topic is not None
    ]
    return encode_assignment(version, {"assigned_partitions": assigned})
