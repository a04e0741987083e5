"""From a change of a group to its next epoch and target: at once, or over many turns of the loop.

What a draft asks for is done within it as far as a slice of work allows. What is left, a search for
the topics that patterns match or a target for a large group, goes on in `work`.
"""

from broker.core.groups.consumer.assignors import ASSIGNORS
from broker.core.groups.consumer.commands import ConsumerSettings
from broker.core.groups.consumer.draft import Draft
from broker.core.groups.consumer.membership import Membership
from broker.core.groups.consumer.records import ConsumerMember, Partitions, ResolvedRegex
from broker.core.groups.consumer.regex import RegexJob
from broker.core.groups.consumer.subscriptions import SeenTopics
from broker.core.groups.consumer.targets import TargetJob, assigning
from broker.core.machine import Moment
from broker.model.limits import (
    ASSIGNMENT_SLICE_INTERVAL_MS,
    ASSIGNMENT_WORK_PER_SLICE,
    REGEX_MATCHES_PER_SLICE,
    REGEX_REFRESH_INTERVAL_MS,
)


class Planner:
    """What one group computes, and how far it has come."""

    def __init__(self, settings: ConsumerSettings, topics: SeenTopics) -> None:
        """Begin with nothing to do."""
        self._settings = settings
        self._topics = topics
        self._topics_version = -1  # of the topics at which the group was last compared with them
        self._search: RegexJob | None = None
        self._searched_version = -1  # of the topics at which all patterns were last looked at
        self._search_again_ms = 0  # when they may be looked at again
        self._job: TargetJob | None = None
        self._goes_on_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """When `work` has something to do; None if nothing is left."""
        return None if self._job is None and self._search is None else self._goes_on_ms

    def advance(self, draft: Draft, owned: Partitions | None, now: Moment) -> None:
        """Follow a member's change: the group's epoch, its target, the member's next step."""
        self._find_topics(draft, now)
        if draft.reasons or self._topics_version != self._topics.version:
            self._topics_version = self._topics.version
            draft.forget_patterns()
            draft.follow(self._topics)
        draft.bump()
        if draft.epoch > draft.target_epoch:
            self._aim(draft, now)
        draft.step(owned, self._topics)

    def _find_topics(self, draft: Draft, now: Moment) -> None:
        """Find out what patterns match: those that are new at once, the others now and then."""
        is_new = self._searched_version != self._topics.version
        if not (is_new or draft.reasons or self._search):
            return
        wanted = draft.patterns()
        if not wanted:
            self._searched_version = self._topics.version
            return
        is_due = is_new and now.monotonic_ms >= self._search_again_ms
        begun = set() if self._search is None else wanted & self._search.regexes
        wanted = wanted if is_due else begun | (wanted - draft.regexes.keys())
        if wanted and (self._search is None or not wanted <= self._search.regexes):
            self._search = RegexJob(wanted, self._topics)
            if is_due:
                self._searched_version = self._topics.version
                self._search_again_ms = now.monotonic_ms + REGEX_REFRESH_INTERVAL_MS
        if self._search is not None:
            self._search_on(self._search, draft, now)

    def _search_on(self, job: RegexJob, draft: Draft, now: Moment) -> None:
        if not job.run(REGEX_MATCHES_PER_SLICE):
            self._goes_on_ms = now.monotonic_ms + ASSIGNMENT_SLICE_INTERVAL_MS
            return
        self._search = None
        assert job.matched is not None
        wanted = draft.patterns()
        for regex, names in job.matched.items():
            if regex in wanted:
                resolved = ResolvedRegex(names, job.topics_version, now.wall_ms)
                draft.resolve(regex, resolved, job.unreadable.get(regex))

    def _aim(self, draft: Draft, now: Moment) -> None:
        """Compute a target at once, if that is little work; more is computed on in `tick`."""
        if self._job is None:
            job = self._new_job(draft)
            if job.run(ASSIGNMENT_WORK_PER_SLICE) and not job.is_large:
                draft.aim(job.take(), job.epoch)
                return
            self._job = job
            self._goes_on_ms = now.monotonic_ms + ASSIGNMENT_SLICE_INTERVAL_MS
        if not draft.target_epoch:
            draft.aim_at_nothing()
            self._job.epoch = draft.epoch

    def _new_job(self, draft: Draft) -> TargetJob:
        assign = ASSIGNORS[self.assignor(draft.state, draft.member)]
        targets = draft.targets()
        work = assigning(draft.members(), targets, draft.topics_of, self._topics, assign)
        return TargetJob(draft.epoch, work, targets)

    def assignor(self, state: Membership, newest: ConsumerMember | None = None) -> str:
        """What most members prefer; the broker's first where nobody does."""
        votes = dict(state.by_assignor)
        if newest is not None and newest.assignor and newest.member_id not in state.members:
            votes[newest.assignor] = votes.get(newest.assignor, 0) + 1
        served = [name for name in votes if name in self._settings.assignors]
        return max(served, key=votes.__getitem__, default=self._settings.assignors[0])

    def drop_target(self) -> None:
        """What is being computed is about a member that goes on as another: begin anew."""
        self._job = None

    # ---- what is left ----------------------------------------------------------------------------

    def work(self, state: Membership, now: Moment) -> Draft | None:
        """Do a slice of what is left; what has come of it."""
        draft = Draft(state)
        if self._search is not None:
            self._search_on(self._search, draft, now)
            if draft.reasons:
                draft.follow(self._topics)
                draft.bump()
        elif self._job is not None:
            self._compute_on(self._job, draft, now)
        return draft if draft.records else None

    def _compute_on(self, job: TargetJob, draft: Draft, now: Moment) -> None:
        self._goes_on_ms = now.monotonic_ms + ASSIGNMENT_SLICE_INTERVAL_MS
        if not job.run(ASSIGNMENT_WORK_PER_SLICE):
            return
        # Members may follow their part of a target before all of it is written: what they do not
        # have yet they only get when nobody else has it.
        changes = job.take()
        is_last = job.is_taken
        draft.aim(changes, job.epoch if is_last else None)
        self._job = None if is_last else job
