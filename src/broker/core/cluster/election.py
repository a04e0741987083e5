"""The next state of one partition, given the brokers that are registered.

    the leader    other members of the ISR    next
    runs          any                         itself; a successor that cannot lead is cleared
    is fenced     any                         no change: a broker of a release that does not know
                                              of that has elected it, and it may serve soon
    drains        one runs                    itself, with that one as successor
    drains        none runs                   itself
    has failed    one runs                    that one, in the order of the replicas
    has failed    only draining ones          the first of them
    has failed    none, but of the ELR        one of those, by the same order
    has failed    none at all                 any live replica, if unclean elections are allowed;
                                              else no leader, and ISR and ELR as they are
    none          as if it had failed         one of them, or no change

A leader has failed when the incarnation that was elected is not registered any more, even if the
broker has another one. Only members that count are elected (eligibility.py).

    a member of the ISR         and a leader                        and no leader
    counts                      stays                               stays
    is not registered           leaves; into the ELR if the ISR is  stays
                                below min.insync.replicas then
    is lost                     leaves                              leaves

    a member of the ELR         next
    counts or is absent         stays while the ISR is below min.insync.replicas
    is lost                     leaves

An unclean election makes the new leader the only member of the ISR, and empties the ELR.

A live leader is never replaced by the controller: both would serve until the old one learns of it.
It is given a successor instead; it stops, and then makes the successor the leader by a change of
its own (`hand_over`). If it fails before, the controller elects as for any failed leader. A leader
whose log has failed serves nothing, and gives up by itself (`give_up`). So one broker serves a
partition at any time, if every broker stops before its lease ends.

Brokers that share one data directory have no ISR to choose from: any of them can lead, and becomes
the only replica. `others` are these brokers, in the order of preference.
"""

from collections.abc import Iterable, Mapping, Sequence

from broker.core.cluster import eligibility
from broker.core.cluster.eligibility import Known
from broker.core.cluster.image import LiveBroker
from broker.core.cluster.records import NO_EPOCH, NO_LEADER, PartitionState, Replicas
from broker.core.cluster.topic_settings import ReplicaSettings

_DEFAULTS = ReplicaSettings()


def next_state(
    found: Known,
    settings: ReplicaSettings = _DEFAULTS,
    others: Sequence[int] | None = None,
    most_first: Sequence[int] = (),
) -> PartitionState | None:
    """Return what the controller changes a partition's state to; None: nothing.

    Args:
        found: the present one, and the brokers that are registered.
        settings: of the topic.
        others: brokers that share the data directory; None: each has its own.
        most_first: replicas, those with the most records first, for an unclean election; none:
            that is not known.
    """
    state = found.state
    if _is_leader_fenced(found):
        return None
    if has_leader(found):
        if others is None and _is_settled(found):
            return None
        isr, elr = _members(found, (state.leader, *_counting(found)), settings)
        stays = state.successor == NO_LEADER and not found.brokers[state.leader].is_draining
        successor = NO_LEADER if stays else _successor(found, others)
        changed = state._replace(isr=isr, elr=elr, successor=successor)
    else:
        leader = _elected(found, settings, others)
        if is_unclean(found, leader) and others is None and most_first:
            leader = _first([each for each in most_first if each in state.replicas], found.brokers)
        changed = _without_leader(found) if leader == NO_LEADER else _led(found, leader, settings)
    return None if _are_equal(changed, state) else found.next(changed)


def hand_over(found: Known, *, is_shared: bool) -> PartitionState | None:
    """Return what a leader that has stopped changes the state to; None: no successor can lead.

    Members that are not registered stay: the controller removes them.
    """
    successor = found.state.successor
    if not _can_lead(found, successor, is_shared=is_shared):
        return None
    if is_shared:
        return found.next(_led_by(found, successor, (successor,), ()))
    return found.next(_led_by(found, successor, *_without_lost(found)))


def prefer(found: Known, preferred: int, *, is_shared: bool) -> PartitionState | None:
    """Return the state in which the leader hands over to the preferred leader.

    None when that one leads already, cannot lead, or the leader hands over to another one.
    """
    state = found.state
    if (
        preferred == state.leader
        or state.successor != NO_LEADER
        or not has_leader(found)
        or not runs(preferred, found.brokers)
        or not _can_lead(found, preferred, is_shared=is_shared)
    ):
        return None
    return found.next(state._replace(successor=preferred))


def give_up(
    found: Known, broker_id: int, settings: ReplicaSettings = _DEFAULTS
) -> PartitionState | None:
    """Return the state without a member whose log has failed; None: it has to stay.

    It is no member any more, and if it leads, another member does, or an eligible replica if the
    ISR has no other: as after a failure of the broker. It stays while no other member counts: those
    that are absent may come back without their records, and it with all of its own.
    """
    state = found.state
    in_isr = [each for each in candidates(found) if each != broker_id]
    elr = tuple([each for each in state.elr if each != broker_id])
    counting = in_isr or [each for each in elr if found.counts(each)]
    if not counting or broker_id not in (state.leader, *state.isr, *state.elr):
        return None
    if state.leader != broker_id:
        isr = tuple([each for each in state.isr if each != broker_id])
        return found.next(state._replace(isr=isr, elr=elr))
    leader = _first(counting, found.brokers)
    isr, elr = _members(found, in_isr or (leader,), settings)
    elr = tuple([each for each in elr if each != broker_id])
    return found.next(_led_by(found, leader, isr, elr))


def has_leader(found: Known) -> bool:
    """Return whether the incarnation that was elected is registered."""
    broker = found.brokers.get(found.state.leader)
    return broker is not None and broker.epoch == found.state.broker_epoch


def _is_leader_fenced(found: Known) -> bool:
    broker = found.fenced.get(found.state.leader)
    return broker is not None and broker.epoch == found.state.broker_epoch


def runs(broker_id: int, brokers: Mapping[int, LiveBroker]) -> bool:
    """Return whether a broker is registered and does not drain."""
    broker = brokers.get(broker_id)
    return broker is not None and not broker.is_draining


def candidates(found: Known) -> list[int]:
    """Return the members of the ISR that may be elected, in the order of the replicas."""
    isr = found.state.isr
    return [each for each in found.state.replicas if each in isr and found.counts(each)]


def is_unclean(found: Known, leader: int) -> bool:
    """Return whether a broker that is elected may lack records that were acknowledged."""
    if leader == NO_LEADER:
        return False
    return leader not in found.state.isr + found.state.elr or not found.counts(leader)


def _is_settled(found: Known) -> bool:
    """Return whether the leader stays, and all members do: so it is with most partitions."""
    state = found.state
    return (
        state.successor == NO_LEADER
        and not state.elr
        and state.leader in state.isr
        and len(_counting(found)) == len(state.isr)
        and not found.brokers[state.leader].is_draining
    )


def _elected(found: Known, settings: ReplicaSettings, others: Sequence[int] | None) -> int:
    """Return the next leader of a partition without a live one, or NO_LEADER."""
    state, brokers = found.state, found.brokers
    if others is not None:
        return _first(others, brokers)
    leader = _first(candidates(found), brokers)
    if leader == NO_LEADER and state.elr:
        leader = _first([each for each in state.elr if found.counts(each)], brokers)
    if leader == NO_LEADER and settings.is_unclean_allowed:
        leader = _first(state.replicas, brokers)
    return leader


def _successor(found: Known, others: Sequence[int] | None) -> int:
    state, brokers = found.state, found.brokers
    possible = candidates(found) if others is None else others
    if state.successor in possible and runs(state.successor, brokers):
        return state.successor
    if not brokers[state.leader].is_draining:
        return NO_LEADER
    return next((each for each in possible if runs(each, brokers)), NO_LEADER)


def _can_lead(found: Known, broker_id: int, *, is_shared: bool) -> bool:
    if is_shared:
        return broker_id in found.brokers
    return broker_id in found.state.isr and found.counts(broker_id)


def _first(possible: Iterable[int], brokers: Mapping[int, LiveBroker]) -> int:
    draining = NO_LEADER
    for each in possible:
        if runs(each, brokers):
            return each
        if draining == NO_LEADER and each in brokers:
            draining = each
    return draining


# ---- members
# -------------------------------------------------------------------------------------------------


def _counting(found: Known) -> list[int]:
    return [each for each in found.state.isr if found.counts(each)]


def _members(
    found: Known, kept: Sequence[int], settings: ReplicaSettings
) -> tuple[Replicas, Replicas]:
    """Return ISR and ELR when these members of the ISR stay and all others leave."""
    left = tuple([each for each in found.state.isr if each not in kept])
    return eligibility.without(found, tuple(kept), left, found.state.min_isr(settings.min_isr))


def _without_leader(found: Known) -> PartitionState:
    return _led_by(found, NO_LEADER, *_without_lost(found))


def _without_lost(found: Known) -> tuple[Replicas, Replicas]:
    """Return ISR and ELR with those that count or are absent."""
    isr = tuple([each for each in found.state.isr if not found.is_lost(each)])
    elr = tuple([each for each in found.state.elr if not found.is_lost(each)])
    return isr, elr


def _led(found: Known, leader: int, settings: ReplicaSettings) -> PartitionState:
    """Return the state with an elected leader."""
    state = found.state
    if leader in state.isr and found.counts(leader):
        isr, elr = _members(found, _counting(found), settings)
    elif leader in state.elr and found.counts(leader):
        isr, elr = _members(found, (leader,), settings)
    else:  # it shares the data directory, or may lack records
        isr, elr = (leader,), ()
    return _led_by(found, leader, isr, elr)


def _led_by(found: Known, leader: int, isr: Replicas, elr: Replicas) -> PartitionState:
    """Return the state with another leader, or none, or another incarnation of the same one."""
    state = found.state
    epoch = NO_EPOCH if leader == NO_LEADER else found.brokers[leader].epoch
    is_same = (leader, epoch) == (state.leader, state.broker_epoch)
    is_replica = leader == NO_LEADER or leader in state.replicas
    return state._replace(
        leader=leader,
        leader_epoch=state.leader_epoch + (not is_same),
        broker_epoch=epoch,
        replicas=state.replicas if is_replica else (leader,),
        isr=isr,
        elr=elr,
        successor=NO_LEADER,
    )


def _are_equal(changed: PartitionState, state: PartitionState) -> bool:
    """Return whether two states differ in the order of their members at most."""
    return (
        set(changed.isr) == set(state.isr)
        and set(changed.elr) == set(state.elr)
        and changed._replace(isr=state.isr, elr=state.elr) == state
    )
