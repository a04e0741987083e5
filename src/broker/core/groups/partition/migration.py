"""Conversion of a group with live members between the classic and the consumer protocol.

Upgrade: the first member of the consumer protocol joins a classic group. Its members keep the
partitions that they have been assigned, or state to own; they join again and continue with these.

Downgrade: the last member of the consumer protocol leaves, or is replaced by a classic member. The
others become a classic group without assignments, so that a rebalance follows, even if the broker
stops at that moment.

Each conversion is one batch of records.
"""

from collections.abc import Mapping

from broker.codec.coordinator_records import decode_assignment
from broker.core.groups.classic.group import ClassicGroup
from broker.core.groups.classic.rebalance import choose_protocol, metadata_of
from broker.core.groups.commands.classic import GroupProtocol
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.consumer.classic_members import (
    assignment_bytes,
    by_id,
    consumer_member,
    subscription_in,
)
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.consumer.membership import Membership
from broker.core.groups.consumer.reconcile import difference, union
from broker.core.groups.consumer.subscriptions import TopicsView
from broker.core.groups.records.classic import CONSUMER_PROTOCOL, GroupImage, GroupRecord, Member
from broker.core.groups.records.consumer import (
    NO_PARTITIONS,
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
from broker.core.groups.records.encoding import Record
from broker.core.groups.settings import ConsumerSettings
from broker.model.errors import CodecError, ErrorCode, RequestError

# The assignors of common clients. They do not need the user data of an assignment: librdkafka
# copies the member's own user data into it. Others, like that of Kafka Streams, need it.
_OWN_ASSIGNORS = frozenset(("range", "roundrobin", "sticky", "cooperative-sticky"))


# ---- upgrade -------------------------------------------------------------------------------------


def upgrade_records(
    group: ClassicGroup, settings: ConsumerSettings, topics: TopicsView
) -> list[ConsumerRecord]:
    """Return the records that make a classic group a consumer group.

    Raises:
        RequestError: it cannot be converted.
    """
    if not settings.migration.allows_upgrade:
        raise _impossible("groups are not upgraded here (group.consumer.migration.policy)")
    if group.protocol_type != CONSUMER_PROTOCOL:
        raise _impossible("its members do not speak the consumer protocol")
    if len(group.members) >= settings.members_max:
        raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the group has too many members")
    group_id, epoch = group.group_id, max(group.image.generation, 1)
    found: list[tuple[Member, ConsumerMember, Partitions, Partitions]] = []
    taken: Partitions = NO_PARTITIONS
    for member, protocols, owns_offered in group.members_with_protocols():
        try:
            subscription = subscription_in(protocols, topics)
            said = subscription.owned if owns_offered else _assigned(group, member, topics)
        except CodecError as error:
            raise _impossible(
                f"the metadata of member {member.member_id} cannot be read"
            ) from error
        has = difference(said, taken)
        taken = union(taken, has)
        upgraded = consumer_member(member.member_id, member, protocols, subscription)
        found.append((member, upgraded, has, subscription.owned))
    records: list[ConsumerRecord] = []
    for member, upgraded, has, owned in found:
        # A cooperative member may still own partitions that it was not assigned again.
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


def _assigned(group: ClassicGroup, member: Member, topics: TopicsView) -> Partitions:
    embedded = decode_assignment(member.assignment)
    if embedded is None:
        return NO_PARTITIONS
    if embedded.body["user_data"] and group.image.protocol not in _OWN_ASSIGNORS:
        raise _impossible("its assignor gives members data that would be lost")
    assigned = embedded.body["assigned_partitions"]
    return by_id({each["topic"]: each["partitions"] for each in assigned}, topics)


def _impossible(message: str) -> RequestError:
    return RequestError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"the classic group cannot be upgraded: {message}"
    )


# ---- downgrade -----------------------------------------------------------------------------------


def downgrade_records(
    group: ConsumerGroup, decision: GroupDecision, settings: ConsumerSettings, topics: TopicsView
) -> list[Record] | None:
    """Return the records of a downgrade if only classic members are left; None: it is not due.

    Args:
        group: before the decision.
        decision: that removes or replaces members.
        settings: with the migration policy.
        topics: that exist.
    """
    state = group.state
    changed = {
        record.member_id: record.member
        for record in decision.records
        if isinstance(record, ConsumerMemberRecord)
    }
    if not (_loses_last_consumer_member(state, changed) and settings.migration.allows_downgrade):
        return None
    members = {**state.members, **changed}
    left = {each: member for each, member in members.items() if member is not None}
    if not left:
        return None
    current = dict(state.current)
    for record in decision.records:
        if isinstance(record, CurrentRecord) and record.current is not None:
            current[record.member_id] = record.current
    # The generation must not be lower than the epoch of any member.
    generation = max(state.epoch, *(current[each].epoch for each in left))
    image = _image(generation, left, current, topics)
    return [*state.removals(), GroupRecord(group.group_id, image)]


def _loses_last_consumer_member(
    state: Membership, changed: Mapping[str, ConsumerMember | None]
) -> bool:
    """Return whether the last member of the consumer protocol leaves."""
    before = len(state.members) - state.classic_count
    change = sum(
        _is_consumer_member(member) - _is_consumer_member(state.members.get(member_id))
        for member_id, member in changed.items()
    )
    return before > 0 and before + change == 0


def _is_consumer_member(member: ConsumerMember | None) -> bool:
    return member is not None and member.classic is None


def _image(
    generation: int,
    members: Mapping[str, ConsumerMember],
    current: Mapping[str, CurrentAssignment],
    topics: TopicsView,
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
        # This assignment is not sent to the member: it records what the member may still own.
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
