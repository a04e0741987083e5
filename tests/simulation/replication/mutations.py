"""Replication with a planted bug: each in one way that the simulation detects."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from broker._native.log import moving
from broker.core.cluster import election, eligibility, records
from broker.core.cluster.eligibility import Known
from broker.core.cluster.isr import IsrChanges
from broker.core.cluster.records import NO_LEADER, PartitionState
from broker.storage.checkpoints import intact
from broker.storage.files.folder_copy import FolderCopy
from broker.storage.recovery import truncation
from broker.storage.recovery.partitions import Partitions
from tests.simulation.cluster.mutations import MUTATIONS as OF_CLUSTER
from tests.simulation.replication.broker import Asked, ReplicatedBroker
from tests.simulation.replication.run import ANY, Scenario
from tests.simulation.replication.storage import Disks, Storage

Patch = pytest.MonkeyPatch
_MANY = 99


# ---- acknowledgements and reads
# -------------------------------------------------------------------------------------------------


def _acknowledge_what_the_leader_has(patch: Patch) -> None:
    def alone(self: Any, log: Any, _: int, end: int, written: Any) -> None:
        self._written.append((log, end, written))

    patch.setattr(ReplicatedBroker, "await_written", alone)


def _wait_for_enough_members_only(patch: Patch) -> None:
    maximal = IsrChanges.maximal

    def enough(self: Any, item: Any) -> Any:
        min_isr = self._settings.topic(item[0]).min_isr
        members = sorted(maximal(self, item), key=lambda each: each != self._broker_id)
        return tuple(members[:min_isr])

    patch.setattr(IsrChanges, "maximal", enough)


def _acknowledge_what_failed(patch: Patch) -> None:
    patch.setattr(ReplicatedBroker, "may_acknowledge", lambda *_, **__: True)


def _acknowledge_repeated_batches_at_once(patch: Patch) -> None:
    await_written = ReplicatedBroker.await_written

    def hasty(self: Any, log: Any, acks: int, end: int, written: Any) -> None:
        if end < log.log_end_offset:  # it is not the last batch, so it is a repeated one
            written(True)
        else:
            await_written(self, log, acks, end, written)

    patch.setattr(ReplicatedBroker, "await_written", hasty)


def _show_what_is_not_committed(patch: Patch) -> None:
    patch.setattr(
        ReplicatedBroker, "visible", lambda _, log, offset: log.read_for_replica(offset, 4_000)
    )


def _show_an_old_end(patch: Patch) -> None:
    patch.setattr(ReplicatedBroker, "knows_latest", lambda *_: True)


def _ignore_min_isr(patch: Patch) -> None:
    patch.setattr(IsrChanges, "committed", lambda *_: _MANY)


# ---- the logs
# -------------------------------------------------------------------------------------------------


def _send_the_position_before_its_sync(patch: Patch) -> None:
    patch.setattr(ReplicatedBroker, "position_of", lambda _, log: log.log_end_offset)


def _cut_at_the_watermark(patch: Patch) -> None:
    def follow(self: Any, log: Any, leader_epoch: int) -> None:
        log.follow(leader_epoch)
        self.storage.truncate(log, log.high_watermark)

    patch.setattr(ReplicatedBroker, "follow", follow)


def _ignore_what_diverges(patch: Patch) -> None:
    patch.setattr(ReplicatedBroker, "diverges", lambda *_: None)


def _note_before_it_diverges(patch: Patch) -> None:
    look = ReplicatedBroker.look

    def hasty(self: Any, asked: Asked, replica: tuple[int, int], *, noting: bool) -> Any:
        log = self.logs.get(asked.item)
        if noting and log is not None and not log.is_follower:
            self.note(log, replica, asked.offset)
        return look(self, asked, replica, noting=False)

    patch.setattr(ReplicatedBroker, "look", hasty)


def _cut_nothing(patch: Patch) -> None:
    patch.setattr(ReplicatedBroker, "cut_point", lambda _, log, __: log.log_end_offset)


def _cut_where_the_leader_says(patch: Patch) -> None:
    patch.setattr(ReplicatedBroker, "cut_point", lambda *each: each[2][1])


def _cut_too_much(patch: Patch) -> None:
    patch.setattr(ReplicatedBroker, "cut_point", lambda *_: 0)


def _keep_the_last_epoch(patch: Patch) -> None:
    def lead(self: Any, log: Any, state: PartitionState, isr: list[int], committed: int) -> None:
        epoch = max(log.leader_epoch, log.known_epoch)
        log.lead(epoch, self.broker_id, list(state.replicas), isr, committed)

    patch.setattr(ReplicatedBroker, "lead", lead)
    patch.setattr(ReplicatedBroker, "is_epoch_right", lambda *_: True)
    patch.setattr(ReplicatedBroker, "may_acknowledge", lambda *_, is_good: is_good)


def _forget_the_epoch_of_a_leader(patch: Patch) -> None:
    def diverges(_: Any, log: Any, asked: Asked) -> tuple[int, int] | None:
        entries = [each for each in log.epoch_entries if each[0] < log.known_epoch]
        starts = [start for epoch, start in entries if epoch > asked.last_epoch]
        end = min([*starts, log.log_end_offset])
        last = max([epoch for epoch, _ in entries if epoch <= asked.last_epoch], default=-1)
        is_same = asked.last_epoch in (last, log.known_epoch)
        return None if asked.offset == 0 or (is_same and asked.offset <= end) else (last, end)

    patch.setattr(ReplicatedBroker, "diverges", diverges)


class _Unclamped:
    """A log with a high watermark that somebody has told it."""

    def __init__(self, log: Any, watermark: int) -> None:
        self._log = log
        self.high_watermark = watermark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def _believe_any_watermark(patch: Patch) -> None:
    append = ReplicatedBroker.append

    def believe(self: Any, log: Any, each: Any, epoch: int) -> None:
        append(self, log, each, epoch)
        if each.watermark > log.high_watermark:
            self.logs[each.item] = _Unclamped(log, each.watermark)

    patch.setattr(ReplicatedBroker, "append", believe)


def _tell_the_end_as_the_watermark(patch: Patch) -> None:
    patch.setattr(ReplicatedBroker, "watermark_of", lambda _, log: log.log_end_offset)


def _serve_followers_of_other_epochs(patch: Patch) -> None:
    patch.setattr(ReplicatedBroker, "is_epoch_right", lambda *_: True)


def _show_everything_after_a_restart(patch: Patch) -> None:
    patch.setattr(Partitions, "_restore_watermark", lambda *_: None)


def _keep_the_end_as_the_watermark(patch: Patch) -> None:
    def note(self: Any, log: Any) -> None:
        self._offsets.note_watermark((log.topic, log.partition), log.log_end_offset)

    patch.setattr(Partitions, "_note_watermark", note)


def _keep_epochs_that_were_cut(patch: Patch) -> None:
    patch.setattr(truncation, "_epochs_before", lambda log, _: log.epoch_entries)


def _sync_nothing(patch: Patch) -> None:
    begin_syncs = Disks.begin_syncs

    def lie(self: Any, commit: Any) -> Any:
        begin_syncs(self, commit)
        return []

    patch.setattr(Disks, "begin_syncs", lie)


def _copy_what_was_cut(patch: Patch) -> None:
    def ignore(self: Any) -> None:
        self._cut = moving.last_cut(self.log)

    patch.setattr(FolderCopy, "_follow_cut", ignore)


# ---- the ISR
# -------------------------------------------------------------------------------------------------


def _count_a_shrink_before_it_is_written(patch: Patch) -> None:
    maximal, lagging = IsrChanges.maximal, IsrChanges.lagging
    removed: dict[Any, set[int]] = {}

    def note(self: Any, item: Any, replica_id: int) -> None:
        lagging(self, item, replica_id)
        self._changed[item] = None
        removed.setdefault((id(self), item), set()).add(replica_id)

    def without(self: Any, item: Any) -> Any:
        gone = removed.get((id(self), item), set())
        return tuple(each for each in maximal(self, item) if each not in gone)

    patch.setattr(IsrChanges, "lagging", note)
    patch.setattr(IsrChanges, "maximal", without)


def _wait_for_members_only(patch: Patch) -> None:
    def stored(self: Any, item: Any) -> Any:
        return self._image.state(*item).isr

    patch.setattr(IsrChanges, "maximal", stored)


def _add_without_a_second_look(patch: Patch) -> None:
    patch.setattr(ReplicatedBroker, "is_in_sync", lambda *_: True)


def _add_any_incarnation(patch: Patch) -> None:
    patch.setattr(Known, "guards", lambda *_: [])


def _believe_any_incarnation(patch: Patch) -> None:
    def note(self: Any, log: Any, replica: tuple[int, int], offset: int) -> None:
        registered = self.image.brokers.get(replica[0])
        if registered is not None:
            log.report(replica[0], offset, registered.epoch)

    patch.setattr(ReplicatedBroker, "is_registered", lambda *_: True)
    patch.setattr(ReplicatedBroker, "note", note)


def _keep_the_eligible(patch: Patch) -> None:
    def keep(found: Known, isr: Any, removed: Any, _: int) -> Any:
        members = tuple(each for each in found.state.replicas if each in isr)
        eligible = {*found.state.elr, *removed}.difference(members)
        return members, tuple(each for each in found.state.replicas if each in eligible)

    patch.setattr(eligibility, "without", keep)
    patch.setattr("broker.core.cluster.isr.committed", lambda state: len(state.isr))


# ---- elections
# -------------------------------------------------------------------------------------------------


def _keep_intact_since(patch: Patch) -> None:
    def keep(self: Any) -> None:
        since = self.intact.since
        wipe(self)
        (self._folder / intact.FILE_NAME).write_text(f"since={since}\n")

    wipe = Storage.wipe
    patch.setattr(Storage, "wipe", keep)


def _keep_what_is_damaged(patch: Patch) -> None:
    patch.setattr(ReplicatedBroker, "is_repaired", lambda *_: False)


def _lose_records_silently(patch: Patch) -> None:
    patch.setattr(intact.Intact, "lost", lambda _: None)


def _count_registrations_at_once(patch: Patch) -> None:
    value = records.registration_value
    patch.setattr(records, "registration_value", lambda each: value(each._replace(is_fenced=False)))


def _elect_any_replica(patch: Patch) -> None:
    def live(found: Known) -> list[int]:
        return [each for each in found.state.replicas if each in found.brokers]

    patch.setattr(election, "candidates", live)


def _lead_with_any_incarnation(patch: Patch) -> None:
    def serve(self: PartitionState, broker_id: int, _: int) -> bool:
        return self.leader == broker_id and self.successor == NO_LEADER

    patch.setattr(PartitionState, "is_served_by", serve)
    patch.setattr(ReplicatedBroker, "_leads", lambda self, state: state.leader == self.broker_id)


# ---- unclean elections and reassignments
# -------------------------------------------------------------------------------------------------


def _keep_the_watermark(patch: Patch) -> None:
    truncate = Storage.truncate

    def keep(self: Any, log: Any, offset: int, *, is_anew: bool = False) -> bool:
        return truncate(self, log, max(offset, log.high_watermark), is_anew=is_anew)

    patch.setattr(Storage, "truncate", keep)


def _tell_nobody_what_is_lost(patch: Patch) -> None:
    patch.setattr(truncation, "_tell_removed", lambda *_: None)


def _leave_before_the_others_have_everything(patch: Patch) -> None:
    def is_wanted(self: ReplicatedBroker, state: PartitionState) -> bool:
        return self.broker_id in state.replicas and self.broker_id not in state.removing

    patch.setattr(ReplicatedBroker, "is_wanted", is_wanted)


def _give_up_for_any_replica(patch: Patch) -> None:
    def give_up(found: Known, broker_id: int, _: Any) -> PartitionState | None:
        state = found.state
        others = [each for each in state.replicas if each != broker_id and each in found.brokers]
        if state.leader != broker_id or not others:
            return None
        epoch = found.brokers[others[0]].epoch
        changed = state._replace(leader=others[0], broker_epoch=epoch, isr=(others[0],), elr=())
        return found.next(
            changed._replace(leader_epoch=state.leader_epoch + 1, successor=NO_LEADER)
        )

    patch.setattr(election, "give_up", give_up)


def _give_up_the_last_copy(patch: Patch) -> None:
    give_up = election.give_up

    def hasty(found: Known, broker_id: int, settings: Any) -> PartitionState | None:
        state = found.state
        if state.isr != (broker_id,) or state.leader != broker_id:
            return give_up(found, broker_id, settings)
        changed = state._replace(leader=NO_LEADER, broker_epoch=0, isr=(), successor=NO_LEADER)
        return found.next(changed._replace(leader_epoch=state.leader_epoch + 1))

    patch.setattr(election, "give_up", hasty)


class Mutation(NamedTuple):
    """A planted bug, and where it is looked for.

    `first_seed` is the first one that finds it, of all runs or of those of a scenario.
    """

    apply: Callable[[Patch], None]
    first_seed: int = 0
    scenario: Scenario = ANY


def _of_cluster(name: str, first_seed: int = 0, scenario: Scenario = ANY) -> Mutation:
    return Mutation(OF_CLUSTER[name], first_seed, scenario)


# Where a bug shows that is rare in runs of everything.
LEASES = Scenario(faults={"stop": 3, "cut": 1}, interval_ms=1_000)
DIVERGING = Scenario(size=3, factor=3, faults={"lone": 3, "kill": 1}, interval_ms=1_000)
LAGGING = Scenario(
    *(3, 3, 1), faults={"slow": 4, "kill": 1}, interval_ms=1_000, lag_rate=0.5, store_loss_rate=0.1
)
WIPED = Scenario(
    faults={"wipe": 3, "kill": 2},
    interval_ms=1_000,
    loss_rate=0.5,
    store_loss_rate=0.1,
    repeat_rate=0.3,
)
# Brokers fail while they register, and what they have asked of the store comes late.
REGISTERING = Scenario(
    size=4, factor=3, min_isr=1, faults={"wipe": 1}, interval_ms=50, store_loss_rate=0.8
)
DAMAGED = Scenario(faults={"damage": 3, "kill": 1}, interval_ms=1_000, segment_bytes=4_096)
# Each of two is eligible while the other one leads alone, and has what that one lacks.
ALTERNATING = Scenario(size=2, factor=2, min_isr=2, faults={"lone": 3, "last": 2}, interval_ms=300)
# The controller has much to write whenever it loses its office.
OFFICE = Scenario(
    size=4,
    reassigns=True,
    faults={"stop": 3, "drain": 1, "kill": 1},
    interval_ms=1_000,
    controller_rate=0.8,
    lag_rate=0.0,
)
REASSIGNED = Scenario(reassigns=True)
FAILING = Scenario(size=3, factor=3, faults={"kill": 1}, interval_ms=1_000, log_failures=True)
MOVING = Scenario(
    size=3,
    factor=3,
    faults={"lone": 3, "slow": 3, "drain": 2, "stop": 2},
    interval_ms=300,
    moves=True,
)
UNCLEAN = Scenario(
    size=3,
    factor=3,
    min_isr=1,
    unclean="setting",
    faults={"last": 3, "kill": 1},
    interval_ms=1_000,
)

MUTATIONS = {
    "a leader acknowledges what it has alone": Mutation(_acknowledge_what_the_leader_has),
    "records wait for min.insync.replicas members only": Mutation(_wait_for_enough_members_only),
    "a leader acknowledges what has failed": Mutation(_acknowledge_what_failed, 10),
    "repeated batches are acknowledged at once": Mutation(_acknowledge_repeated_batches_at_once, 5),
    "consumers see what is not committed": Mutation(_show_what_is_not_committed),
    "a new leader tells an old end": Mutation(_show_an_old_end, 6),
    "min.insync.replicas is ignored": Mutation(_ignore_min_isr, 3),
    "a leader serves after its lease": _of_cluster(
        "a broker serves after its lease", scenario=LEASES
    ),
    "a position is sent before its sync": Mutation(_send_the_position_before_its_sync),
    "a follower cuts its log at the high watermark": Mutation(_cut_at_the_watermark, 2),
    "a diverging end is ignored": Mutation(_ignore_what_diverges, 7),
    "a position counts before it diverges": Mutation(_note_before_it_diverges, 47, DIVERGING),
    "a follower does not cut its log": Mutation(_cut_nothing, 2, DIVERGING),
    "a follower cuts where the leader says only": Mutation(
        _cut_where_the_leader_says, 10, ALTERNATING
    ),
    "a follower begins anew": Mutation(_cut_too_much, 2, DIVERGING),
    "a leader keeps the epoch before its own": Mutation(_keep_the_last_epoch),
    "a leader forgets the entry of its epoch": Mutation(
        _forget_the_epoch_of_a_leader, 8, DIVERGING
    ),
    "a follower believes any high watermark": Mutation(_believe_any_watermark),
    "a leader tells its end as the high watermark": Mutation(_tell_the_end_as_the_watermark),
    "a leader serves followers of other epochs": Mutation(
        _serve_followers_of_other_epochs, 5, DIVERGING
    ),
    "a restart shows everything": Mutation(_show_everything_after_a_restart, 7),
    "a checkpoint has the end as the high watermark": Mutation(_keep_the_end_as_the_watermark, 13),
    "epochs that were cut are kept": Mutation(_keep_epochs_that_were_cut, 5, DIVERGING),
    "a copy keeps what its log has lost to a cut": Mutation(_copy_what_was_cut, 41, MOVING),
    "a sync does nothing": Mutation(_sync_nothing, 1),
    "a shrink counts before it is written": Mutation(_count_a_shrink_before_it_is_written),
    "who is being added does not count": Mutation(_wait_for_members_only, 6, LAGGING),
    "who is added is not looked at again": Mutation(_add_without_a_second_look, 163, LAGGING),
    "any incarnation is added": Mutation(_add_any_incarnation, 5, WIPED),
    "requests of any incarnation count": Mutation(_believe_any_incarnation, 81, WIPED),
    "eligible replicas are kept": Mutation(_keep_the_eligible, 1),
    "who has lost its disk counts": _of_cluster("members that were emptied count", 13),
    "absent members are forgotten": _of_cluster("absent members are named anew", 26, WIPED),
    "a wiped disk is intact": Mutation(_keep_intact_since, 5),
    "a late registration counts at once": Mutation(_count_registrations_at_once, 2, REGISTERING),
    "a broker that has lost records tells nobody": Mutation(_lose_records_silently, 26),
    "damaged records stay in a copy": Mutation(_keep_what_is_damaged, 5, DAMAGED),
    "any live replica is elected": Mutation(_elect_any_replica, 1),
    "a controller writes after its term": _of_cluster(
        "a controller writes after its term", 39, OFFICE
    ),
    "newer states are overwritten": _of_cluster("newer states are overwritten", 6),
    "any incarnation of the leader leads": Mutation(_lead_with_any_incarnation, 13),
    "a restarted leader keeps its epoch": _of_cluster("a restarted leader keeps its epoch", 10),
    "an election is unclean in any topic": _of_cluster("an election is unclean in any topic", 1),
    "an unclean election takes the first that runs": _of_cluster(
        "an unclean election takes the first that runs", 14, scenario=UNCLEAN
    ),
    "the high watermark is kept over an unclean election": Mutation(
        _keep_the_watermark, 10, scenario=UNCLEAN
    ),
    "nobody tells what an unclean election has lost": Mutation(
        _tell_nobody_what_is_lost, 1, scenario=UNCLEAN
    ),
    "a reassignment ends before who is added is in sync": _of_cluster(
        "a reassignment ends before who is added is in sync", 1, scenario=REASSIGNED
    ),
    "any live replica leads after a failed log": Mutation(
        _give_up_for_any_replica, scenario=FAILING
    ),
    "the last member gives up with a failed log": Mutation(
        _give_up_the_last_copy, scenario=FAILING
    ),
    "a reassignment removes replicas at its beginning": Mutation(
        _leave_before_the_others_have_everything, scenario=REASSIGNED
    ),
}
