"""Members of the classic protocol in a consumer group: they join, sync and heartbeat as ever.

What they ask is translated (KIP-848, "Online migration"): a join is a heartbeat that says
everything, its answer names nobody as the leader, so that nobody assigns; a sync hands out what the
broker has assigned; a heartbeat says REBALANCE_IN_PROGRESS as long as joining again would bring the
member further. The generation is the member's epoch. An eager member joins without partitions and
so has given all back; a cooperative one says which it still owns.
"""

from collections.abc import Sequence

from broker.codec import schema
from broker.codec.coordinator_records import decode_subscription, encode_assignment
from broker.core.groups.commands import (
    NO_MEMBER_ID,
    GroupDecision,
    GroupProtocol,
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
from broker.core.groups.consumer.group import ConsumerGroup
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
from broker.core.groups.subscription import CONSUMER_PROTOCOL
from broker.core.machine import Decision, Moment, Token
from broker.model import limits
from broker.model.errors import CodecError, ErrorCode, RequestError

_NEWEST_ASSIGNMENT = schema.record("ConsumerProtocolAssignment").versions[-1]


class Subscription:
    """What a classic member says of itself in the consumer protocol's words."""

    def __init__(self, metadata: bytes, topics: SeenTopics) -> None:
        """Read it.

        Raises:
            CodecError: it is no subscription.
        """
        body = decode_subscription(metadata).body
        self.topic_names = tuple(sorted(set(body["topics"])))
        self.rack_id: str | None = body.get("rack_id")
        self.owned = by_id(
            {each["topic"]: each["partitions"] for each in body.get("owned_partitions") or ()},
            topics,
        )


def subscription_in(protocols: Sequence[GroupProtocol], topics: SeenTopics) -> Subscription:
    """What a member says that offers these, in the format that it likes best.

    Every other one must be readable too: when the group is classic again, it may be chosen.

    Raises:
        CodecError: one of them is no subscription.
    """
    first, *_ = [Subscription(each.metadata, topics) for each in protocols]
    return first


def by_id(partitions: dict[str, list[int]], topics: SeenTopics) -> Partitions:
    """The partitions by topic id; what does not exist is left out."""
    found = {name: topics.get(name) for name in partitions}
    return in_order(
        {
            topic.topic_id: {each for each in partitions[name] if 0 <= each < topic.partition_count}
            for name, topic in found.items()
            if topic is not None
        }
    )


def consumer_member(
    member_id: str, request: JoinRequest, subscription: Subscription
) -> ConsumerMember:
    """The member that a join describes."""
    return ConsumerMember(
        member_id,
        request.instance_id,
        subscription.rack_id,
        request.client_id,
        request.client_host,
        subscription.topic_names,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=classic_metadata(request),
    )


def classic_metadata(request: JoinRequest) -> ClassicMetadata:
    """What a join offers, as it is stored."""
    protocols = tuple(ClassicProtocol(each.name, each.metadata) for each in request.protocols)
    return ClassicMetadata(request.session_timeout_ms, protocols)


class ClassicMembers:
    """One consumer group as its members of the classic protocol see it."""

    def __init__(self, group: ConsumerGroup, topics: SeenTopics, metadata_bytes_max: int) -> None:
        """Translate for this group, whose classic members' subscriptions may weigh so much."""
        self._group = group
        self._state = group.state
        self._topics = topics
        self._metadata_bytes_max = metadata_bytes_max

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
        member_id = request.member_id
        static_id = self._state.static_id(request.instance_id)
        self._check_offer(classic_metadata(request), request.protocol_type, static_id or member_id)
        subscription = self._subscription(request)
        if member_id == NO_MEMBER_ID:
            member_id = request.fresh_member_id
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
            CONSUMER_PROTOCOL,
            request.protocols[0].name,
        )

    def _check_offer(self, offer: ClassicMetadata, protocol_type: str, own_id: str) -> None:
        """Refuse what the other classic members cannot do, and what is too much.

        Args:
            offer: what a join says.
            protocol_type: of the join.
            own_id: the member that the join is of, or whose place it takes; it may be new.
        """
        state = self._state
        own = state.members.get(own_id)
        before = None if own is None else own.classic
        others = state.classic_count - (before is not None)
        own_names = frozenset[str]() if before is None else before.names
        is_shared = any(
            state.by_protocol.get(name, 0) - (name in own_names) == others for name in offer.names
        )
        is_known = protocol_type == CONSUMER_PROTOCOL
        if not (
            is_known and is_shared and len(offer.protocols) <= limits.GROUP_PROTOCOLS_PER_MEMBER_MAX
        ):
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        others_bytes = state.classic_bytes - (0 if before is None else before.metadata_bytes)
        if others_bytes + offer.metadata_bytes > self._metadata_bytes_max:
            raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _subscription(self, request: JoinRequest) -> Subscription:
        try:
            return subscription_in(request.protocols, self._topics)
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
        is_other = request.protocol_type not in {None, CONSUMER_PROTOCOL}
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
        assignment = assignment_bytes(protocol.metadata, current.assigned, self._topics)
        return SyncResponse(ErrorCode.NONE, assignment, CONSUMER_PROTOCOL, protocol.name)

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


def assignment_bytes(subscription: bytes, partitions: Partitions, topics: SeenTopics) -> bytes:
    """An assignment in the words that a classic member understands, as its subscription tells."""
    try:
        version = min(decode_subscription(subscription).version, _NEWEST_ASSIGNMENT)
    except CodecError:  # The log may know a member that would not be let in.
        version = 0
    found = ((topics.by_id(topic_id), numbers) for topic_id, numbers in partitions.items())
    assigned = [
        {"topic": topic.name, "partitions": list(numbers)}
        for topic, numbers in found
        if topic is not None
    ]
    return encode_assignment(version, {"assigned_partitions": assigned})
