"""The joins of members to a classic group: new ones, rejoining ones, restarted static members."""

from broker.core.coordination.machine import Decision, Moment, Token
from broker.core.groups.classic.join_phase import (
    Join,
    add_waiting_join,
    begin_rebalance,
    note_removed,
    reason_text,
    remove_members,
)
from broker.core.groups.classic.presence import Presence
from broker.core.groups.classic.rebalance import (
    choose_protocol,
    join_response,
    new_member,
    with_replaced,
)
from broker.core.groups.classic.state import ClassicGroupState
from broker.core.groups.commands.classic import (
    NO_MEMBER_ID,
    GroupState,
    JoinRequest,
    JoinResponse,
    SyncResponse,
)
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.records.classic import GroupRecord
from broker.model import limits
from broker.model.errors import ErrorCode


def join(
    group: ClassicGroupState, request: JoinRequest, token: Token, now: Moment
) -> GroupDecision:
    """Add a member to the next generation; its response may wait for the other members."""
    joining = Join(request, token, now, Decision())
    error = _join_error(group, request)
    if error is ErrorCode.GROUP_MAX_SIZE_REACHED and request.member_id in group.members:
        # The others would wait for this member until the rebalance timeout.
        note_removed(group, [request.member_id], "rejoined a full group", joining.decision)
        remove_members(group, [request.member_id], "the group is full", joining.decision, now)
    if error is not ErrorCode.NONE:
        joining.answer(JoinResponse(error, request.member_id))
    elif request.member_id == NO_MEMBER_ID:
        _join_without_id(group, joining)
    elif request.member_id in group.pending_members:
        group.pending_members.remove(request.member_id)
        _add_member(group, joining)
    else:
        _rejoin(group, joining)
    return joining.decision


def _join_error(group: ClassicGroupState, request: JoinRequest) -> ErrorCode:
    """Return why this member may not join this group, in any state of it."""
    if not _supports(group, request):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.member_id != NO_MEMBER_ID and request.member_id not in group.pending_members:
        error = group.identity_error(request.member_id, request.instance_id)
        if error is not ErrorCode.NONE:
            return error
    return ErrorCode.GROUP_MAX_SIZE_REACHED if _is_full_for(group, request) else ErrorCode.NONE


def _supports(group: ClassicGroupState, request: JoinRequest) -> bool:
    names = [protocol.name for protocol in request.protocols]
    if not request.protocol_type or not 0 < len(names) <= limits.GROUP_PROTOCOLS_PER_MEMBER_MAX:
        return False
    joining_id = group.joining_id(request)
    if not group.presence.has_others(joining_id):
        return True
    is_expected = request.protocol_type == group.protocol_type
    return is_expected and group.presence.supports(names, excluding=joining_id)


def _is_full_for(group: ClassicGroupState, request: JoinRequest) -> bool:
    joining_id = group.joining_id(request)
    size_bytes = sum(protocol.size for protocol in request.protocols)
    size_bytes += group.presence.metadata_bytes_without(joining_id)
    if size_bytes > group.settings.metadata_bytes_max:
        return True
    # In a rebalance, members that have not rejoined are not counted: they may never do so.
    present = group.members if group.rebalance is None else group.rebalance.joined
    return joining_id not in present and len(present) >= group.settings.members_max


def _join_without_id(group: ClassicGroupState, join: Join) -> None:
    """Join a member without an id; a static one may be a restarted instance."""
    request = join.request
    member_id = request.fresh_member_id
    named = join._replace(request=request._replace(member_id=member_id))
    if request.instance_id is not None:
        old_id = group.presence.static_member_id(request.instance_id)
        if old_id is None:
            _add_member(group, named)
        else:
            _replace_static_member(group, old_id, named)
    elif not request.requires_member_id:
        _add_member(group, named)
    elif len(group.pending_members) >= limits.PENDING_MEMBERS_PER_GROUP_MAX:
        join.answer(JoinResponse(ErrorCode.GROUP_MAX_SIZE_REACHED))
    else:  # KIP-394: a client that gives up between the two joins leaves no member behind.
        group.pending_members.set(member_id, join.now.monotonic_ms + request.session_timeout_ms)
        join.answer(JoinResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id))


def _rejoin(group: ClassicGroupState, join: Join) -> None:
    """Join a current member again: a rebalance, unless nothing has changed."""
    request = join.request
    is_unchanged = group.presence[request.member_id].protocols == request.protocols
    is_leader = request.member_id == group.image.leader
    state = group.state
    if (is_unchanged and not group.was_consumer_group) and (
        state is GroupState.COMPLETING_REBALANCE or (state is GroupState.STABLE and not is_leader)
    ):
        group.extend_session(request.member_id, join.now)
        join.answer(join_response(group.image, request.member_id))
        return
    what = "joined again" if is_unchanged else "changed its subscription or protocols"
    who = "leader" if is_leader else "member"
    reason = f"{who} {request.member_id} {what}{reason_text(request.reason)}"
    rebalance = group.rebalance or begin_rebalance(group, reason, join.decision)
    rebalance.members[request.member_id] = new_member(request)
    add_waiting_join(group, join)


def _add_member(group: ClassicGroupState, join: Join) -> None:
    """Add a new member."""
    request = join.request
    reason = f"member {request.member_id} joined{reason_text(request.reason)}"
    rebalance = group.rebalance or begin_rebalance(group, reason, join.decision)
    rebalance.add(new_member(request), request.protocol_type)
    deadline_ms = join.now.monotonic_ms + limits.NEW_MEMBER_JOIN_TIMEOUT_MS
    group.presence.add(
        request.member_id,
        Presence(request.instance_id, request.protocols, deadline_ms, is_new=True),
    )
    add_waiting_join(group, join)


def _replace_static_member(group: ClassicGroupState, old_id: str, join: Join) -> None:
    """Give a restarted instance its old place under a new id; fence the old id (KIP-345)."""
    request = join.request
    _fence(group, old_id, join)
    if (
        group.state is GroupState.STABLE
        and _protocol_after_replacement(group, old_id, request) == group.image.protocol
    ):
        _replace_without_rebalance(group, old_id, join)
        return
    group.presence.add(request.member_id, group.presence.remove(old_id))
    reason = f"static member {request.member_id} rejoined and needs a new assignment"
    rebalance = group.rebalance or begin_rebalance(group, reason, join.decision)
    rebalance.replace(old_id, new_member(request))
    add_waiting_join(group, join)


def _protocol_after_replacement(group: ClassicGroupState, old_id: str, request: JoinRequest) -> str:
    """Return the protocol that would be chosen if the request replaced the old member."""
    return choose_protocol(
        request.protocols if each == old_id else group.presence[each].protocols
        for each in group.image.members
    )


def _replace_without_rebalance(group: ClassicGroupState, old_id: str, join: Join) -> None:
    """Give the new id the old assignment, without a rebalance.

    A client without `skip_assignment` (KIP-814) gets the old leader's id as leader, so that it
    does not compute an assignment that would not be used.
    """
    request = join.request
    deadline_ms = join.now.monotonic_ms + request.session_timeout_ms
    presence = Presence(request.instance_id, request.protocols, deadline_ms)
    member = new_member(request).with_assignment(
        presence.metadata.get(group.image.protocol or "", b""),
        group.image.members[old_id].assignment,
    )
    is_leader = group.image.leader == old_id
    image = group.image._replace(
        leader=member.member_id if is_leader else group.image.leader,
        members=with_replaced(group.image.members, old_id, member),
    )
    group.presence.remove(old_id)
    group.presence.add(member.member_id, presence)
    group.pending_syncs.mark_received(old_id)
    join.decision.records.append(GroupRecord(group.group_id, image))
    response = join_response(image, member.member_id)
    if is_leader and request.supports_skip_assignment:
        response = response._replace(skip_assignment=True)
    elif is_leader:
        response = response._replace(leader=old_id, members=())
    join.answer(response)


def _fence(group: ClassicGroupState, member_id: str, by: Join) -> None:
    """Note the replacement; answer waiting requests of the old id with FENCED_INSTANCE_ID."""
    decision = by.decision
    decision.note(
        "group member fenced",
        f"another process joined with its instance id{reason_text(by.request.reason)}",
        group=group.group_id,
        instance=by.request.instance_id,
        member=member_id,
        successor=by.request.member_id,
    )
    joining = None if group.rebalance is None else group.rebalance.joined.pop(member_id, None)
    if joining is not None:
        decision.reply(joining, JoinResponse(ErrorCode.FENCED_INSTANCE_ID, member_id))
    syncing = group.pending_syncs.waiting.pop(member_id, None)
    if syncing is not None:
        decision.reply(syncing, SyncResponse(ErrorCode.FENCED_INSTANCE_ID))
