"""Routes commands to the assigned groups of one coordinator partition.

A group without live members gets the type of the next member that joins, so a join may find a group
of another type or protocol. `conversions` keeps the new group until its record is replayed.
"""

from collections.abc import Callable
from typing import NamedTuple

from broker.core.coordination.machine import Decision, Moment, Token
from broker.core.groups.assigned.group import AssignedGroup, Outcome
from broker.core.groups.assigned.images import AssignedImage, fits
from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommit,
    AssignedCommits,
    AssignedError,
    AssignedJoin,
    AssignedResponse,
    AssignedStatus,
)
from broker.core.groups.commands.classic import NO_GENERATION, NO_MEMBER_ID
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.commands.offsets import CommitRequest, OffsetToCommit
from broker.core.groups.memory import GroupMemoryBudget
from broker.core.groups.offsets.committed import CommittedOffsets
from broker.core.groups.partition.conversions import Conversions
from broker.core.groups.partition.group_types import Group
from broker.core.groups.records.offsets import OffsetRecord
from broker.model.errors import ErrorCode
from broker.model.limits import MEMBER_BYTES

# Errors of a commit without membership; any other means that the group has live members.
_NON_MEMBER_ERRORS = {
    ErrorCode.NONE: AssignedError.NONE,
    ErrorCode.INVALID_GROUP_ID: AssignedError.INVALID_NAME,
    ErrorCode.GROUP_MAX_SIZE_REACHED: AssignedError.FULL,
}


class AssignedGroups(NamedTuple):
    """Finds the group that a command is for, and adds its response to the decision.

    Attributes:
        find: returns a group of the shard by name, as of this time.
        watch: schedules the next deadline of a group.
        offsets: those of the shard.
        conversions: those of the shard.
        commit_error: returns why a consumer without membership may not commit for a group.
        memory_budget: of all groups of the broker.
    """

    find: Callable[[str, Moment], Group | None]
    watch: Callable[[Group], None]
    offsets: CommittedOffsets
    conversions: Conversions
    commit_error: Callable[[CommitRequest, Moment], ErrorCode]
    memory_budget: GroupMemoryBudget

    def assigned_group_join(
        self, request: AssignedJoin, token: Token, now: Moment
    ) -> GroupDecision:
        """Join a member; a group without live members becomes a group of its protocol."""
        member_id = f"{request.member_id}-{request.suffix}" if request.suffix else request.member_id
        if not (request.member_id and fits(request.group_id, request.topic, member_id)):
            response = AssignedResponse(AssignedError.INVALID_NAME, request.member_id)
            return Decision((), [(token, response)])
        known = self.find(request.group_id, now)
        if isinstance(known, AssignedGroup) and known.image.protocol is request.protocol:
            is_known = member_id in known.image.members
            if is_known or self.memory_budget.allows_bytes(MEMBER_BYTES):
                outcome = known.join_to_assigned_group(request, now)
            else:
                outcome = Decision(), AssignedResponse(AssignedError.FULL, request.member_id)
        else:
            outcome = self.conversions.convert_to_assigned_on_join(request, known, now)
        if known is not None:
            self.watch(known)
        return _answered(outcome, token)

    def sync(self, call: AssignedCall, token: Token, now: Moment) -> GroupDecision:
        """Extend a member's session and return its partitions."""
        group = self._group(call, now)
        return _answered(_not_found(call) if group is None else group.sync(call, now), token)

    def leave(self, call: AssignedCall, token: Token, now: Moment) -> GroupDecision:
        """Remove a member."""
        group = self._group(call, now)
        return _answered(_not_found(call) if group is None else group.leave(call, now), token)

    def commit(self, request: AssignedCommit, token: Token, now: Moment) -> GroupDecision:
        """Commit a member's offset of one of its partitions."""
        call = request.call
        group = self._group(call, now)
        if group is None:
            return _answered(_not_found(call), token)
        decision, response = group.check_commit(request, now)
        if response.error is AssignedError.NONE:
            offset = OffsetToCommit(
                call.topic, request.partition, request.offset, metadata=request.metadata
            )
            commit = CommitRequest(call.group_id, call.member_id, None, NO_GENERATION, (offset,))
            records, [error] = self.offsets.commit(commit, now.wall_ms)
            decision.records += records
            if error is not ErrorCode.NONE:
                response = response._replace(error=AssignedError.OFFSET_REFUSED)
        return _answered((decision, response), token)

    def check(self, call: AssignedCall, token: Token, now: Moment) -> GroupDecision:
        """Check that a member is of this generation, without extending its session."""
        group = self._group(call, now)
        return _answered(_not_found(call) if group is None else group.check(call, now), token)

    def commit_all(self, request: AssignedCommits, token: Token, now: Moment) -> GroupDecision:
        """Commit offsets of several partitions, all or none; offsets may not decrease.

        An offset that equals the committed one is not written again.
        """
        call = request.call
        group = self._group(call, now)
        if group is not None and group.image.protocol is call.protocol:
            decision, response = group.check_commits(request, now)
        elif request.is_from_member:
            return _answered(_not_found(call), token)
        else:
            decision, response = Decision(), self._check_non_member(call, now)
        if response.error is AssignedError.NONE:
            records, response = self._records_of_rising_offsets(request, response, now)
            if request.transaction is not None and records:
                # A call that writes a group record has an error, as it ends the generation.
                assert not decision.records
                decision.transaction = request.transaction
            decision.records += records
        return _answered((decision, response), token)

    def _check_non_member(self, call: AssignedCall, now: Moment) -> AssignedResponse:
        """Check a commit without membership for a group that is not of this protocol."""
        request = CommitRequest(call.group_id, NO_MEMBER_ID, None, NO_GENERATION, ())
        error = self.commit_error(request, now)
        return AssignedResponse(_NON_MEMBER_ERRORS.get(error, AssignedError.OTHER_PROTOCOL))

    def _records_of_rising_offsets(
        self, request: AssignedCommits, response: AssignedResponse, now: Moment
    ) -> tuple[list[OffsetRecord], AssignedResponse]:
        topic, group_id = request.call.topic, request.call.group_id
        before = self.offsets.of_group(group_id).get(topic, {})
        offsets = []
        for partition, offset in request.offsets:
            committed = before[partition].offset if partition in before else -1
            if offset < committed:
                return [], response._replace(
                    error=AssignedError.OFFSET_REGRESSION, partition=partition, committed=committed
                )
            # A pending offset may be higher than the committed one: write it in a transaction
            # anyway.
            if offset > committed or request.transaction is not None:
                offsets.append(OffsetToCommit(topic, partition, offset))
        commit = CommitRequest(
            group_id, request.call.member_id, None, NO_GENERATION, tuple(offsets)
        )
        records, errors = self.offsets.commit(commit, now.wall_ms)
        if any(error is not ErrorCode.NONE for error in errors):
            return [], response._replace(error=AssignedError.OFFSET_REFUSED)
        return records, response

    def status(self, call: AssignedCall, token: Token, now: Moment) -> GroupDecision:
        """Return the status of a group of the call's protocol."""
        group = self._group(call, now)
        if group is None or group.image.protocol is not call.protocol:
            status = AssignedStatus(AssignedError.GROUP_NOT_FOUND)
        else:
            status = group.status(now)
        return Decision((), [(token, status)])

    def restore(
        self, group_id: str, image: AssignedImage, token: Token, now: Moment
    ) -> GroupDecision:
        """Create a group from the state of another server, unless it exists or is in use."""
        known = self.find(group_id, now)
        outcome = self.conversions.restore_assigned_group(group_id, image, known, now)
        return _answered(outcome, token)

    def _group(self, call: AssignedCall, now: Moment) -> AssignedGroup | None:
        group = self.find(call.group_id, now)
        return group if isinstance(group, AssignedGroup) else None


def _not_found(call: AssignedCall) -> Outcome:
    return Decision(), AssignedResponse(AssignedError.GROUP_NOT_FOUND, call.member_id)


def _answered(outcome: Outcome, token: Token) -> GroupDecision:
    decision, response = outcome
    decision.reply(token, response)
    return decision
