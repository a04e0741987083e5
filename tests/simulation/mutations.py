"""Coordinators with an injected bug: each in one way that the simulation has to detect."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from broker.core.coordination import coordinator
from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.assigned.group_update import AssignedGroupUpdate
from broker.core.groups.classic import join_phase
from broker.core.groups.classic.group import ClassicGroup
from broker.core.groups.commands.assigned import AssignedError
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.consumer.group_update import ConsumerGroupUpdate
from broker.core.groups.offsets.pending import PendingOffsets
from broker.core.groups.partition import migration
from broker.core.groups.partition.shard import GroupShard
from broker.core.groups.records.consumer import NO_PARTITIONS
from broker.core.transactions import end_rules, markers, transaction
from broker.core.transactions.commands import InitResponse, TransactionDecision
from broker.core.transactions.end_driver import EndDriver
from broker.model.clock_guard import ClockGuard
from broker.model.errors import ErrorCode
from broker.model.guarded_clock import GuardedClock
from tests.simulation.clock import START_WALL_MS
from tests.simulation.logs import SimulatedLog

Patch = pytest.MonkeyPatch


class Mutation(NamedTuple):
    """A bug, and whose rules it breaks."""

    apply: Callable[[Patch], None]
    parts: str


def _skip_generations(patch: Patch) -> None:
    def member_error(self: Any, member_id: str, instance_id: str | None, _: int) -> ErrorCode:
        return self.identity_error(member_id, instance_id)

    patch.setattr(ClassicGroup, "member_error", member_error)


def _keep_generation(patch: Patch) -> None:
    next_image = join_phase._next_image

    def same(group: Any, *args: Any) -> Any:
        image = next_image(group, *args)
        return image._replace(generation=max(1, group.image.generation))

    patch.setattr(join_phase, "_next_image", same)


def _skip_epochs_of_commits(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "commit_error", lambda *_: ErrorCode.NONE)


def _give_before_it_is_free(patch: Patch) -> None:
    patch.setattr(ConsumerGroupUpdate, "_is_owned_by_another", lambda *_: False)


def _never_miss_consumers(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "extend_session", lambda *_: None)


def _forget_at_an_upgrade(patch: Patch) -> None:
    patch.setattr(migration, "_assigned", lambda *_: NO_PARTITIONS)


def _assign_in_the_same_generation(patch: Patch) -> None:
    def bump(self: Any, reason: str) -> None:
        self.generation = max(2, self.generation)
        self.reasons.append(reason)

    patch.setattr(AssignedGroupUpdate, "_bump_generation", bump)


def _skip_generations_of_assigned(patch: Patch) -> None:
    call_error = AssignedGroup._call_error

    def of_any(self: Any, update: Any, call: Any, now: Any) -> AssignedError:
        return call_error(self, update, call._replace(generation=update.generation), now)

    patch.setattr(AssignedGroup, "_call_error", of_any)


def _never_miss_assigned(patch: Patch) -> None:
    patch.setattr(AssignedGroup, "_expired_members", lambda *_: [])


def _fence_nobody(patch: Patch) -> None:
    prepared = end_rules.prepared

    def same_epoch(*args: Any, is_fence: bool, **names: Any) -> Any:
        return prepared(*args, is_fence=False, **names)

    patch.setattr(end_rules, "prepared", same_epoch)
    take = transaction.Transaction._take

    def again(self: Any, request: Any, token: Any, *rest: Any) -> None:
        image = self.image
        if image is None:
            take(self, request, token, *rest)
        else:
            response = InitResponse(ErrorCode.NONE, *image[:2])
            rest[-1].reply(token, response)

    patch.setattr(transaction.Transaction, "_take", again)


def _decide_before_data_is_synced(patch: Patch) -> None:
    def at_once(self: Any, request: Any) -> None:
        self.coordinator.synced(request.producer, request.attempt, is_durable=True)

    patch.setattr(EndDriver, "sync", at_once)


def _forget_dismissal(patch: Patch) -> None:
    patch.setattr(SimulatedLog, "dismiss_transaction", lambda *_: None)


def _complete_before_markers_are_synced(patch: Patch) -> None:
    def at_once(log: Any, batch: bytes, answer: Callable[[ErrorCode], None]) -> None:
        log.append_internal(batch)
        answer(ErrorCode.NONE)

    patch.setattr(markers, "_append", at_once)


def _reply_before_it_is_durable(patch: Patch) -> None:
    driver = coordinator.CoordinatorPartition
    patch.setattr(driver, "has_replies", property(lambda self: bool(self._held)))
    patch.setattr(driver, "_release_or_wait", lambda self: self._release(is_durable=True))


def _let_transactions_be_open(patch: Patch) -> None:
    def never(self: Any, _: Any) -> TransactionDecision:
        self.deadline_ms = None
        return TransactionDecision()

    patch.setattr(transaction.Transaction, "tick", never)


def _forget_markers_at_a_load(patch: Patch) -> None:
    patch.setattr(transaction.Transaction, "resume", lambda *_: TransactionDecision())


def _commit_offsets_of_aborted(patch: Patch) -> None:
    end = PendingOffsets.end_transaction

    def always(self: Any, producer_id: int, *, is_committed: bool) -> set[str]:
        return end(self, producer_id, is_committed=True)

    patch.setattr(PendingOffsets, "end_transaction", always)


def _forget_pending_offsets(patch: Patch) -> None:
    patch.setattr(GroupShard, "replay_pending", lambda *_: None)


def _admit_who_has_added_nothing(patch: Patch) -> None:
    patch.setattr(SimulatedLog, "admits_transaction", lambda *_: True)


def _believe_every_wall_clock(patch: Patch) -> None:
    patch.setattr(ClockGuard, "aged_ms", lambda _, now: now.wall_ms)


def _forget_the_clock_at_a_start(patch: Patch) -> None:
    patch.setattr(ClockGuard, "_go_on", lambda *_: None)


def _believe_after_each_boot(patch: Patch) -> None:
    go_on = ClockGuard._go_on

    def believe(self: Any, seen: Any, now: Any) -> None:
        go_on(self, seen, now)
        if seen.boot_id != self._boot_id:
            self._ahead_ms_max = 1 << 60

    patch.setattr(ClockGuard, "_go_on", believe)


def _confirm_in_advance(patch: Patch) -> None:
    confirm = ClockGuard.confirm

    def whenever(self: Any, confirmed_ms: int, now: Any) -> Any:
        if self.is_held:
            self._confirmed_ms = 0
        return confirm(self, confirmed_ms, now)

    patch.setattr(ClockGuard, "confirm", whenever)


def _time_out_by_the_wall_clock(patch: Patch) -> None:
    patch.setattr(GuardedClock, "monotonic_ms", lambda self: self.wall_ms() - START_WALL_MS)


MUTATIONS = {
    "generations are not checked": Mutation(_skip_generations, "groups"),
    "a rebalance keeps the generation": Mutation(_keep_generation, "groups"),
    "a commit's member epoch is not checked": Mutation(_skip_epochs_of_commits, "consumers"),
    "a partition has a new owner too early": Mutation(_give_before_it_is_free, "consumers"),
    "sessions of consumers never end": Mutation(_never_miss_consumers, "consumers"),
    "an upgrade forgets what members have": Mutation(_forget_at_an_upgrade, "rolls"),
    "an assignment keeps the generation": Mutation(_assign_in_the_same_generation, "assigned"),
    "a commit's generation is not checked": Mutation(_skip_generations_of_assigned, "assigned"),
    "sessions of assigned groups never end": Mutation(_never_miss_assigned, "assigned"),
    "fencing leaves the epoch as it is": Mutation(_fence_nobody, "producers"),
    "the decision does not wait for the data": Mutation(_decide_before_data_is_synced, "producers"),
    "no producer is dismissed": Mutation(_forget_dismissal, "producers"),
    "completion does not wait for markers": Mutation(
        _complete_before_markers_are_synced, "producers"
    ),
    "answers do not wait for the disk": Mutation(_reply_before_it_is_durable, "assigned"),
    "answers to producers do not wait for the disk": Mutation(
        _reply_before_it_is_durable, "producers"
    ),
    "transactions never time out": Mutation(_let_transactions_be_open, "producers"),
    "a load forgets what is decided": Mutation(_forget_markers_at_a_load, "producers"),
    "offsets of aborted transactions count": Mutation(_commit_offsets_of_aborted, "producers"),
    "offsets of transactions are forgotten": Mutation(_forget_pending_offsets, "producers"),
    "logs admit everybody": Mutation(_admit_who_has_added_nothing, "producers"),
    "the wall clock is always believed": Mutation(_believe_every_wall_clock, "producers"),
    "a start believes the wall clock": Mutation(_forget_the_clock_at_a_start, "producers"),
    "a boot believes the wall clock": Mutation(_believe_after_each_boot, "producers"),
    "a confirmation speaks for a later step": Mutation(_confirm_in_advance, "producers"),
    "sessions go by the wall clock": Mutation(_time_out_by_the_wall_clock, "groups"),
    "sessions of consumers go by the wall clock": Mutation(
        _time_out_by_the_wall_clock, "consumers"
    ),
    "sessions of assigned go by the wall clock": Mutation(_time_out_by_the_wall_clock, "assigned"),
    "transactions go by the wall clock": Mutation(_time_out_by_the_wall_clock, "producers"),
}
