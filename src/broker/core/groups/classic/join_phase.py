"""The join phase of a rebalance: it begins, members join, the next generation is complete."""

from collections.abc import Iterable
from typing import NamedTuple

from broker.core.coordination.machine import Moment, Token
from broker.core.groups.classic.rebalance import PendingRebalance, choose_protocol, join_response
from broker.core.groups.classic.state import ClassicGroupState
from broker.core.groups.commands.classic import JoinRequest, JoinResponse, SyncResponse
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.records.classic import GroupImage, GroupRecord
from broker.model.errors import ErrorCode


def begin_rebalance(
    group: ClassicGroupState, reason: str, decision: GroupDecision
) -> PendingRebalance:
    """Begin a rebalance; answer waiting syncs with REBALANCE_IN_PROGRESS."""
    decision.note(
        "group rebalance",
        reason,
        group=group.group_id,
        generation=group.image.generation,
        members=len(group.image.members),
    )
    for token in group.pending_syncs.cancel():
        decision.reply(token, SyncResponse(ErrorCode.REBALANCE_IN_PROGRESS))
    image = group.image
    group.rebalance = PendingRebalance(
        dict(image.members), image.protocol_type, image.leader, is_initial=not image.members
    )
    return group.rebalance


class Join(NamedTuple):
    """A join that is being decided."""

    request: JoinRequest
    token: Token
    now: Moment
    decision: GroupDecision

    def answer(self, response: JoinResponse) -> None:
        """Respond to it."""
        self.decision.reply(self.token, response)


def add_waiting_join(group: ClassicGroupState, join: Join) -> None:
    """Let a join wait for the other members; answer an earlier join of the same member."""
    request, token, now, decision = join
    rebalance = group.rebalance
    assert rebalance is not None
    earlier = rebalance.joined.pop(request.member_id, None)
    if earlier is not None:
        response = JoinResponse(ErrorCode.REBALANCE_IN_PROGRESS, request.member_id)
        decision.reply(earlier, response)
    rebalance.joined[request.member_id] = token
    group.presence.set_protocols(request.member_id, request.protocols)
    if not group.presence[request.member_id].is_new:
        deadline_ms = now.monotonic_ms + request.session_timeout_ms
        group.presence.set_session_deadline(request.member_id, deadline_ms)
    maybe_complete_join(group, decision, now)


def maybe_complete_join(group: ClassicGroupState, decision: GroupDecision, now: Moment) -> None:
    """Complete the join phase if all members have joined, or its deadline has passed."""
    rebalance = group.rebalance
    if rebalance is not None and rebalance.check_complete(
        now.monotonic_ms,
        group.settings.initial_rebalance_delay_ms,
        has_pending_members=bool(group.pending_members),
    ):
        _complete_join(group, rebalance, decision, now)


def _complete_join(
    group: ClassicGroupState, rebalance: PendingRebalance, decision: GroupDecision, now: Moment
) -> None:
    """End the join phase: the members that have joined are the next generation.

    A static member that has not rejoined stays until its session ends (KIP-345).
    """
    absent = [
        member.member_id
        for member in rebalance.members.values()
        if member.member_id not in rebalance.joined and member.instance_id is None
    ]
    for member_id in absent:
        rebalance.remove(member_id)
        group.presence.remove(member_id)
    if absent:
        note_removed(group, absent, "did not join again within the rebalance timeout", decision)
    if rebalance.members and not rebalance.joined:
        rebalance.extend_deadline(now.monotonic_ms)
        return
    if rebalance.leader not in rebalance.joined:
        rebalance.leader = next(iter(rebalance.joined), None)
    image = _next_image(group, rebalance, now)
    rebalance.deadline_ms = None  # The record ends it.
    decision.records.append(GroupRecord(group.group_id, image))
    for member_id, token in rebalance.joined.items():
        decision.reply(token, join_response(image, member_id))
    for member_id, member in rebalance.members.items():
        group.presence[member_id].is_new = False
        group.presence.set_session_deadline(member_id, now.monotonic_ms + member.session_timeout_ms)
    if rebalance.members:
        group.pending_syncs.start(rebalance.members, now.monotonic_ms)


def _next_image(group: ClassicGroupState, rebalance: PendingRebalance, now: Moment) -> GroupImage:
    generation = group.image.generation + 1
    if not rebalance.members:
        return GroupImage(generation, rebalance.protocol_type, state_timestamp_ms=now.wall_ms)
    protocol = choose_protocol(group.presence[each].protocols for each in rebalance.members)
    members = {
        member_id: member.with_assignment(group.presence[member_id].metadata[protocol], b"")
        for member_id, member in rebalance.members.items()
    }
    return GroupImage(
        generation, rebalance.protocol_type, protocol, rebalance.leader, None, members
    )


def remove_members(
    group: ClassicGroupState,
    member_ids: Iterable[str],
    reason: str,
    decision: GroupDecision,
    now: Moment,
) -> None:
    """Remove members, which begins a rebalance or may complete one."""
    rebalance = group.rebalance or begin_rebalance(group, reason, decision)
    for member_id in member_ids:
        token = rebalance.remove(member_id)
        group.presence.remove(member_id)
        if token is not None:
            decision.reply(token, JoinResponse(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
    maybe_complete_join(group, decision, now)


def note_removed(
    group: ClassicGroupState, member_ids: list[str], reason: str, decision: GroupDecision
) -> None:
    """Add a log line about members that are removed."""
    decision.note(
        "group member expired",
        f"{member_names(member_ids)} {reason}",
        group=group.group_id,
        generation=group.image.generation,
    )


def member_names(member_ids: list[str]) -> str:
    """Return members for a log line: the first id, and the number of the others."""
    [first, *others] = member_ids
    return f"member {first} and {len(others)} more" if others else f"member {first}"


def reason_text(reason: str) -> str:
    """Return the reason that a client gave for joining or leaving (KIP-800)."""
    return f": {reason}" if reason else ""
