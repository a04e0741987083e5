"""State machines of a cluster with a planted bug: each in one way that the simulation detects."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from broker.core.cluster import (
    controller,
    election,
    eligibility,
    isr,
    membership,
    reassignment,
    records,
    topics,
)
from broker.core.cluster.controller import Controller
from broker.core.cluster.eligibility import Known
from broker.core.cluster.handover import HandOver
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.isr import IsrChanges
from broker.core.cluster.membership import Membership
from broker.core.cluster.records import NO_LEADER, PartitionState
from broker.core.cluster.topic_settings import ReplicaSettings
from broker.core.cluster.writes import GuardedWrites
from broker.storage.metadata import Absent, Delete, Guard, KeyValue, Put
from tests.simulation.cluster.run import ANY, Scenario

Patch = pytest.MonkeyPatch
_ALWAYS = Absent(b"never")  # a guard that holds
_DEFAULTS = ReplicaSettings()


def _without(guards: Sequence[Guard], kind: type) -> list[Guard]:
    return [each for each in guards if not isinstance(each, kind)]


def _write_without_the_office(patch: Patch) -> None:
    begin = Controller.__init__

    def unfenced(self: Any, *args: Any, **named: Any) -> None:
        begin(self, *args, **named)
        self._writes._fence = _ALWAYS

    patch.setattr(Controller, "__init__", unfenced)
    patch.setattr(Controller, "is_in_office", True)


def _replace_a_draining_leader_at_once(patch: Patch) -> None:
    next_state = election.next_state

    def impatient(
        found: Known, settings: Any = _DEFAULTS, others: Any = None, most_first: Any = ()
    ) -> Any:
        changed = next_state(found, settings, others, most_first)
        if changed is None or changed.successor == NO_LEADER:
            return changed
        return _handed_over(found, changed, is_shared=others is not None)

    patch.setattr(election, "next_state", impatient)


def _handed_over(found: Known, changed: PartitionState, *, is_shared: bool) -> Any:
    moved = election.hand_over(found._replace(state=changed), is_shared=is_shared)
    return moved and moved._replace(partition_epoch=changed.partition_epoch)


def _balance_without_the_leader(patch: Patch) -> None:
    prefer = election.prefer

    def impatient(found: Known, preferred: int, *, is_shared: bool) -> Any:
        changed = prefer(found, preferred, is_shared=is_shared)
        return None if changed is None else _handed_over(found, changed, is_shared=is_shared)

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

    def keep(found: Known, leader: int, *args: Any) -> PartitionState:
        changed = led_by(found, leader, *args)
        if leader == found.state.leader:
            return changed._replace(leader_epoch=found.state.leader_epoch)
        return changed

    patch.setattr(election, "_led_by", keep)


def _elect_outside_of_the_isr(patch: Patch) -> None:
    elected = election._elected

    def anybody(found: Known, settings: Any, others: Any) -> int:
        return elected(found, settings, found.state.replicas if others is None else others)

    patch.setattr(election, "_elected", anybody)


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

    def keep(found: Known, *args: Any) -> int:
        kept = found.state.successor
        return successor(found, *args) if kept == NO_LEADER else kept

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


# ---- replicas
# -------------------------------------------------------------------------------------------------


def _grow_an_isr_unguarded(patch: Patch) -> None:
    decide = IsrChanges._decide

    def unguarded(self: Any, item: Any) -> Any:
        change = decide(self, item)
        return change and (change[0][:1], change[1])

    patch.setattr(IsrChanges, "_decide", unguarded)


def _shrink_before_it_is_written(patch: Patch) -> None:
    lagging, maximal = IsrChanges.lagging, IsrChanges.maximal
    removed: dict[tuple[int, Any], set[int]] = {}

    def remove(self: Any, item: Any, replica_id: int) -> None:
        removed.setdefault((id(self), item), set()).add(replica_id)
        self._changed[item] = None
        lagging(self, item, replica_id)

    def without(self: Any, item: Any) -> Any:
        left = removed.get((id(self), item), set())
        return tuple(each for each in maximal(self, item) if each not in left)

    patch.setattr(IsrChanges, "lagging", remove)
    patch.setattr(IsrChanges, "maximal", without)


def _acknowledge_without_those_that_join(patch: Patch) -> None:
    patch.setattr(IsrChanges, "pending", lambda *_: ())


def _join_without_a_second_look(patch: Patch) -> None:
    begin = IsrChanges.__init__

    def trusting(self: Any, *args: Any) -> None:
        begin(self, *args)
        self._is_in_sync = lambda *_: True

    patch.setattr(IsrChanges, "__init__", trusting)


def _drop_those_that_join_with_an_unknown_outcome(patch: Patch) -> None:
    unknown = IsrChanges.unknown

    def drop(self: Any, write: Any, now_ms: int) -> None:
        unknown(self, write, now_ms)
        for item in write.items:
            self._joining.pop(item, None)
            self._changed[item] = None

    patch.setattr(IsrChanges, "unknown", drop)


def _acknowledge_with_an_elr(patch: Patch) -> None:
    patch.setattr(isr, "committed", lambda state: len(state.isr))


def _count_emptied_members(patch: Patch) -> None:
    patch.setattr(Known, "counts", lambda self, each: each in self.brokers)


def _count_emptied_members_of_the_elr(patch: Patch) -> None:
    counts = Known.counts

    def trust(self: Known, each: int) -> bool:
        return (each in self.state.elr and each in self.brokers) or counts(self, each)

    patch.setattr(Known, "counts", trust)


def _name_absent_members_anew(patch: Patch) -> None:
    following = Known.next

    def forget(self: Known, *args: Any) -> PartitionState:
        return following(self, *args)._replace(absent=())

    patch.setattr(Known, "next", forget)


def _name_lost_members_anew(patch: Patch) -> None:
    patch.setattr(Known, "_without", lambda _, __, changed: changed)


def _drop_the_last_member(patch: Patch) -> None:
    def registered(found: Known) -> Any:
        isr, elr = found.state.isr, found.state.elr
        return tuple(x for x in isr if x in found.brokers), elr

    patch.setattr(election, "_without_lost", registered)


def _put_nobody_into_the_elr(patch: Patch) -> None:
    without = eligibility.without

    def forget(*args: Any) -> Any:
        return without(*args)[0], ()

    patch.setattr(eligibility, "without", forget)


def _keep_the_elr(patch: Patch) -> None:
    without = eligibility.without

    def keep(found: Known, members: Any, *args: Any) -> Any:
        changed, elr = without(found, members, *args)
        return changed, elr or tuple(x for x in found.state.elr if x not in changed)

    patch.setattr(eligibility, "without", keep)


def _hand_over_to_who_may_lack_records(patch: Patch) -> None:
    next_state = election.next_state

    def any_successor(
        found: Known, settings: Any = _DEFAULTS, others: Any = None, most_first: Any = ()
    ) -> Any:
        changed = next_state(found, settings, others, most_first)
        if changed is None or others is not None or changed.successor == NO_LEADER:
            return changed
        first = (x for x in found.state.replicas if x != changed.leader and x in found.brokers)
        return changed._replace(successor=next(first, NO_LEADER))

    def hand_over(found: Known, *, is_shared: bool) -> Any:
        successor = found.state.successor
        if successor not in found.brokers or is_shared:
            return handed_over(found, is_shared=is_shared)
        isr = (*found.state.isr, *(() if successor in found.state.isr else (successor,)))
        elr = tuple(x for x in found.state.elr if x != successor)
        return found.next(election._led_by(found, successor, isr, elr))

    handed_over = election.hand_over
    patch.setattr(election, "next_state", any_successor)
    patch.setattr(election, "hand_over", hand_over)


def _complete_a_reassignment_without_its_leader(patch: Patch) -> None:
    advanced = reassignment.advanced

    def hasty(found: Known, settings: Any) -> Any:
        changed = advanced(found, settings)
        if changed is None or changed.successor == NO_LEADER:
            return changed
        return _handed_over(found, changed, is_shared=False)

    patch.setattr(reassignment, "advanced", hasty)


def _complete_a_reassignment_without_who_is_added(patch: Patch) -> None:
    advanced = reassignment.advanced

    def hasty(found: Known, settings: Any) -> Any:
        state = found.state
        members = tuple(each for each in state.replicas if each in found.brokers)
        return advanced(found._replace(state=state._replace(isr=members, elr=())), settings)

    patch.setattr(reassignment, "advanced", hasty)


def _elect_uncleanly_in_any_topic(patch: Patch) -> None:
    elected = election._elected

    def lossy(found: Known, settings: Any, others: Any) -> int:
        return elected(found, settings._replace(is_unclean_allowed=True), others)

    patch.setattr(election, "_elected", lossy)


def _elect_the_first_that_runs(patch: Patch) -> None:
    next_state = election.next_state

    def first(*args: Any, **named: Any) -> Any:
        named.pop("most_first", None)
        return next_state(*args, **named)

    patch.setattr(election, "next_state", first)


def _ask_nobody_how_much_it_has(patch: Patch) -> None:
    begin = Controller.__init__

    def hasty(self: Any, *args: Any, **_: Any) -> None:
        begin(self, *args)

    patch.setattr(Controller, "__init__", hasty)


def _remove_in_the_same_epoch(patch: Patch) -> None:
    advanced = reassignment.advanced

    def keep(found: Known, settings: Any) -> Any:
        changed = advanced(found, settings)
        return changed and changed._replace(leader_epoch=found.state.leader_epoch)

    patch.setattr(reassignment, "advanced", keep)


def _complete_no_reassignment(patch: Patch) -> None:
    patch.setattr(reassignment, "advanced", lambda *_: None)


def _let_nothing_grow(patch: Patch) -> None:
    patch.setattr(Controller, "_has_internal", lambda *_: False)


# Where a bug shows that is rare in runs of everything.
OFFICE = Scenario(
    faults={"stop": 3, "kill": 1}, interval_ms=1_500, controller_rate=0.8, loss_rate=0.3
)
JOINING = Scenario(
    min_isr=1,
    faults={"kill": 2, "empty": 1, "stop": 1},
    loss_rate=0.3,
    frees_at_death=True,
    joiner_loss_rate=0.2,
    joiner_slow_rate=0.4,
)
ELIGIBLE = Scenario(min_isr=2, faults={"kill": 4, "stop": 1}, interval_ms=800, lag_rate=0.3)
LOSSY = Scenario(min_isr=1, is_unclean=True, faults={"kill": 4, "stop": 1}, interval_ms=1_000)
DRAINING = Scenario(faults={"drain": 3, "kill": 2}, interval_ms=1_200, frees_at_death=True)
LOWERED = Scenario(
    min_isr=2,
    faults={"kill": 1, "stop": 2},
    interval_ms=800,
    joiner_slow_rate=0.8,
    lower_rate=1.0,
)
EMPTIED = Scenario(min_isr=2, faults={"kill": 2, "empty": 3, "stop": 1}, interval_ms=1_500)

# The first seed that finds a bug there; it moves when the product changes.
RARE = {
    "a controller writes after its term": (77, OFFICE),
    "any incarnation of the leader serves": (34, ANY),
    "a reassignment removes a leader that leads": (15, ANY),
    "internal topics do not grow": (120, ANY),
    "lost changes are not repeated": (35, OFFICE),
    "refused changes are not repeated": (248, ELIGIBLE),
    "a successor that has failed is kept": (173, ANY),
    "an ISR grows whoever its members are by then": (30, JOINING),
    "who has caught up once joins the ISR": (47, JOINING),
    "who joins is dropped when a write may be lost": (329, JOINING),
    "a partition with an ELR acknowledges": (9, LOWERED),
    "absent members are named anew": (5, EMPTIED),
    "members that were emptied are named anew": (37, EMPTIED),
    "an ELR is never emptied": (132, ELIGIBLE),
    "a successor may lack records": (25, DRAINING),
    "an unclean election takes the first that runs": (9, LOSSY),
    "nobody is asked before an unclean election": (0, LOSSY),
}

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
    "an ISR grows whoever its members are by then": _grow_an_isr_unguarded,
    "an ISR shrinks before that is written": _shrink_before_it_is_written,
    "who joins the ISR is not waited for": _acknowledge_without_those_that_join,
    "who has caught up once joins the ISR": _join_without_a_second_look,
    "who joins is dropped when a write may be lost": _drop_those_that_join_with_an_unknown_outcome,
    "a partition with an ELR acknowledges": _acknowledge_with_an_elr,
    "members that were emptied count": _count_emptied_members,
    "members of an ELR that were emptied count": _count_emptied_members_of_the_elr,
    "absent members are named anew": _name_absent_members_anew,
    "members that were emptied are named anew": _name_lost_members_anew,
    "the last member leaves an ISR": _drop_the_last_member,
    "an ELR is empty": _put_nobody_into_the_elr,
    "an ELR is never emptied": _keep_the_elr,
    "a successor may lack records": _hand_over_to_who_may_lack_records,
    "a reassignment removes a leader that leads": _complete_a_reassignment_without_its_leader,
    "a reassignment ends before who is added is in sync": (
        _complete_a_reassignment_without_who_is_added
    ),
    "no reassignment is completed": _complete_no_reassignment,
    "a removal keeps the leader epoch": _remove_in_the_same_epoch,
    "an election is unclean in any topic": _elect_uncleanly_in_any_topic,
    "an unclean election takes the first that runs": _elect_the_first_that_runs,
    "nobody is asked before an unclean election": _ask_nobody_how_much_it_has,
    "internal topics do not grow": _let_nothing_grow,
}
