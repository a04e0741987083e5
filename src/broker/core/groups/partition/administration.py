"""Requests over many groups or many offsets: lists, fetches, deletions, expiry.

Expiry follows KIP-211. The work is done in steps, each over a few groups and offsets; the driver
serves other requests between two steps. The records of one decision must be replayed before the
next decision is requested, because each step reads the state again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from broker.core.coordination.machine import Decision, Moment, Token
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.commands.listing import ListGroupsRequest, ListGroupsResponse
from broker.core.groups.commands.offsets import (
    DeleteOffsetsRequest,
    DeleteOffsetsResponse,
    FetchOffsetsRequest,
    FetchOffsetsResponse,
)
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.offsets.committed import CommittedOffsets
from broker.core.groups.partition.group_types import Group
from broker.core.groups.records.offsets import CommittedOffset, OffsetRecord
from broker.core.groups.settings import GroupSettings
from broker.model import limits
from broker.model.errors import ErrorCode

# The cost of one fetch step, in decisions: looking an offset up is cheaper than writing a record.
_FETCH_WEIGHT = limits.OFFSETS_FETCHED_PER_STEP // (4 * limits.COORDINATOR_DECISION_RECORDS)
# The number of offsets examined, and the records that remove the expired ones of them.
_Part: TypeAlias = tuple[int, list[OffsetRecord]]


class Administration:
    """Administrative requests to the groups and offsets of one coordinator partition."""

    def __init__(
        self,
        groups: Mapping[str, Group],
        offsets: CommittedOffsets,
        settings: GroupSettings,
    ) -> None:
        """Read the groups and offsets that a shard owns."""
        self._groups = groups
        self._offsets = offsets
        self._settings = settings

    # ---- lists and fetches -----------------------------------------------------------------------

    def list_groups(self, request: ListGroupsRequest, token: Token) -> Iterator[GroupDecision]:
        """Respond with the groups that pass the filters."""
        listed = []
        for place, group_id in enumerate(list(self._groups), 1):
            if place % limits.GROUPS_LISTED_PER_STEP == 0:
                yield Decision()
            group = self._groups.get(group_id)
            if group is None:
                continue
            listing = group.listing()
            has_state = not request.states or listing.state.lower() in request.states
            if has_state and (not request.types or listing.group_type in request.types):
                listed.append(listing)
        yield Decision((), [(token, ListGroupsResponse(ErrorCode.NONE, tuple(listed)))])

    def fetch_offsets(self, request: FetchOffsetsRequest, token: Token) -> Iterator[GroupDecision]:
        """Respond with committed offsets of more partitions than one step covers.

        Each offset is read in its step; a member that leaves meanwhile still gets a response.
        """
        error = fetch_error(self._groups.get(request.group_id), request)
        if error is not ErrorCode.NONE:
            yield Decision((), [(token, FetchOffsetsResponse(error))])
            return
        found: dict[str, dict[int, CommittedOffset | None]] = {}
        unstable: set[tuple[str, int]] = set()
        looked_at = 0
        for topic, part in self._fetched(request):
            wanted = {topic: part}
            fetched = self._offsets.fetch(request._replace(topics=wanted))[topic]
            if request.topics is None:  # without offsets that were removed meanwhile
                fetched = {each: offset for each, offset in fetched.items() if offset is not None}
            found.setdefault(topic, {}).update(fetched)
            if request.requires_stable:
                unstable.update(self._offsets.unstable(request.group_id, wanted))
            looked_at += 1 + len(part)
            if looked_at >= limits.OFFSETS_FETCHED_PER_STEP:
                yield Decision(weight=_FETCH_WEIGHT)
                looked_at = 0
        yield Decision((), [(token, FetchOffsetsResponse(ErrorCode.NONE, found, unstable))])

    def _fetched(self, request: FetchOffsetsRequest) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the requested partitions in parts of one step; one empty part if there are none."""
        topics: Mapping[str, Iterable[int]] | None = request.topics
        if topics is None:
            topics = self._offsets.of_group(request.group_id)
        for topic, partitions in list(topics.items()):
            numbers = tuple(partitions)
            for first in range(0, max(len(numbers), 1), limits.OFFSETS_FETCHED_PER_STEP):
                yield topic, numbers[first : first + limits.OFFSETS_FETCHED_PER_STEP]

    # ---- deleting --------------------------------------------------------------------------------

    def delete_group(self, group_id: str, token: Token) -> Iterator[GroupDecision]:
        """Delete a group without members, and all its offsets."""
        is_last = False
        while not is_last:
            group = self._groups.get(group_id)
            error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.deletion_error()
            if group is None or error is not ErrorCode.NONE:
                yield Decision((), [(token, error)])
                return
            removals = list(
                islice(self._offsets.removals_of_group(group_id), limits.REMOVALS_PER_STEP + 1)
            )
            is_last = len(removals) <= limits.REMOVALS_PER_STEP
            decision: GroupDecision = Decision(removals[: limits.REMOVALS_PER_STEP])
            if is_last:
                decision.records += group.tombstones()
                decision.note("group deleted", "an administrator asked for it", group=group_id)
                decision.reply(token, ErrorCode.NONE)
            yield decision

    def delete_offsets(
        self, request: DeleteOffsetsRequest, token: Token
    ) -> Iterator[GroupDecision]:
        """Delete a group's offsets of partitions that none of its members is subscribed to."""
        group = self._groups.get(request.group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.offset_deletion_error()
        errors: dict[str, ErrorCode] = {}
        if error is ErrorCode.NONE:
            yield from _gathered(self._unread(request, errors))
        yield Decision((), [(token, DeleteOffsetsResponse(error, errors))])

    def _unread(
        self, request: DeleteOffsetsRequest, errors: dict[str, ErrorCode]
    ) -> Iterator[_Part]:
        """Yield removals, part by part, and fill in each topic's error."""
        for topic, partitions in request.topics.items():
            errors[topic] = ErrorCode.NONE
            for part in _parts(partitions):
                group = self._groups.get(request.group_id)  # None: removed with its last offset.
                if group is not None and group.subscribes_to(topic):
                    errors[topic] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                    break
                yield (
                    1 + len(part),
                    self._offsets.removals(request.group_id, topic, dict.fromkeys(part)),
                )

    def forget_topic(self, topic: str, deleted_ms: int) -> Iterator[GroupDecision]:
        """Delete every group's offsets of a topic that was deleted at that wall time.

        Offsets that were committed later belong to a new topic of that name. This may run long
        after the deletion, and again after a load.
        """
        return _gathered(
            (1 + len(part), self._offsets.removals_until(group_id, topic, part, deleted_ms))
            for group_id in self._offsets.groups()
            for part in _parts(self._offsets.partitions(group_id, topic))
        )

    # ---- expiry ----------------------------------------------------------------------------------

    def expire(self, now: Moment) -> Iterator[GroupDecision]:
        """Remove expired offsets, and groups without members and offsets.

        An offset's retention begins when its group became empty; without membership, or for a topic
        that no member is subscribed to, it begins at the commit. Clients before OffsetCommit v5 may
        have set an expiry time of their own.
        """
        for group_id in list(self._groups):
            expired = 0
            for decision in self._expire_offsets(group_id, now):
                expired += len(decision.records)
                yield decision
            yield self._end_of_expiry(group_id, expired, now)

    def _expire_offsets(self, group_id: str, now: Moment) -> Iterator[GroupDecision]:
        for topic in list(self._offsets.of_group(group_id)):
            partitions = list(self._offsets.of_group(group_id).get(topic, {}))
            for first in range(0, len(partitions), limits.REMOVALS_PER_STEP):
                part = partitions[first : first + limits.REMOVALS_PER_STEP]
                yield Decision(self._expired(group_id, topic, part, now))

    def _expired(
        self, group_id: str, topic: str, partitions: list[int], now: Moment
    ) -> list[OffsetRecord]:
        group = self._groups.get(group_id)
        start_ms = None if group is None else group.retention_start_ms(topic)
        if start_ms is None:
            return []
        committed = self._offsets.of_group(group_id).get(topic, {})
        expired = [
            each
            for each in partitions
            if each in committed
            and not self._offsets.has_pending(group_id, topic, each)
            and self._is_expired(committed[each], start_ms, now)
        ]
        return self._offsets.removals(group_id, topic, expired)

    def _is_expired(self, committed: CommittedOffset, start_ms: int, now: Moment) -> bool:
        if committed.expire_timestamp_ms is not None:
            return now.wall_ms >= committed.expire_timestamp_ms
        age_ms = now.wall_ms - max(committed.commit_timestamp_ms, start_ms)
        return age_ms >= self._settings.offsets_retention_ms

    def _end_of_expiry(self, group_id: str, expired: int, now: Moment) -> GroupDecision:
        """Note the expired offsets of a group; end the group if it has no offset left."""
        decision: GroupDecision = Decision()
        if expired:
            decision.note(
                "group offsets expired",
                "older than their retention, and no member is subscribed to them",
                group=group_id,
                offsets=expired,
            )
        group = self._groups.get(group_id)
        if group is None or not group.is_idle or self._offsets.has_any(group_id):
            return decision
        start_ms = (
            group.retention_start_ms("") or 0
        )  # "" is no topic: no member is subscribed to it
        if group.is_stored and now.wall_ms - start_ms >= self._settings.offsets_retention_ms:
            decision.records += group.tombstones()
            decision.note("group expired", "it has neither members nor offsets", group=group_id)
        return decision


def fetch_error(group: Group | None, request: FetchOffsetsRequest) -> ErrorCode:
    """Return why the caller may not read a group's offsets; NONE if there is no such group."""
    if isinstance(group, ConsumerGroup):
        return group.fetch_error(request.member_id, request.member_epoch)
    return ErrorCode.NONE


def _parts(partitions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield partitions in parts of one step; one empty part if there are none."""
    for first in range(0, max(len(partitions), 1), limits.REMOVALS_PER_STEP):
        yield partitions[first : first + limits.REMOVALS_PER_STEP]


def _gathered(parts: Iterable[_Part]) -> Iterator[GroupDecision]:
    """Combine parts into decisions of one step each."""
    records: list[OffsetRecord] = []
    looked_at = 0
    for weight, removals in parts:
        records += removals
        looked_at += weight
        if looked_at >= limits.REMOVALS_PER_STEP:
            others = looked_at - len(records)
            yield Decision(records, weight=others // limits.COORDINATOR_DECISION_RECORDS)
            records, looked_at = [], 0
    if records:
        yield Decision(records)
