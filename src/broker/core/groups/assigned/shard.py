"""The commands to the assigned groups of one coordinator partition.

A group without live members is whatever the next one who joins makes of it (design.md 7), so a join
may find a group of another dialect. What becomes of it waits in `conversions` for its record.
"""

from collections.abc import Callable

from broker.core.groups.assigned.commands import (
    AssignedCall,
    AssignedCommit,
    AssignedCommits,
    AssignedError,
    AssignedJoin,
    AssignedResponse,
    AssignedStatus,
)
from broker.core.groups.assigned.group import AssignedGroup, Outcome
from broker.core.groups.assigned.images import AssignedImage, fits
from broker.core.groups.commands import (
    NO_GENERATION,
    NO_MEMBER_ID,
    CommitRequest,
    GroupDecision,
    OffsetToCommit,
)
from broker.core.groups.conversions import Conversions
from broker.core.groups.group_sizes import GroupMemoryBudget
from broker.core.groups.kinds import Group
from broker.core.groups.offsets import CommittedOffsets
from broker.core.groups.records import OffsetRecord
from broker.core.machine import Decision, Moment, Token
from broker.model.errors import ErrorCode
from broker.model.limits import MEMBER_BYTES

# What forbids somebody who is no member to commit; all else is a live member of the group.
_NOBODYS = {
    ErrorCode.NONE: AssignedError.NONE,
    ErrorCode.INVALID_GROUP_ID: AssignedError.INVALID_NAME,
    ErrorCode.GROUP_MAX_SIZE_REACHED: AssignedError.FULL,
}


class AssignedGroups:
    """Finds the group that a command is for, and gives its answer."""

    def __init__(
        self,
        find: Callable[[str, Moment], Group | None],
        watch: Callable[[Group], None],
        offsets: CommittedOffsets,
        conversions: Conversions,
        commit_error: Callable[[CommitRequest, Moment], ErrorCode],
        budget: GroupMemoryBudget,
    ) -> None:
        """Serve the groups and offsets of a shard, which stay the shard's.

        `commit_error` says why a consumer that is no member may not commit for its group.
        """
        self._find = find
        self._watch = watch
        self._offsets = offsets
        self._conversions = conversions
        self._commit_error = commit_error
        self._budget = budget

    def join(self, request: AssignedJoin, token: Token, now: Moment) -> GroupDecision:
        """A member asks for its part; a group that is not in use becomes one of its family."""
        member_id = f"{request.member_id}-{request.suffix}" if request.suffix else request.member_id
        if not (request.member_id and fits(request.group_id, request.topic, member_id)):
            response = AssignedResponse(AssignedError.INVALID_NAME, request.member_id)
            return Decision((), [(token, response)])
        known = self._find(request.group_id, now)
        if isinstance(known, AssignedGroup) and known.image.protocol is request.protocol:
            is_known = member_id in known.image.members
            if is_known or self._budget.has_bytes(MEMBER_BYTES):
                outcome = known.join(request, now)
            else:
                outcome = Decision(), AssignedResponse(AssignedError.FULL, request.member_id)
        else:
            outcome = self._conversions.assigned_join(request, known, now)
        if known is not None:
            self._watch(known)
        return _answered(outcome, token)

    def sync(self, call: AssignedCall, token: Token, now: Moment) -> GroupDecision:
        """A member is alive, and hears its partitions again."""
        group = self._group(call, now)
        return _answered(_not_found(call) if group is None else group.sync(call, now), token)

    def leave(self, call: AssignedCall, token: Token, now: Moment) -> GroupDecision:
        """A member goes."""
        group = self._group(call, now)
        return _answered(_not_found(call) if group is None else group.leave(call, now), token)

    def commit(self, request: AssignedCommit, token: Token, now: Moment) -> GroupDecision:
        """A member says how far it has read one of its partitions."""
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
            records, [error] = self._offsets.commit(commit, now.wall_ms)
            decision.records += records
            if error is not ErrorCode.NONE:
                response = response._replace(error=AssignedError.OFFSET_REFUSED)
        return _answered((decision, response), token)

    def check(self, call: AssignedCall, token: Token, now: Moment) -> GroupDecision:
        """Whether a member is of this generation, which is no sign of life."""
        group = self._group(call, now)
        return _answered(_not_found(call) if group is None else group.check(call, now), token)

    def commit_all(self, request: AssignedCommits, token: Token, now: Moment) -> GroupDecision:
        """A member, or nobody in particular, commits some partitions together; offsets only rise.

        What is committed already is not written again.
        """
        call = request.call
        group = self._group(call, now)
        if group is not None and group.image.protocol is call.protocol:
            decision, response = group.check_commits(request, now)
        elif request.is_fenced:
            return _answered(_not_found(call), token)
        else:
            decision, response = Decision(), self._check_nobodys(call, now)
        if response.error is AssignedError.NONE:
            records, response = self._raised(request, response, now)
            if request.transaction is not None and records:
                # What else a member's call may write comes with an error: the generation is over.
                assert not decision.records
                decision.transaction = request.transaction
            decision.records += records
        return _answered((decision, response), token)

    def _check_nobodys(self, call: AssignedCall, now: Moment) -> AssignedResponse:
        """Whether somebody who is no member may commit for a group that is no dialect's here."""
        nobodys = CommitRequest(call.group_id, NO_MEMBER_ID, None, NO_GENERATION, ())
        error = self._commit_error(nobodys, now)
        return AssignedResponse(_NOBODYS.get(error, AssignedError.OTHER_PROTOCOL))

    def _raised(
        self, request: AssignedCommits, response: AssignedResponse, now: Moment
    ) -> tuple[list[OffsetRecord], AssignedResponse]:
        topic, group_id = request.call.topic, request.call.group_id
        before = self._offsets.of_group(group_id).get(topic, {})
        offsets = []
        for partition, offset in request.offsets:
            committed = before[partition].offset if partition in before else -1
            if offset < committed:
                return [], response._replace(
                    error=AssignedError.OFFSET_REGRESSION, partition=partition, committed=committed
                )
            # What is pending may be more than what is committed: a transaction says all it wants.
            if offset > committed or request.transaction is not None:
                offsets.append(OffsetToCommit(topic, partition, offset))
        commit = CommitRequest(
            group_id, request.call.member_id, None, NO_GENERATION, tuple(offsets)
        )
        records, errors = self._offsets.commit(commit, now.wall_ms)
        if any(error is not ErrorCode.NONE for error in errors):
            return [], response._replace(error=AssignedError.OFFSET_REFUSED)
        return records, response

    def status(self, call: AssignedCall, token: Token, now: Moment) -> GroupDecision:
        """What a dialect shows of a group of its own."""
        group = self._group(call, now)
        if group is None or group.image.protocol is not call.protocol:
            status = AssignedStatus(AssignedError.GROUP_NOT_FOUND)
        else:
            status = group.status(now)
        return Decision((), [(token, status)])

    def restore(
        self, group_id: str, image: AssignedImage, token: Token, now: Moment
    ) -> GroupDecision:
        """Take a group over as another server has left it, unless it is here or one is in use."""
        known = self._find(group_id, now)
        outcome = self._conversions.restored(group_id, image, known, now)
        return _answered(outcome, token)

    def _group(self, call: AssignedCall, now: Moment) -> AssignedGroup | None:
        group = self._find(call.group_id, now)
        return group if isinstance(group, AssignedGroup) else None


def _not_found(call: AssignedCall) -> Outcome:
    return Decision(), AssignedResponse(AssignedError.GROUP_NOT_FOUND, call.member_id)


def _answered(outcome: Outcome, token: Token) -> GroupDecision:
    decision, response = outcome
    decision.reply(token, response)
    return decision
