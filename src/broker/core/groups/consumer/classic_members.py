"""Members of the classic protocol in a consumer group: their joins, syncs and heartbeats.

Their requests are translated (KIP-848, "Online migration"): a join is a full heartbeat, and its
response names no leader, so that no member assigns; a sync returns the broker's assignment; a
heartbeat returns REBALANCE_IN_PROGRESS while joining again would change the member's assignment.
The generation is the member's epoch. An eager member has revoked all partitions when it joins; a
cooperative one sends those that it still owns.
"""

from collections.abc import Iterable, Sequence

from broker.codec import schema
from broker.codec.coordinator_records import decode_subscription, encode_assignment
from broker.core.coordination.machine import Decision, Moment, Token
from broker.core.groups.commands.classic import (
    NO_MEMBER_ID,
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
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.consumer.group_update import ConsumerGroupUpdate
from broker.core.groups.consumer.reconcile import difference
from broker.core.groups.consumer.subscriptions import TopicsView
from broker.core.groups.records.classic import CONSUMER_PROTOCOL, Member
from broker.core.groups.records.consumer import (
    NO_PARTITIONS,
    ClassicMetadata,
    ClassicProtocol,
    ConsumerMember,
    CurrentAssignment,
    MemberState,
    Partitions,
    in_order,
)
from broker.model import limits
from broker.model.errors import CodecError, ErrorCode, RequestError

_NEWEST_ASSIGNMENT = schema.record("ConsumerProtocolAssignment").versions[-1]


class Subscription:
    """The subscription of a classic member, decoded."""

    def __init__(self, metadata: bytes, topics: TopicsView) -> None:
        """Decode it.

        Raises:
            CodecError: it is not a subscription.
        """
        body = decode_subscription(metadata).body
        self.topic_names = tuple(sorted(set(body["topics"])))
        self.rack_id: str | None = body.get("rack_id")
        self.owned = by_id(
            {each["topic"]: each["partitions"] for each in body.get("owned_partitions") or ()},
            topics,
        )


def subscription_in(protocols: Sequence[GroupProtocol], topics: TopicsView) -> Subscription:
    """Return the subscription in the protocol that a member prefers.

    All others must be readable too: one of them may be chosen when the group becomes classic.

    Raises:
        CodecError: one of them is not a subscription.
    """
    first, *_ = [Subscription(each.metadata, topics) for each in protocols]
    return first


def by_id(partitions: dict[str, list[int]], topics: TopicsView) -> Partitions:
    """Return the partitions by topic id, without those that do not exist."""
    found = {name: topics.get(name) for name in partitions}
    return in_order(
        {
            topic.topic_id: {each for each in partitions[name] if 0 <= each < topic.partition_count}
            for name, topic in found.items()
            if topic is not None
        }
    )


def consumer_member(
    member_id: str,
    described: JoinRequest | Member,
    protocols: Iterable[GroupProtocol],
    subscription: Subscription,
) -> ConsumerMember:
    """Return the member that a join, or the record of a classic group, describes."""
    return ConsumerMember(
        member_id,
        described.instance_id,
        subscription.rack_id,
        described.client_id,
        described.client_host,
        subscription.topic_names,
        rebalance_timeout_ms=described.rebalance_timeout_ms,
        classic=classic_metadata(described.session_timeout_ms, protocols),
    )


def classic_metadata(
    session_timeout_ms: int, protocols: Iterable[GroupProtocol]
) -> ClassicMetadata:
    """Return the protocols of a member, as they are stored."""
    stored = tuple(ClassicProtocol(each.name, each.metadata) for each in protocols)
    return ClassicMetadata(session_timeout_ms, stored)


class ClassicMembers:
    """Serves classic protocol requests of one consumer group's members."""

    def __init__(self, group: ConsumerGroup, topics: TopicsView, metadata_bytes_max: int) -> None:
        """Serve this group; its classic members' metadata may have so many bytes together."""
        self._group = group
        self._state = group.state
        self._topics = topics
        self._metadata_bytes_max = metadata_bytes_max

    # ---- join ------------------------------------------------------------------------------------

    def join_to_consumer_group(
        self, request: JoinRequest, token: Token, now: Moment
    ) -> GroupDecision:
        """Join a member; the response does not wait for other members."""
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
        offer = classic_metadata(request.session_timeout_ms, request.protocols)
        self._check_offer(offer, request.protocol_type, static_id or member_id)
        subscription = self._subscription(request)
        if member_id == NO_MEMBER_ID:
            member_id = request.fresh_member_id
            if request.requires_member_id and request.instance_id is None:
                return JoinResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        elif static_id not in {None, member_id}:
            raise RequestError(ErrorCode.FENCED_INSTANCE_ID)
        elif member_id not in self._state.members and subscription.owned:
            # Its session has ended, and another member may own its partitions now. Kafka adds it as
            # a new member, which is not asked to revoke them.
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        update = ConsumerGroupUpdate(self._state)
        if static_id is not None and static_id != member_id:
            self._group.replace_static_member(static_id, member_id, update)
        else:
            self._group.check_members_max(member_id)
            update.select_member(member_id)
        member = consumer_member(member_id, request, request.protocols, subscription)
        update.set_member(member)
        self._group.finish_update(update, subscription.owned, decision, now)
        self._group.cancel_rebalance_timeout(member_id)
        self._group.start_rebalance_timeout(member, now)  # to sync
        return JoinResponse(
            ErrorCode.NONE,
            member_id,
            update.current.epoch,
            CONSUMER_PROTOCOL,
            request.protocols[0].name,
        )

    def _check_offer(self, offer: ClassicMetadata, protocol_type: str, own_id: str) -> None:
        """Refuse protocols that the other classic members do not support, and too large metadata.

        Args:
            offer: the protocols of a join.
            protocol_type: of the join.
            own_id: the member that joins, or that it replaces; it may be new.
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
        """Respond with the assignment that the broker has made."""
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
        self._group.extend_session(member, now)
        current = self._state.current[member.member_id]
        must_revoke = current.state is MemberState.UNREVOKED_PARTITIONS
        if self._state.epoch > current.epoch and not must_revoke:
            self._group.start_rebalance_timeout(member, now)
            raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._group.cancel_rebalance_timeout(member.member_id)
        if must_revoke:  # It joins again after the revocation.
            self._group.start_rebalance_timeout(member, now)
        assignment = assignment_bytes(protocol.metadata, current.assigned, self._topics)
        return SyncResponse(ErrorCode.NONE, assignment, CONSUMER_PROTOCOL, protocol.name)

    # ---- heartbeat and leave ---------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> ErrorCode:
        """Extend a session; REBALANCE_IN_PROGRESS if joining again would change the assignment."""
        try:
            member, _ = self._member(request.member_id, request.instance_id, request.generation)
        except RequestError as error:
            return error.code
        self._group.extend_session(member, now)
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
        self._group.start_rebalance_timeout(member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _can_get_more(self, current: CurrentAssignment, member: ConsumerMember) -> bool:
        """Return whether a partition of the member's target is free now."""
        target = self._state.target.get(member.member_id, NO_PARTITIONS)
        return any(
            self._state.owner(topic, partition) is None
            for topic, partitions in difference(target, current.assigned).items()
            for partition in partitions
        )

    def leave(self, request: LeaveRequest, token: Token, _now: Moment) -> GroupDecision:
        """Remove members that leave, or static members that an administrator removes."""
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

    # ---- identity --------------------------------------------------------------------------------

    def _member(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[ConsumerMember, ClassicMetadata]:
        """Return the member, which must be of the current generation."""
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


def assignment_bytes(subscription: bytes, partitions: Partitions, topics: TopicsView) -> bytes:
    """Encode an assignment in the version of the member's subscription."""
    try:
        version = min(decode_subscription(subscription).version, _NEWEST_ASSIGNMENT)
    except (
        CodecError
    ):  # A member from the log may have a subscription that a join would not accept.
        version = 0
    found = ((topics.by_id(topic_id), numbers) for topic_id, numbers in partitions.items())
    assigned = [
        {"topic": topic.name, "partitions": list(numbers)}
        for topic, numbers in found
        if topic is not None
    ]
    return encode_assignment(version, {"assigned_partitions": assigned})
