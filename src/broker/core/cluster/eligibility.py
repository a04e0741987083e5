"""Which members of an ISR or ELR may be relied on: those that have every acknowledged record.

    a member                                      it is     what becomes of it
    not registered, or fenced                     absent    it may come back, with or without a disk
    registered, its directory intact since the    counting  it may be elected, and stays a member
    revision as of which the state names it
    registered, its directory intact since later  lost      it is removed by the next write of the
                                                            state, whoever makes it, also as the
                                                            last member

A state names a member as of the revision at which it was written, because that transaction had the
guard that the member was registered in the incarnation that the writer knew: it has lost nothing
between its registration and that revision. A member that was not registered then may have lost its
disk and registered before, without the writer's knowledge; so the state keeps as of which earlier
revision it is named (`PartitionState.absent`). The guard of such a write is that the member is
still not registered, or still fenced. A partition without a key names its members as of their
placement.

`intact_since` of a registration is a revision, too: since when the broker's directory has
everything that it had acknowledged. A restart keeps it, so all brokers may be killed at once and
any member of an ISR may be elected. An emptied directory begins anew, with its registration.

A partition with a single replica, besides those that are being added and are no members yet, has no
other copy to wait for: that replica always counts.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from broker.core.cluster import records
from broker.core.cluster.image import ClusterImage, LiveBroker
from broker.core.cluster.records import NO_EPOCH, NO_LEADER, PartitionState, Replicas
from broker.core.cluster.writes import Change, Item
from broker.storage.metadata import Absent, CreatedAt, Guard, Put, Unchanged

_NOBODY: Mapping[int, LiveBroker] = {}


class Known(NamedTuple):
    """The state of a partition, and what its members are by the brokers that are registered."""

    state: PartitionState
    revision: int  # as of which the state names those that are not `absent`
    brokers: Mapping[int, LiveBroker]
    fenced: Mapping[int, LiveBroker] = _NOBODY  # registered, and not counting yet

    def counts(self, broker_id: int) -> bool:
        """Return whether a member of the ISR or ELR is registered and has lost nothing."""
        broker = self.brokers.get(broker_id)
        if broker is None:
            return False
        # (Asked twenty times for each partition that a failed broker has led.)
        as_of = self._as_of(broker_id) if self.state.absent else self.revision
        return broker.intact_since <= as_of or self.has_only_copy(broker_id)

    def has_only_copy(self, broker_id: int) -> bool:
        """Return whether no other replica is a member, or has ever been one."""
        state = self.state
        others = state.isr + state.elr + tuple(set(state.replicas).difference(state.adding))
        return broker_id in state.replicas and all(each == broker_id for each in others)

    def is_lost(self, broker_id: int) -> bool:
        """Return whether a member is registered and may have lost something."""
        return broker_id in self.brokers and not self.counts(broker_id)

    def next(self, changed: PartitionState, joined: Collection[int] = ()) -> PartitionState:
        """Return a changed state as the next one: without the members that were lost before.

        With them it would name them as of its own revision. A leader among them has failed. Those
        that have `joined` have everything by now. What is known of absent members is kept, and who
        the last members were.
        """
        members = self.state.isr + self.state.elr
        lost = {each for each in members if self.is_lost(each) and each not in joined}
        if lost:
            changed = self._without(lost, changed)
        absent: tuple[tuple[int, int], ...] = ()
        if len(changed.replicas) > 1:
            members = changed.isr + changed.elr
            absent = tuple(
                [(each, self._as_of(each)) for each in members if each not in self.brokers]
            )
        return changed._replace(
            partition_epoch=self.state.partition_epoch + 1,
            absent=absent,
            last_known=self._last_known(changed),
        )

    def _last_known(self, changed: PartitionState) -> Replicas:
        """Return who was a member until a changed state has none, in the order of the replicas."""
        if changed.isr or changed.elr:
            return ()
        last = self.state.last_known or self.state.isr + self.state.elr
        return tuple([each for each in changed.replicas if each in last])

    def _without(self, lost: set[int], changed: PartitionState) -> PartitionState:
        leader = changed.leader
        if leader in lost:
            if self.brokers[leader].epoch == changed.broker_epoch:
                lost = lost - {leader}  # it has been elected uncleanly
            else:
                changed = changed._replace(
                    leader=NO_LEADER,
                    leader_epoch=changed.leader_epoch + 1,
                    broker_epoch=NO_EPOCH,
                    successor=NO_LEADER,
                )
        return changed._replace(
            isr=tuple([each for each in changed.isr if each not in lost]),
            elr=tuple([each for each in changed.elr if each not in lost]),
        )

    def guards(self, changed: PartitionState) -> list[Guard]:
        """Return the guards that each member of a state is in the incarnation known here."""
        members = changed.isr + changed.elr
        if changed.leader != NO_LEADER and changed.leader not in members:
            members += (changed.leader,)
        return [self._guard(each) for each in members]

    def _guard(self, broker_id: int) -> Guard:
        key, broker = records.broker_key(broker_id), self.brokers.get(broker_id)
        if broker is not None:
            return CreatedAt(key, broker.epoch)
        fenced = self.fenced.get(broker_id)
        return Absent(key) if fenced is None else Unchanged(key, fenced.mod_revision)

    def _as_of(self, broker_id: int) -> int:
        for member, revision in self.state.absent:
            if member == broker_id:
                return revision
        return self.revision


def known(image: ClusterImage, topic_id: bytes, partition: int) -> Known | None:
    """Return what an image knows of a partition; None if there is no such partition."""
    state = image.state(topic_id, partition)
    if state is None:
        return None
    return Known(state, image.revision_of(topic_id, partition), image.brokers, image.fenced)


def change(image: ClusterImage, item: Item, found: Known, changed: PartitionState) -> Change:
    """Return the write of a state that was made of what is known, with its guards.

    They are that the state is still that of the image, and `Known.guards`.
    """
    guard = image.guard(*item)
    return (guard, *found.guards(changed)), Put(guard.key, records.partition_value(changed))


def counts(image: ClusterImage, item: Item, broker_id: int) -> bool:
    """Return whether a broker is a member that has every acknowledged record."""
    found = known(image, *item)
    if found is None or broker_id not in found.state.isr + found.state.elr:
        return False
    return found.counts(broker_id)


def without(
    found: Known, isr: Replicas, removed: Replicas, min_isr: int
) -> tuple[Replicas, Replicas]:
    """Return the ISR and the ELR of a state whose ISR becomes another one.

    Args:
        found: the present state.
        isr: the next ISR, in any order.
        removed: who leaves it, and has lost nothing that is known.
        min_isr: the min.insync.replicas in force.

    While an ISR has fewer members nothing is acknowledged, so those that have left it since have
    all that was. Lost members are in neither.
    """
    replicas = found.state.replicas
    members = tuple([each for each in replicas if each in isr])
    if len(members) >= min_isr:
        return members, ()
    eligible = {*found.state.elr, *removed}.difference(members)
    return members, tuple(
        [each for each in replicas if each in eligible and not found.is_lost(each)]
    )
