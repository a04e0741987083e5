"""What a command makes of a group before any of it is written: the state as it will be.

A member that joins changes the group's epoch, which asks for a new target, which changes what the
member has; all of that is one batch of records, so each step must see the effect of the one before.
"""

from collections import Counter
from collections.abc import Iterable

from broker.core.groups.consumer.membership import Membership
from broker.core.groups.consumer.reconcile import only_topics, reconcile
from broker.core.groups.consumer.records import (
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
from broker.core.groups.consumer.subscriptions import SeenTopics, metadata_hash, subscribed_topics


class Draft:
    """A group in which one member changes, or several are removed."""

    def __init__(self, state: Membership) -> None:
        """Begin with the group as it is."""
        self.state = state
        self.records: list[ConsumerRecord] = []
        self.epoch = state.epoch
        self.metadata_hash = state.metadata_hash
        self.target_epoch = state.target_epoch
        self.reasons: list[str] = []  # why the epoch has changed
        self.regexes = state.regexes
        self.unreadable: dict[str, str] = {}  # patterns that are none here, and why
        self._before: list[ConsumerMember] = []  # of members that change or go
        self.removed: set[str] = set()
        self.member_id = ""
        self.member: ConsumerMember | None = None
        self.target: Partitions = NO_PARTITIONS
        self.current = CurrentAssignment()

    # ---- members ---------------------------------------------------------------------------------

    def choose(self, member_id: str) -> None:
        """Let this draft be about a member that is there, or will be."""
        self.member_id = member_id
        self.member = self.state.members.get(member_id)
        self.target = self.state.target.get(member_id, NO_PARTITIONS)
        self.current = self.state.current.get(member_id, CurrentAssignment())
        if self.member is not None:
            self._before.append(self.member)

    def replace(self, old_id: str, member_id: str) -> None:
        """Let a member take the place of another: what that one had is its own, at epoch 0."""
        self.choose(old_id)
        assert self.member is not None
        self.remove([old_id])
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

    def subscribe(self, member: ConsumerMember) -> None:
        """Let the member be so; a new one, or one with another subscription, changes the group."""
        before, self.member = self.member, member
        if member == before:
            return
        self.records.append(ConsumerMemberRecord(self.state.group_id, member.member_id, member))
        if before is None:
            self.reasons.append(f"member {member.member_id} joined")
        elif (before.topic_names, before.topic_regex) != (member.topic_names, member.topic_regex):
            self.reasons.append(f"member {member.member_id} changed its subscription")

    def remove(self, member_ids: Iterable[str]) -> None:
        """Take members out, with all that they had."""
        group_id = self.state.group_id
        for member_id in member_ids:
            self.records += [
                CurrentRecord(group_id, member_id, None),
                TargetRecord(group_id, member_id, None),
                ConsumerMemberRecord(group_id, member_id, None),
            ]
            self.removed.add(member_id)
            if member_id != self.member_id:
                self._before.append(self.state.members[member_id])

    def members(self) -> dict[str, ConsumerMember]:
        """Everybody who will be in the group."""
        members = {
            each: member for each, member in self.state.members.items() if each not in self.removed
        }
        if self.member is not None:
            members[self.member_id] = self.member
        return members

    def targets(self) -> dict[str, Partitions]:
        """What everybody who will be in the group shall have as yet."""
        known = {**self.state.target, self.member_id: self.target}
        return {each: known.get(each, NO_PARTITIONS) for each in self.members()}

    def topics_of(self, member: ConsumerMember) -> tuple[str, ...]:
        """The topics that a member is subscribed to, in order."""
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        if resolved is None or not resolved.topics:
            return member.topic_names
        return tuple(sorted({*member.topic_names, *resolved.topics}))

    # ---- the group -------------------------------------------------------------------------------

    def resolve(self, regex: str, resolved: ResolvedRegex, why_not: str | None = None) -> None:
        """Let a pattern match these topics; who has been subscribed by it has other topics then.

        Args:
            regex: the pattern.
            resolved: what it matches.
            why_not: where it is none, in words.
        """
        before = self.regexes.get(regex)
        if before is not None and before.topics == resolved.topics:
            return
        self.regexes = {**self.regexes, regex: resolved}
        self.records.append(RegexRecord(self.state.group_id, regex, resolved))
        if why_not is not None:
            self.unreadable[regex] = why_not
        if not self.reasons:
            self.reasons.append(f"pattern {regex} matches other topics")

    def patterns(self) -> set[str]:
        """The patterns that somebody will be subscribed by."""
        gone = Counter(each.topic_regex for each in self._before)
        kept = {each for each, count in self.state.by_regex.items() if count > gone[each]}
        if self.member is not None and self.member.topic_regex is not None:
            kept.add(self.member.topic_regex)
        return kept

    def forget_patterns(self) -> None:
        """Drop what patterns have matched that nobody is subscribed by any more."""
        if self.state.regexes:
            for regex in sorted(self.state.regexes.keys() - self.patterns()):
                self.records.append(RegexRecord(self.state.group_id, regex, None))

    def follow(self, topics: SeenTopics) -> None:
        """Look at what the group is subscribed to; a change of it changes the group."""
        after = () if self.member is None else (self.member,)
        names = subscribed_topics(self.state, self.regexes, self._before, after)
        self.metadata_hash = metadata_hash(names, topics)
        if self.metadata_hash != self.state.metadata_hash and not self.reasons:
            self.reasons.append("topics changed")

    def bump(self) -> None:
        """Give the group its next epoch if something has changed."""
        if self.reasons:
            self.epoch += 1
            self._write_epoch()

    def _write_epoch(self) -> None:
        self.records.append(
            ConsumerEpochRecord(self.state.group_id, self.epoch, self.metadata_hash)
        )

    # ---- the target ------------------------------------------------------------------------------

    def aim(self, changes: Iterable[tuple[str, Partitions]], epoch: int | None) -> None:
        """Let members have another target; with the last of them, the target has its epoch."""
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

    def aim_at_nothing(self) -> None:
        """Give a group that has never had a target an empty one; its first is still computed.

        Members then have an epoch above 0, which they would take for "join again".
        """
        self.target_epoch = self.epoch
        self.records.append(TargetEpochRecord(self.state.group_id, self.target_epoch))
        self.epoch += 1
        self._write_epoch()

    def step(self, owned: Partitions | None, topics: SeenTopics) -> None:
        """Bring the member one step nearer to its target."""
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
            self._is_taken,
        )
        if after is not self.current:
            self.current = after
            self.records.append(CurrentRecord(self.state.group_id, self.member_id, after))

    def _is_taken(self, topic_id: bytes, partition: int) -> bool:
        owner = self.state.owner(topic_id, partition)
        return owner is not None and owner != self.member_id and owner not in self.removed
