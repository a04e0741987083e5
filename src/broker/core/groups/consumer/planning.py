"""Computes the next epoch and target assignment after a change of a group.

Small computations are completed within the update. Longer ones, a search for the topics that
patterns match or a target for a large group, are continued in slices by `run_slice`.
"""

from broker.core.coordination.machine import Moment
from broker.core.groups.consumer.assignors import ASSIGNORS
from broker.core.groups.consumer.group_update import ConsumerGroupUpdate
from broker.core.groups.consumer.membership import Membership
from broker.core.groups.consumer.regex import RegexJob
from broker.core.groups.consumer.subscriptions import TopicsView
from broker.core.groups.consumer.targets import TargetJob, assignment_steps
from broker.core.groups.records.consumer import ConsumerMember, Partitions, ResolvedRegex
from broker.core.groups.settings import ConsumerSettings
from broker.model import limits
from broker.model.security_limits import PATTERNS_AUTHORIZED_MS


class Planner:
    """The computations of one group and their progress."""

    def __init__(self, settings: ConsumerSettings, topics: TopicsView) -> None:
        """Begin without a computation."""
        self._settings = settings
        self._topics = topics
        self._topics_version = -1  # of the topics that the metadata hash was last computed from
        self._search: RegexJob | None = None
        self._searched_version = -1  # of the topics that all patterns were last resolved against
        self._search_again_ms = 0  # the earliest time of the next search
        self._authorize_again_ms = 0  # when ACLs are asked again which topics patterns may match
        self._job: TargetJob | None = None
        self._next_slice_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """When `run_slice` is to be called; None: no computation is in progress."""
        return None if self._job is None and self._search is None else self._next_slice_ms

    def apply_change(
        self, update: ConsumerGroupUpdate, owned: Partitions | None, now: Moment
    ) -> None:
        """Complete a member's change: the group epoch, the target, the member's next step."""
        self._resolve_patterns(update, now)
        if update.reasons or self._topics_version != self._topics.version:
            self._topics_version = self._topics.version
            update.remove_unused_patterns()
            update.refresh_metadata_hash(self._topics)
        update.bump_epoch()
        if update.epoch > update.target_epoch:
            self._compute_target(update, now)
        update.reconcile_member(owned, self._topics)

    def _resolve_patterns(self, update: ConsumerGroupUpdate, now: Moment) -> None:
        """Resolve patterns: new ones now, all of them when topics have changed, at intervals."""
        is_new = self._searched_version != self._topics.version or (
            update.may_describe is not None and now.monotonic_ms >= self._authorize_again_ms
        )
        if not (is_new or update.reasons or self._search):
            return
        wanted = update.subscribed_patterns()
        if not wanted:
            self._searched_version = self._topics.version
            self._authorize_again_ms = now.monotonic_ms + PATTERNS_AUTHORIZED_MS
            return
        is_due = is_new and now.monotonic_ms >= self._search_again_ms
        begun = set() if self._search is None else wanted & self._search.regexes
        wanted = wanted if is_due else begun | (wanted - update.regexes.keys())
        if wanted and (self._search is None or not wanted <= self._search.regexes):
            self._search = RegexJob(wanted, self._topics, update.may_describe)
            if is_due:
                self._searched_version = self._topics.version
                self._search_again_ms = now.monotonic_ms + limits.REGEX_REFRESH_INTERVAL_MS
                self._authorize_again_ms = now.monotonic_ms + PATTERNS_AUTHORIZED_MS
        if self._search is not None:
            self._continue_search(self._search, update, now)

    def _continue_search(self, job: RegexJob, update: ConsumerGroupUpdate, now: Moment) -> None:
        if not job.run(limits.REGEX_MATCHES_PER_SLICE):
            self._next_slice_ms = now.monotonic_ms + limits.ASSIGNMENT_SLICE_INTERVAL_MS
            return
        self._search = None
        assert job.matched is not None
        wanted = update.subscribed_patterns()
        for regex, names in job.matched.items():
            if regex in wanted:
                resolved = ResolvedRegex(names, job.topics_version, now.wall_ms)
                update.resolve_pattern(regex, resolved, job.invalid_patterns.get(regex))

    def _compute_target(self, update: ConsumerGroupUpdate, now: Moment) -> None:
        """Compute a target now if it fits one slice; otherwise `tick` continues it."""
        if self._job is None:
            job = self._new_job(update)
            if job.run(limits.ASSIGNMENT_WORK_PER_SLICE) and not job.is_large:
                update.set_target(job.take(), job.epoch)
                return
            self._job = job
            self._next_slice_ms = now.monotonic_ms + limits.ASSIGNMENT_SLICE_INTERVAL_MS
        if not update.target_epoch:
            update.set_empty_target()
            self._job.epoch = update.epoch

    def _new_job(self, update: ConsumerGroupUpdate) -> TargetJob:
        assign = ASSIGNORS[self.assignor(update.state, update.member)]
        targets = update.targets()
        work = assignment_steps(update.members(), targets, update.topics_of, self._topics, assign)
        return TargetJob(update.epoch, work, targets)

    def assignor(self, state: Membership, newest: ConsumerMember | None = None) -> str:
        """Return the assignor that most members prefer; the default if none has a preference."""
        votes = dict(state.by_assignor)
        if newest is not None and newest.assignor and newest.member_id not in state.members:
            votes[newest.assignor] = votes.get(newest.assignor, 0) + 1
        served = [name for name in votes if name in self._settings.assignors]
        return max(served, key=votes.__getitem__, default=self._settings.assignors[0])

    def cancel_target_job(self) -> None:
        """Cancel the computation of a target, because a member has got another id."""
        self._job = None

    # ---- slices ----------------------------------------------------------------------------------

    def run_slice(self, state: Membership, now: Moment) -> ConsumerGroupUpdate | None:
        """Run one slice of a computation; return the update that results, if any."""
        update = ConsumerGroupUpdate(state)
        if self._search is not None:
            self._continue_search(self._search, update, now)
            if update.reasons:
                update.refresh_metadata_hash(self._topics)
                update.bump_epoch()
        elif self._job is not None:
            self._continue_target(self._job, update, now)
        return update if update.records else None

    def _continue_target(self, job: TargetJob, update: ConsumerGroupUpdate, now: Moment) -> None:
        self._next_slice_ms = now.monotonic_ms + limits.ASSIGNMENT_SLICE_INTERVAL_MS
        if not job.run(limits.ASSIGNMENT_WORK_PER_SLICE):
            return
        # A member may reconcile with its part of a target before all of it is written: it only gets
        # partitions that no other member owns.
        changes = job.take()
        is_last = job.is_taken
        update.set_target(changes, job.epoch if is_last else None)
        self._job = None if is_last else job
