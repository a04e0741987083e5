"""The changes that one command makes to a consumer group, before they are written.

A join changes the group epoch, which needs a new target, which changes the member's assignment. All
of that is one batch of records, so each step must see the effect of the one before.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from broker.core.groups.consumer.membership import Membership
from broker.core.groups.consumer.reconcile import only_topics, reconcile
from broker.core.groups.consumer.subscriptions import TopicsView, metadata_hash, subscribed_topics
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
    RegexRecord,
    ResolvedRegex,
    TargetEpochRecord,
    TargetRecord,
)


class ConsumerGroupUpdate:
    """The state of a group in which one member changes, or several are removed."""

    def __init__(self, state: Membership) -> None:
        """Begin with the current state."""
        self.state = state
        self.records: list[ConsumerRecord] = []
        self.epoch = state.epoch
        self.metadata_hash = state.metadata_hash
        self.target_epoch = state.target_epoch
        self.reasons: list[str] = []  # why the epoch is incremented
        self.regexes = state.regexes
        self.may_describe: Callable[[str], bool] | None = None  # what patterns may match; None: all
        self.invalid_patterns: dict[str, str] = {}  # patterns that are not valid, with the reason
        self._changed_members: list[ConsumerMember] = []  # their former state, of removed ones too
        self.removed: set[str] = set()
        self.member_id = ""
        self.member: ConsumerMember | None = None
        self.target: Partitions = NO_PARTITIONS
        self.current = CurrentAssignment()

    # ---- members ---------------------------------------------------------------------------------

    def select_member(self, member_id: str) -> None:
        """Select the member that this update changes or adds."""
        self.member_id = member_id
        self.member = self.state.members.get(member_id)
        self.target = self.state.target.get(member_id, NO_PARTITIONS)
        self.current = self.state.current.get(member_id, CurrentAssignment())
        if self.member is not None:
            self._changed_members.append(self.member)

    def replace_member(self, old_id: str, member_id: str) -> None:
        """Replace a member: the new one takes over target and partitions, at epoch 0."""
        self.select_member(old_id)
        assert self.member is not None
        self.remove_members([old_id])
        self.member_id = member_id
        self.member = self.member._replace(member_id=member_id)
        self.current = CurrentAssignment(
            0, 0, self.current.state, self.current.assigned, self.current.revoking
        )
        group_id = self.state.group_id
        self.records += [
            ConsumerMemberRecord(group_id, member_id, self.member),
            TargetRecord(group_id, member_id, self.target),
            CurrentRecord(group_id, member_id, self.current),
        ]

    def set_member(self, member: ConsumerMember) -> None:
        """Store the member; a new one or a changed subscription increments the group epoch."""
        before, self.member = self.member, member
        if member == before:
            return
        self.records.append(ConsumerMemberRecord(self.state.group_id, member.member_id, member))
        if before is None:
            self.reasons.append(f"member {member.member_id} joined")
        elif (before.topic_names, before.topic_regex) != (member.topic_names, member.topic_regex):
            self.reasons.append(f"member {member.member_id} changed its subscription")

    def remove_members(self, member_ids: Iterable[str]) -> None:
        """Remove members, with their targets and assignments."""
        group_id = self.state.group_id
        for member_id in member_ids:
            self.records += [
                CurrentRecord(group_id, member_id, None),
                TargetRecord(group_id, member_id, None),
                ConsumerMemberRecord(group_id, member_id, None),
            ]
            self.removed.add(member_id)
            if member_id != self.member_id:
                self._changed_members.append(self.state.members[member_id])

    def members(self) -> dict[str, ConsumerMember]:
        """Return the members after this update."""
        members = {
            each: member for each, member in self.state.members.items() if each not in self.removed
        }
        if self.member is not None:
            members[self.member_id] = self.member
        return members

    def targets(self) -> dict[str, Partitions]:
        """Return the current targets of the members after this update."""
        known = {**self.state.target, self.member_id: self.target}
        return {each: known.get(each, NO_PARTITIONS) for each in self.members()}

    def topics_of(self, member: ConsumerMember) -> tuple[str, ...]:
        """Return the topics that a member is subscribed to, in order."""
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        if resolved is None or not resolved.topics:
            return member.topic_names
        return tuple(sorted({*member.topic_names, *resolved.topics}))

    # ---- the group -------------------------------------------------------------------------------

    def resolve_pattern(
        self, regex: str, resolved: ResolvedRegex, why_not: str | None = None
    ) -> None:
        """Store the topics that a pattern matches; a difference increments the group epoch.

        Args:
            regex: the pattern.
            resolved: the matching topics.
            why_not: why the pattern is not valid; None: it is.
        """
        before = self.regexes.get(regex)
        if before is not None and before.topics == resolved.topics:
            return
        self.regexes = {**self.regexes, regex: resolved}
        self.records.append(RegexRecord(self.state.group_id, regex, resolved))
        if why_not is not None:
            self.invalid_patterns[regex] = why_not
        if not self.reasons:
            self.reasons.append(f"pattern {regex} matches other topics")

    def subscribed_patterns(self) -> set[str]:
        """Return the patterns of the members after this update."""
        gone = Counter(each.topic_regex for each in self._changed_members)
        kept = {each for each, count in self.state.by_regex.items() if count > gone[each]}
        if self.member is not None and self.member.topic_regex is not None:
            kept.add(self.member.topic_regex)
        return kept

    def remove_unused_patterns(self) -> None:
        """Delete the records of patterns that no member uses any more."""
        if self.state.regexes:
            for regex in sorted(self.state.regexes.keys() - self.subscribed_patterns()):
                self.records.append(RegexRecord(self.state.group_id, regex, None))

    def refresh_metadata_hash(self, topics: TopicsView) -> None:
        """Hash the metadata of subscribed topics; a difference increments the group epoch."""
        after = () if self.member is None else (self.member,)
        names = subscribed_topics(self.state, self.regexes, self._changed_members, after)
        self.metadata_hash = metadata_hash(names, topics)
        if self.metadata_hash != self.state.metadata_hash and not self.reasons:
            self.reasons.append("topics changed")

    def bump_epoch(self) -> None:
        """Increment the group epoch if there is a reason to."""
        if self.reasons:
            self.epoch += 1
            self._write_epoch()

    def _write_epoch(self) -> None:
        self.records.append(
            ConsumerEpochRecord(self.state.group_id, self.epoch, self.metadata_hash)
        )

    # ---- the target ------------------------------------------------------------------------------

    def set_target(self, changes: Iterable[tuple[str, Partitions]], epoch: int | None) -> None:
        """Write members' new targets; with the last of them, also the target epoch."""
        group_id = self.state.group_id
        gone = self.removed - {self.member_id}
        for member_id, target in changes:
            if member_id == self.member_id or (
                member_id in self.state.members and member_id not in gone
            ):
                self.records.append(TargetRecord(group_id, member_id, target))
            if member_id == self.member_id:
                self.target = target
        if epoch is not None:
            self.target_epoch = epoch
            self.records.append(TargetEpochRecord(group_id, epoch))

    def set_empty_target(self) -> None:
        """Write an empty target for a new group whose first target is still being computed.

        Members then have an epoch above 0; epoch 0 would mean "join again" to them.
        """
        self.target_epoch = self.epoch
        self.records.append(TargetEpochRecord(self.state.group_id, self.target_epoch))
        self.epoch += 1
        self._write_epoch()

    def reconcile_member(self, owned: Partitions | None, topics: TopicsView) -> None:
        """Move the member's assignment one step towards its target."""
        if self.current.epoch == self.target_epoch and self.current.state is MemberState.STABLE:
            return
        assert self.member is not None
        found = map(topics.get, self.topics_of(self.member))
        subscribed = {topic.topic_id for topic in found if topic is not None}
        after = reconcile(
            self.current,
            self.target_epoch,
            only_topics(self.target, subscribed),
            owned,
            self._is_owned_by_another,
        )
        if after is not self.current:
            self.current = after
            self.records.append(CurrentRecord(self.state.group_id, self.member_id, after))

    def _is_owned_by_another(self, topic_id: bytes, partition: int) -> bool:
        owner = self.state.owner(topic_id, partition)
        return owner is not None and owner != self.member_id and owner not in self.removed
