"""A whole group changes its protocol while members are live: up and down, each in one batch.

Up: the first member of the consumer protocol finds a classic group. What its members have been
assigned, or say that they own, is what they have; they join again and go on from there.
Down: the last member of the consumer protocol has left, or its instance goes on as a classic one.
Who is left is a classic group that has not been assigned yet, so that a rebalance follows, also
when the broker stops just then.
"""

from collections.abc import Mapping

from broker.codec.coordinator_records import decode_assignment
from broker.core.groups.classic import ClassicGroup
from broker.core.groups.commands import GroupDecision, GroupProtocol
from broker.core.groups.consumer.classic_members import (
    Subscription,
    assignment_bytes,
    by_id,
    subscription_in,
)
from broker.core.groups.consumer.commands import ConsumerSettings
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.consumer.membership import Membership
from broker.core.groups.consumer.reconcile import difference, union
from broker.core.groups.consumer.records import (
    NO_PARTITIONS,
    ClassicMetadata,
    ClassicProtocol,
    ConsumerEpochRecord,
    ConsumerMember,
    ConsumerMemberRecord,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    MemberState,
    Partitions,
    TargetEpochRecord,
    TargetRecord,
)
from broker.core.groups.consumer.subscriptions import SeenTopics
from broker.core.groups.joining import choose_protocol, metadata_of
from broker.core.groups.records import GroupImage, GroupRecord, Member, Record
from broker.core.groups.subscription import CONSUMER_PROTOCOL
from broker.model.errors import CodecError, ErrorCode, RequestError

# The assignors that clients bring along. They do without the data that an assignment may carry
# beside partitions: librdkafka repeats in it what the member has said itself. Others, like that of
# Kafka Streams, cannot.
_OWN_ASSIGNORS = frozenset(("range", "roundrobin", "sticky", "cooperative-sticky"))


# ---- up ------------------------------------------------------------------------------------------


def upgrade_records(
    group: ClassicGroup, settings: ConsumerSettings, topics: SeenTopics
) -> list[ConsumerRecord]:
    """The records that make a classic group a consumer group.

    Raises:
        RequestError: it cannot become one.
    """
    if not settings.migration.allows_upgrade:
        raise _impossible("groups are not upgraded here (group.consumer.migration.policy)")
    if group.listing().protocol_type != CONSUMER_PROTOCOL:
        raise _impossible("its members do not speak the consumer protocol")
    if len(group.members) >= settings.members_max:
        raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the group has too many members")
    group_id, epoch = group.group_id, max(group.image.generation, 1)
    found: list[tuple[Member, ConsumerMember, Partitions, Partitions]] = []
    taken: Partitions = NO_PARTITIONS
    for member, protocols, offer_tells in group.offers():
        try:
            subscription = subscription_in(protocols, topics)
            said = subscription.owned if offer_tells else _assigned(group, member, topics)
        except CodecError as error:
            raise _impossible(f"what member {member.member_id} says cannot be read") from error
        has = difference(said, taken)
        taken = union(taken, has)
        upgraded = _upgraded(member, protocols, subscription)
        found.append((member, upgraded, has, subscription.owned))
    records: list[ConsumerRecord] = []
    for member, upgraded, has, owned in found:
        # A cooperative member may not have given back yet what it was not assigned again.
        revoking = difference(owned, taken)
        taken = union(taken, revoking)
        state = MemberState.UNREVOKED_PARTITIONS if revoking else MemberState.STABLE
        records += [
            ConsumerMemberRecord(group_id, member.member_id, upgraded),
            TargetRecord(group_id, member.member_id, has),
            CurrentRecord(
                group_id,
                member.member_id,
                CurrentAssignment(epoch, epoch, state, has, revoking),
            ),
        ]
    return [*records, TargetEpochRecord(group_id, epoch), ConsumerEpochRecord(group_id, epoch)]


def _assigned(group: ClassicGroup, member: Member, topics: SeenTopics) -> Partitions:
    embedded = decode_assignment(member.assignment)
    if embedded is None:
        return NO_PARTITIONS
    if embedded.body["user_data"] and group.image.protocol not in _OWN_ASSIGNORS:
        raise _impossible("its assignor gives members data that would be lost")
    assigned = embedded.body["assigned_partitions"]
    return by_id({each["topic"]: each["partitions"] for each in assigned}, topics)


def _upgraded(
    member: Member, protocols: tuple[GroupProtocol, ...], subscription: Subscription
) -> ConsumerMember:
    offered = tuple(ClassicProtocol(each.name, each.metadata) for each in protocols)
    return ConsumerMember(
        member.member_id,
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        subscription.topic_names,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(member.session_timeout_ms, offered),
    )


def _impossible(message: str) -> RequestError:
    return RequestError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"the classic group cannot be upgraded: {message}"
    )


# ---- down ----------------------------------------------------------------------------------------


def downgraded(
    group: ConsumerGroup, decision: GroupDecision, settings: ConsumerSettings, topics: SeenTopics
) -> list[Record] | None:
    """The records of a group that only classic members are left in; None if it is not so.

    Args:
        group: as it was.
        decision: by which members leave it, or others take their place.
        settings: what an operator may move.
        topics: that it can be subscribed to.
    """
    state = group.state
    changed = {
        record.member_id: record.member
        for record in decision.records
        if isinstance(record, ConsumerMemberRecord)
    }
    if not (_loses_last(state, changed) and settings.migration.allows_downgrade):
        return None
    members = {**state.members, **changed}
    left = {each: member for each, member in members.items() if member is not None}
    if not left:
        return None
    current = dict(state.current)
    for record in decision.records:
        if isinstance(record, CurrentRecord) and record.current is not None:
            current[record.member_id] = record.current
    # Nobody may have been told of a later generation than the group is of.
    generation = max(state.epoch, *(current[each].epoch for each in left))
    image = _image(generation, left, current, topics)
    return [*state.removals(), GroupRecord(group.group_id, image)]


def _loses_last(state: Membership, changed: Mapping[str, ConsumerMember | None]) -> bool:
    """Whether nobody of the consumer protocol will be left, where there was somebody."""
    before = len(state.members) - state.classic_count
    change = sum(
        _counts(member) - _counts(state.members.get(member_id))
        for member_id, member in changed.items()
    )
    return before > 0 and before + change == 0


def _counts(member: ConsumerMember | None) -> bool:
    return member is not None and member.classic is None


def _image(
    generation: int,
    members: Mapping[str, ConsumerMember],
    current: Mapping[str, CurrentAssignment],
    topics: SeenTopics,
) -> GroupImage:
    offers = {
        each: tuple(GroupProtocol(*protocol) for protocol in member.classic.protocols)
        for each, member in members.items()
        if member.classic is not None
    }
    protocol = choose_protocol(offers.values())
    classic = {}
    for member_id, member in members.items():
        assert member.classic is not None
        metadata = metadata_of(offers[member_id], protocol)
        # Nobody is told of this assignment: it is what the member has, or may still have.
        has = union(current[member_id].assigned, current[member_id].revoking)
        classic[member_id] = Member(
            member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.classic.session_timeout_ms,
            metadata,
            assignment_bytes(metadata, has, topics),
        )
    return GroupImage(generation, CONSUMER_PROTOCOL, protocol, next(iter(classic)), None, classic)
