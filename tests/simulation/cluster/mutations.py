"""State machines of a cluster with a planted bug: each in one way that the simulation detects."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from broker.core.cluster import controller, election, membership, records, topics
from broker.core.cluster.controller import Controller
from broker.core.cluster.handover import HandOver
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.membership import Membership
from broker.core.cluster.records import NO_LEADER, PartitionState
from broker.core.cluster.writes import GuardedWrites
from broker.storage.metadata import Absent, Delete, Guard, KeyValue, Put

Patch = pytest.MonkeyPatch
_ALWAYS = Absent(b"never")  # a guard that holds


def _without(guards: Sequence[Guard], kind: type) -> list[Guard]:
    return [each for each in guards if not isinstance(each, kind)]


def _write_without_the_office(patch: Patch) -> None:
    begin = Controller.__init__

    def unfenced(self: Any, *args: Any) -> None:
        begin(self, *args)
        self._writes._fence = _ALWAYS

    patch.setattr(Controller, "__init__", unfenced)
    patch.setattr(Controller, "is_in_office", True)


def _replace_a_draining_leader_at_once(patch: Patch) -> None:
    next_state = election.next_state

    def impatient(state: PartitionState, brokers: Any, others: Any = None) -> Any:
        changed = next_state(state, brokers, others)
        if changed is None or changed.successor == NO_LEADER:
            return changed
        is_shared = others is not None
        moved = election.hand_over(changed, brokers, is_shared=is_shared)
        return moved and moved._replace(partition_epoch=changed.partition_epoch)

    patch.setattr(election, "next_state", impatient)


def _balance_without_the_leader(patch: Patch) -> None:
    prefer = election.prefer

    def impatient(state: PartitionState, brokers: Any, preferred: int, *, is_shared: bool) -> Any:
        changed = prefer(state, brokers, preferred, is_shared=is_shared)
        if changed is None:
            return None
        moved = election.hand_over(changed, brokers, is_shared=is_shared)
        return moved and moved._replace(partition_epoch=changed.partition_epoch)

    patch.setattr(election, "prefer", impatient)


def _hand_over_before_the_stop(patch: Patch) -> None:
    begin = HandOver.__init__

    def hasty(self: Any, seen: Any, broker: Any, _: Any, *, is_shared: bool) -> None:
        begin(self, seen, broker, lambda *_: False, is_shared=is_shared)

    patch.setattr(HandOver, "__init__", hasty)


def _serve_with_any_incarnation(patch: Patch) -> None:
    def serve(self: PartitionState, broker_id: int, _: int) -> bool:
        return self.leader == broker_id and self.successor == NO_LEADER

    patch.setattr(PartitionState, "is_served_by", serve)


def _serve_after_the_lease(patch: Patch) -> None:
    patch.setattr(Membership, "may_serve", lambda self, _: self.epoch != 0)


def _keep_the_epoch_of_a_restarted_leader(patch: Patch) -> None:
    led_by = election._led_by

    def keep(state: PartitionState, leader: int, *args: Any) -> PartitionState:
        changed = led_by(state, leader, *args)
        if leader == state.leader:
            return changed._replace(leader_epoch=state.leader_epoch)
        return changed

    patch.setattr(election, "_led_by", keep)


def _elect_outside_of_the_isr(patch: Patch) -> None:
    def all_replicas(state: PartitionState, others: Any) -> Sequence[int]:
        return state.replicas if others is None else others

    patch.setattr(election, "_candidates", all_replicas)
    led_by = election._led_by

    def keep_replicas(state: PartitionState, *args: Any) -> PartitionState:
        changed = led_by(state, *args)
        if len(state.replicas) < 2:
            return changed
        isr = state.isr if changed.leader in state.isr else (changed.leader,)
        return changed._replace(replicas=state.replicas, isr=isr)

    patch.setattr(election, "_led_by", keep_replicas)


def _overwrite_what_is_newer(patch: Patch) -> None:
    take = GuardedWrites.take

    def unguarded(self: GuardedWrites) -> Any:
        write = take(self)
        if write is None:
            return None
        guards = write.transaction.guards[:1]
        return write._replace(transaction=write.transaction._replace(guards=guards))

    patch.setattr(GuardedWrites, "take", unguarded)


def _forget_what_was_lost(patch: Patch) -> None:
    def drop(self: Any, write: Any, _: int) -> None:
        self.in_flight -= 1
        self._release(write.items)

    patch.setattr(GuardedWrites, "unknown", drop)


def _forget_what_was_refused(patch: Patch) -> None:
    def drop(self: Any, write: Any, _: int) -> None:
        self.in_flight -= 1
        self._release(write.items)

    patch.setattr(GuardedWrites, "refused", drop)


def _miss_changes_of_brokers(patch: Patch) -> None:
    image_changed = Controller.image_changed

    def miss(self: Any, delta: Any) -> None:
        delta.brokers.clear()
        image_changed(self, delta)

    patch.setattr(Controller, "image_changed", miss)


def _begin_without_a_look(patch: Patch) -> None:
    patch.setattr(Controller, "_look_at_everything", lambda *_: None)


def _leave_states_of_deleted_topics(patch: Patch) -> None:
    decide = Controller._decide

    def leave(self: Any, item: Any) -> Any:
        change = decide(self, item)
        if change is not None and item[1] >= 0 and isinstance(change[1], Delete):
            return None
        return change

    patch.setattr(Controller, "_decide", leave)


def _forget_deleted_topics_early(patch: Patch) -> None:
    patch.setattr(controller, "DELETED_TOPIC_DAYS", 0)


def _enlarge_with_present_incarnations(patch: Patch) -> None:
    enlargement = topics.enlargement

    def newest(seen: ClusterImage, topic: Any, added: Any) -> Any:
        made = enlargement(seen, topic, added)
        (put,) = made.operations
        assert isinstance(put, Put)
        record = records.parse_topic(KeyValue(put.key, put.value, 1, 1))
        epochs = {
            each: seen.brokers[each].epoch if each in seen.brokers else epoch
            for each, epoch in record.broker_epochs.items()
        }
        value = records.topic_value(record._replace(broker_epochs=epochs))
        return made._replace(operations=[put._replace(value=value)])

    patch.setattr(topics, "enlargement", newest)


def _keep_a_successor_that_has_failed(patch: Patch) -> None:
    successor = election._successor

    def keep(state: PartitionState, *args: Any) -> int:
        return successor(state, *args) if state.successor == NO_LEADER else state.successor

    patch.setattr(election, "_successor", keep)


def _withdraw_anybody(patch: Patch) -> None:
    found = Membership.found

    def withdraw(self: Any, look_up: Any, entry: Any, now: float) -> None:
        found(self, look_up, entry, now)
        if self.blocked_by is not None:
            self._look_at, self._withdrawn = None, entry.create_revision

    patch.setattr(Membership, "found", withdraw)


def _register_over_another(patch: Patch) -> None:
    def always(self: Any) -> Any:
        commit = commit_of(self)
        if commit is None or self.phase is not membership.Phase.JOINING:
            return commit
        transaction = commit.transaction
        return commit._replace(
            transaction=transaction._replace(guards=_without(transaction.guards, Absent))
        )

    commit_of = Membership._commit
    patch.setattr(Membership, "_commit", always)


def _give_up_a_registration_that_was_lost(patch: Patch) -> None:
    def believe(self: Any, *_: Any) -> None:
        if self.phase is membership.Phase.JOINING:
            self._joined(1 << 40)

    patch.setattr(Membership, "unknown", believe)


def _keep_what_a_scan_lacks(patch: Patch) -> None:
    load = ClusterImage.load

    def merge(self: ClusterImage, entries: Any, revision: int) -> Any:
        old = dict(self.brokers)
        delta = yield from load(self, entries, revision)
        self.brokers = {**old, **self.brokers}
        return delta

    patch.setattr(ClusterImage, "load", merge)


def _miss_deletions(patch: Patch) -> None:
    apply = ClusterImage._set_all

    def miss(self: Any, entries: Iterable[Any], delta: Any) -> Any:
        kept = [
            (key, entry)
            for key, entry in entries
            if entry is not None or not key.startswith(records.BROKERS)
        ]
        return apply(self, kept, delta)

    patch.setattr(ClusterImage, "_set_all", miss)


def _create_what_exists(patch: Patch) -> None:
    creation = topics.creation

    def unguarded(*args: Any) -> Any:
        made = creation(*args)
        return made._replace(guards=_without(made.guards, Absent))

    patch.setattr(topics, "creation", unguarded)


MUTATIONS: dict[str, Callable[[Patch], None]] = {
    "a controller writes after its term": _write_without_the_office,
    "a draining leader is replaced at once": _replace_a_draining_leader_at_once,
    "a live leader is replaced for balance": _balance_without_the_leader,
    "a leader hands over before it has stopped": _hand_over_before_the_stop,
    "any incarnation of the leader serves": _serve_with_any_incarnation,
    "a broker serves after its lease": _serve_after_the_lease,
    "a restarted leader keeps its epoch": _keep_the_epoch_of_a_restarted_leader,
    "a leader is not of the ISR": _elect_outside_of_the_isr,
    "newer states are overwritten": _overwrite_what_is_newer,
    "lost changes are not repeated": _forget_what_was_lost,
    "refused changes are not repeated": _forget_what_was_refused,
    "the controller misses changes of brokers": _miss_changes_of_brokers,
    "a term begins without a look at what is": _begin_without_a_look,
    "states of deleted topics are left": _leave_states_of_deleted_topics,
    "deleted topics are forgotten early": _forget_deleted_topics_early,
    "an enlargement takes present incarnations": _enlarge_with_present_incarnations,
    "a topic is created twice": _create_what_exists,
    "a successor that has failed is kept": _keep_a_successor_that_has_failed,
    "a registration of another process is withdrawn": _withdraw_anybody,
    "a registration replaces another": _register_over_another,
    "a lost registration counts": _give_up_a_registration_that_was_lost,
    "a scan keeps brokers that are gone": _keep_what_a_scan_lacks,
    "an image misses that brokers end": _miss_deletions,
}
