"""The next state of one partition, given the brokers that are registered.

    the leader    other members of the ISR    next
    runs          any                         itself; a successor that cannot lead is cleared
    drains        one runs                    itself, with that one as successor
    drains        none runs                   itself
    has failed    one runs                    that one, in the order of the replicas
    has failed    only draining ones          the first of them
    has failed    none                        no leader, and the ISR as it is
    none          one runs or drains          that one
    none          none                        no change

A leader has failed when the incarnation that was elected is not registered any more, even if the
broker has another one. Whenever a partition has a leader, its ISR keeps only registered brokers.

A live leader is never replaced by the controller: both would serve until the old one learns of it.
It is given a successor instead; it stops, and then makes the successor the leader by a change of
its own (`hand_over`). If it fails before, the controller elects as for any failed leader. So one
broker serves a partition at any time, if every broker stops before its lease ends.

Brokers that share one data directory have no ISR to choose from: any of them can lead, and becomes
the only replica. `others` are these brokers, in the order of preference.
"""

from collections.abc import Iterable, Mapping, Sequence

from broker.core.cluster.image import LiveBroker
from broker.core.cluster.records import NO_EPOCH, NO_LEADER, PartitionState


def next_state(
    state: PartitionState, brokers: Mapping[int, LiveBroker], others: Sequence[int] | None = None
) -> PartitionState | None:
    """Return what the controller changes a partition's state to; None: nothing.

    Args:
        state: the present one.
        brokers: those that are registered.
        others: brokers that share the data directory; None: each has its own.
    """
    if _has_leader(state, brokers):
        isr = tuple([each for each in state.isr if each in brokers])
        is_settled = state.successor == NO_LEADER and not brokers[state.leader].is_draining
        successor = NO_LEADER if is_settled else _successor(state, brokers, others)
        if successor == state.successor and len(isr) == len(state.isr):
            return None
        changed = state._replace(isr=isr, successor=successor)
    else:
        leader = _first(_candidates(state, others), brokers)
        if leader == NO_LEADER and state.leader == NO_LEADER:
            return None
        changed = _led_by(state, leader, brokers)
    return changed._replace(partition_epoch=state.partition_epoch + 1)


def hand_over(
    state: PartitionState, brokers: Mapping[int, LiveBroker], *, is_shared: bool
) -> PartitionState | None:
    """Return what a leader that has stopped changes the state to; None: no successor can lead."""
    if state.successor not in brokers or not (is_shared or state.successor in state.isr):
        return None
    changed = _led_by(state, state.successor, brokers)
    return changed._replace(partition_epoch=state.partition_epoch + 1)


def prefer(
    state: PartitionState, brokers: Mapping[int, LiveBroker], preferred: int, *, is_shared: bool
) -> PartitionState | None:
    """Return the state in which the leader hands over to the preferred leader.

    None when that one leads already, cannot lead, or the leader hands over to another one.
    """
    if (
        preferred == state.leader
        or state.successor != NO_LEADER
        or not _has_leader(state, brokers)
        or not _runs(preferred, brokers)
        or not (is_shared or preferred in state.isr)
    ):
        return None
    return state._replace(successor=preferred, partition_epoch=state.partition_epoch + 1)


def _has_leader(state: PartitionState, brokers: Mapping[int, LiveBroker]) -> bool:
    broker = brokers.get(state.leader)
    return broker is not None and broker.epoch == state.broker_epoch


def _successor(
    state: PartitionState, brokers: Mapping[int, LiveBroker], others: Sequence[int] | None
) -> int:
    candidates = _candidates(state, others)
    if state.successor in candidates and _runs(state.successor, brokers):
        return state.successor
    if not brokers[state.leader].is_draining:
        return NO_LEADER
    return next((each for each in candidates if _runs(each, brokers)), NO_LEADER)


def _candidates(state: PartitionState, others: Sequence[int] | None) -> Sequence[int]:
    """Return the brokers that have the partition's records, in the order of preference."""
    if others is not None:
        return others
    return [each for each in state.replicas if each in state.isr]


def _first(candidates: Iterable[int], brokers: Mapping[int, LiveBroker]) -> int:
    draining = NO_LEADER
    for each in candidates:
        if _runs(each, brokers):
            return each
        if draining == NO_LEADER and each in brokers:
            draining = each
    return draining


def _runs(broker_id: int, brokers: Mapping[int, LiveBroker]) -> bool:
    broker = brokers.get(broker_id)
    return broker is not None and not broker.is_draining


def _led_by(
    state: PartitionState, leader: int, brokers: Mapping[int, LiveBroker]
) -> PartitionState:
    """Return the state with another leader, or none, or another incarnation of the same one."""
    replicas, isr = state.replicas, state.isr
    if leader == NO_LEADER:
        epoch = NO_EPOCH
    else:
        epoch = brokers[leader].epoch
        if leader in isr:
            isr = tuple(each for each in isr if each in brokers)
        else:  # it shares the data directory
            replicas = isr = (leader,)
    return PartitionState(
        leader, state.leader_epoch + 1, epoch, replicas, isr, state.partition_epoch
    )
