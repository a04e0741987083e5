"""Elections: every state of a partition with three replicas, and every state of its brokers."""

from collections.abc import Iterator
from functools import cache
from itertools import combinations, product

import pytest

from broker.core.cluster import records
from broker.core.cluster.election import give_up, hand_over, next_state, prefer
from broker.core.cluster.eligibility import Known
from broker.core.cluster.image import LiveBroker
from broker.core.cluster.records import (
    NO_LEADER,
    BrokerState,
    PartitionState,
    Registration,
    Replicas,
)
from broker.core.cluster.topic_settings import ReplicaSettings
from broker.storage.metadata import Absent, CreatedAt, Unchanged

REPLICAS = (1, 2, 3)
EPOCHS = {1: 10, 2: 20, 3: 30}  # of the incarnations that the partition's state knows
REVISION = 50  # of the state
GONE, RUNS, DRAINS, RESTARTED, EMPTIED = "gone", "runs", "drains", "restarted", "emptied"
Brokers = dict[int, LiveBroker]


def broker_of(broker_id: int, kind: str) -> LiveBroker:
    epoch = EPOCHS[broker_id] + 100 * (kind in {RESTARTED, EMPTIED})
    state = BrokerState.DRAINING if kind == DRAINS else BrokerState.RUNNING
    since = EPOCHS[broker_id] if kind == RESTARTED else 0
    return LiveBroker(epoch, 0, Registration("", (), None, "", state, since))


def brokers_of(*kinds: str) -> Brokers:
    return {
        each: broker_of(each, kind)
        for each, kind in zip(REPLICAS, kinds, strict=True)
        if kind != GONE
    }


def every_cluster() -> Iterator[Brokers]:
    for kinds in product((GONE, RUNS, DRAINS, RESTARTED, EMPTIED), repeat=3):
        yield brokers_of(*kinds)


def every_state() -> Iterator[PartitionState]:
    for size in (0, 1, 2, 3):
        for isr in combinations(REPLICAS, size):
            rest = [each for each in REPLICAS if each not in isr]
            for elr in ((), tuple(rest), tuple(rest[:1])):
                yield from every_leader(isr, elr)


def every_leader(isr: Replicas, elr: Replicas) -> Iterator[PartitionState]:
    state = PartitionState(NO_LEADER, 5, 0, REPLICAS, isr, 7, elr=elr)
    yield state
    for leader in isr:
        for successor in (NO_LEADER, *REPLICAS):
            if successor != leader:
                yield state._replace(
                    leader=leader, broker_epoch=EPOCHS[leader], successor=successor
                )


@cache
def every_case() -> list[Known]:
    return [
        Known(state, REVISION, brokers) for brokers in every_cluster() for state in every_state()
    ]


SETTINGS = [ReplicaSettings(min_isr) for min_isr in (1, 2, 3)]


def has_failed(found: Known) -> bool:
    broker = found.brokers.get(found.state.leader)
    return broker is None or broker.epoch != found.state.broker_epoch


def runs(broker_id: int, found: Known) -> bool:
    return broker_id in found.brokers and not found.brokers[broker_id].is_draining


def is_emptied(broker_id: int, found: Known) -> bool:
    broker = found.brokers.get(broker_id)
    return broker is not None and broker.intact_since > REVISION


def changed_of(found: Known, settings: ReplicaSettings = SETTINGS[0]) -> PartitionState:
    return next_state(found, settings) or found.state


def best_of(members: Replicas, found: Known) -> list[int]:
    """Return the members that may be elected, the best first."""
    in_order = [each for each in REPLICAS if each in members and not is_emptied(each, found)]
    best = [each for each in in_order if runs(each, found)]
    return best + [each for each in in_order if each in found.brokers and each not in best]


def test_a_live_leader_is_never_replaced_and_keeps_its_epoch() -> None:
    for found in every_case():
        if not has_failed(found):
            assert changed_of(found)[:4] == found.state[:4]


def test_a_failed_leader_is_replaced_by_a_member_of_the_isr_that_can_lead_or_of_the_elr() -> None:
    for found in every_case():
        if has_failed(found):
            state = found.state
            best = best_of(state.isr, found) or best_of(state.elr, found)
            changed = changed_of(found)
            if best:
                assert changed.leader == best[0]
                assert changed.broker_epoch == found.brokers[best[0]].epoch
            else:
                assert (changed.leader, changed.broker_epoch) == (NO_LEADER, 0)
                assert changed.isr == tuple(x for x in state.isr if x not in found.brokers)
                assert changed.elr == tuple(x for x in state.elr if x not in found.brokers)
            assert changed.successor == NO_LEADER


def test_if_it_is_allowed_any_live_replica_is_elected_last_and_alone() -> None:
    for found in every_case():
        unclean = changed_of(found, ReplicaSettings(2, is_unclean_allowed=True))
        clean = changed_of(found, ReplicaSettings(2))
        if clean.leader != NO_LEADER or not found.brokers:
            assert unclean == clean
        else:
            running = [each for each in REPLICAS if runs(each, found)]
            assert unclean.leader == (running or [*found.brokers])[0]
            assert (unclean.isr, unclean.elr) == ((unclean.leader,), ())
            assert unclean.leader_epoch > found.state.leader_epoch


def test_the_leader_epoch_rises_with_each_change_of_the_leader_or_its_incarnation_only() -> None:
    for found in every_case():
        state, changed = found.state, next_state(found)
        if changed is not None:
            is_other = changed[0::2][:2] != state[0::2][:2]  # leader and broker epoch
            assert changed.leader_epoch == state.leader_epoch + is_other
            assert changed.partition_epoch == state.partition_epoch + 1
            assert changed != state._replace(partition_epoch=changed.partition_epoch)


def test_the_isr_of_a_partition_with_a_leader_has_registered_brokers_that_lost_nothing() -> None:
    for found in every_case():
        state, changed = found.state, changed_of(found)
        if changed.leader != NO_LEADER:
            if changed.leader in state.isr:
                kept = [x for x in state.isr if x in found.brokers and not is_emptied(x, found)]
                assert changed.isr == tuple(kept)
            else:
                assert changed.isr == (changed.leader,)
            assert changed.leader in changed.isr


def test_who_leaves_an_isr_that_becomes_too_small_is_in_the_elr_unless_it_has_lost_records() -> (
    None
):
    for settings in SETTINGS:
        for found in every_case():
            state, changed = found.state, changed_of(found, settings)
            assert not any(is_emptied(x, found) for x in changed.elr)
            if changed.leader == NO_LEADER:
                assert set(changed.elr) <= set(state.elr)
            elif len(changed.isr) >= settings.min_isr:
                assert changed.elr == ()
            else:
                members = {*state.isr, *state.elr}.difference(changed.isr)
                assert set(changed.elr) == {x for x in members if not is_emptied(x, found)}


def test_the_last_members_are_known_until_there_are_others() -> None:
    for found in every_case():
        state, changed = found.state, next_state(found)
        if changed is not None:
            last = state.isr + state.elr
            is_last = not (changed.isr or changed.elr)
            assert changed.last_known == tuple(x for x in REPLICAS if is_last and x in last)


def test_the_last_known_members_stay_while_none_leads_and_go_with_an_unclean_election() -> None:
    state = PartitionState(NO_LEADER, 5, 0, REPLICAS, (), 7, last_known=(1, 3))
    found = Known(state, REVISION, brokers_of(EMPTIED, RUNS, EMPTIED))
    assert next_state(found, SETTINGS[0]) is None

    changed = next_state(found, SETTINGS[0]._replace(is_unclean_allowed=True), most_first=(2, 1, 3))

    assert changed is not None
    assert (changed.leader, changed.isr, changed.last_known) == (2, (2,), ())


def test_a_member_that_was_not_there_is_known_as_of_the_state_that_named_it_first() -> None:
    for found in every_case():
        changed = next_state(found, SETTINGS[2])
        if changed is not None:
            members = changed.isr + changed.elr
            absent = [each for each in members if each not in found.brokers]
            assert changed.absent == tuple((each, REVISION) for each in absent)
            later = Known(changed, 200, found.brokers)
            again = later.next(changed._replace(leader_epoch=9))
            assert again.absent == changed.absent


@pytest.mark.parametrize("since", [40, 49, 50])
def test_an_absent_member_that_returns_counts_if_it_lost_nothing_since_then(since: int) -> None:
    state = PartitionState(NO_LEADER, 5, 0, REPLICAS, (2,), 8, absent=((2, 49),))
    broker = broker_of(2, RUNS)
    broker = broker._replace(registration=broker.registration._replace(intact_since=since))

    changed = next_state(Known(state, 60, {2: broker}))

    assert changed is not None
    assert (changed.leader, changed.isr) == ((2, (2,)) if since <= 49 else (NO_LEADER, ()))
    assert changed.absent == ()


@pytest.mark.parametrize("kind", [RUNS, EMPTIED])
def test_a_member_that_is_fenced_is_absent_until_it_counts(kind: str) -> None:
    state = PartitionState(1, 5, EPOCHS[1], REPLICAS, (1, 2), 7)
    fenced = {2: broker_of(2, kind)._replace(mod_revision=60)}
    found = Known(state, REVISION, brokers_of(GONE, GONE, RUNS), fenced)

    changed = next_state(found)

    assert changed is not None
    assert (changed.leader, changed.isr, changed.absent) == (NO_LEADER, (1, 2), ((1, 50), (2, 50)))
    assert found.guards(changed) == [
        Absent(records.broker_key(1)),
        Unchanged(records.broker_key(2), 60),
    ]
    counting = next_state(Known(changed, 70, {**found.brokers, **fenced}))
    assert counting is not None
    assert (counting.leader, counting.isr) == ((2, (2,)) if kind == RUNS else (NO_LEADER, (1,)))


def test_a_leader_that_is_fenced_was_elected_by_an_earlier_release_and_stays() -> None:
    state = PartitionState(1, 5, EPOCHS[1], REPLICAS, REPLICAS, 7)
    others = brokers_of(GONE, RUNS, RUNS)

    assert next_state(Known(state, REVISION, others, brokers_of(RUNS, GONE, GONE))) is None
    assert next_state(Known(state, REVISION, others, brokers_of(RESTARTED, GONE, GONE))) is not None


def test_the_only_replica_of_a_partition_leads_whatever_it_has() -> None:
    state = PartitionState(1, 5, 10, (1,), (1,), 7)

    changed = next_state(Known(state, REVISION, brokers_of(EMPTIED, RUNS, RUNS)))

    assert changed == PartitionState(1, 6, 110, (1,), (1,), 8)


def test_a_draining_leader_has_a_successor_that_runs_and_is_in_the_isr_if_there_is_one() -> None:
    for found in every_case():
        state, changed = found.state, changed_of(found)
        if changed.leader != NO_LEADER and found.brokers[changed.leader].is_draining:
            possible = [each for each in changed.isr if runs(each, found)]
            if changed.successor == NO_LEADER:
                assert not possible
            elif changed.successor != state.successor:
                assert changed.successor == possible[0]


def test_a_successor_is_kept_as_long_as_it_runs_and_is_in_the_isr() -> None:
    for found in every_case():
        state, changed = found.state, changed_of(found)
        if not has_failed(found) and state.successor != NO_LEADER:
            is_emptied_now = is_emptied(state.successor, found)
            if runs(state.successor, found) and state.successor in state.isr and not is_emptied_now:
                assert changed.successor == state.successor
            else:
                assert changed.successor != state.successor


def test_a_second_look_changes_nothing() -> None:
    for settings in (*SETTINGS, ReplicaSettings(2, is_unclean_allowed=True)):
        for found in every_case():
            changed = next_state(found, settings)
            if changed is not None:
                assert next_state(Known(changed, 200, found.brokers), settings) is None


def test_a_state_has_the_guards_that_its_members_are_as_they_are_known() -> None:
    for found in every_case():
        changed = changed_of(found, SETTINGS[2])
        guards = {guard.key: guard for guard in found.guards(changed)}
        members = {*changed.isr, *changed.elr, changed.leader} - {NO_LEADER}
        assert guards.keys() == {b"broker/%d" % each for each in members}
        for each in members:
            guard = guards[b"broker/%d" % each]
            if each in found.brokers:
                assert guard == CreatedAt(guard.key, found.brokers[each].epoch)
            else:
                assert guard == Absent(guard.key)


def test_a_leader_hands_over_to_the_present_incarnation_of_its_successor() -> None:
    for found in every_case():
        state = found.state
        if has_failed(found) or changed_of(found) != state:
            continue  # the controller acts first
        changed = hand_over(found, is_shared=False)
        if state.successor == NO_LEADER:
            assert changed is None
        else:
            assert changed is not None
            assert changed.leader == state.successor
            assert changed.broker_epoch == found.brokers[state.successor].epoch
            assert changed.leader_epoch == state.leader_epoch + 1
            assert changed.partition_epoch == state.partition_epoch + 1
            assert changed.successor == NO_LEADER


def test_nothing_is_handed_over_to_a_successor_that_has_failed_or_may_lack_records() -> None:
    state = PartitionState(1, 5, 10, REPLICAS, REPLICAS, 7, successor=2)

    def is_handed_over(kind: str, state: PartitionState = state) -> bool:
        found = Known(state, REVISION, brokers_of(RUNS, kind, RUNS))
        return hand_over(found, is_shared=False) is not None

    assert is_handed_over(RUNS)
    assert is_handed_over(RESTARTED)
    assert not is_handed_over(GONE)
    assert not is_handed_over(EMPTIED)
    assert not is_handed_over(RUNS, state._replace(isr=(1, 3)))


def test_a_hand_over_keeps_absent_members_and_drops_those_that_lost_records() -> None:
    state = PartitionState(1, 5, 10, (1, 2, 3), (1, 2, 3), 7, successor=2)

    gone = hand_over(Known(state, REVISION, brokers_of(RUNS, RUNS, GONE)), is_shared=False)
    lost = hand_over(Known(state, REVISION, brokers_of(RUNS, RUNS, EMPTIED)), is_shared=False)

    assert gone == PartitionState(2, 6, 20, REPLICAS, REPLICAS, 8, absent=((3, REVISION),))
    assert lost == PartitionState(2, 6, 20, REPLICAS, (1, 2), 8)


def test_the_preferred_leader_becomes_successor_if_it_runs_and_is_in_the_isr() -> None:
    for found in every_case():
        state, changed = found.state, prefer(found, 1, is_shared=False)
        may = (
            state.leader not in {1, NO_LEADER}
            and not has_failed(found)
            and state.successor == NO_LEADER
            and 1 in state.isr
            and runs(1, found)
            and not is_emptied(1, found)
        )
        if may:
            assert changed is not None
            assert changed == found.next(state._replace(successor=1))
        else:
            assert changed is None


# ---- failed logs
# -------------------------------------------------------------------------------------------------


def every_failed_log() -> Iterator[tuple[Known, int, PartitionState | None]]:
    """Yield each case with a broker whose log has failed, and what it changes the state to."""
    for found in every_case():
        for broker_id in found.brokers:
            yield found, broker_id, give_up(found, broker_id, SETTINGS[1])


def test_a_broker_gives_up_what_it_is_if_another_member_counts() -> None:
    for found, broker_id, changed in every_failed_log():
        members = {found.state.leader, *found.state.isr, *found.state.elr}
        others = best_of(found.state.isr + found.state.elr, found)
        if broker_id not in members or set(others) <= {broker_id}:
            assert changed is None
        else:
            assert changed is not None
            assert broker_id not in {changed.leader, *changed.isr, *changed.elr}
            assert best_of(changed.isr + changed.elr, found)


def test_the_leader_after_a_failed_log_is_the_one_that_the_controller_would_elect() -> None:
    for found, broker_id, changed in every_failed_log():
        state = found.state
        if changed is None or state.leader != broker_id:
            continue
        without = state._replace(
            isr=tuple(x for x in state.isr if x != broker_id),
            elr=tuple(x for x in state.elr if x != broker_id),
        )
        others = {each: broker for each, broker in found.brokers.items() if each != broker_id}
        assert changed == next_state(Known(without, REVISION, others), SETTINGS[1])


def test_a_leader_stays_when_another_log_fails_unless_it_has_lost_its_records() -> None:
    for found, broker_id, changed in every_failed_log():
        if changed is not None and found.state.leader != broker_id:
            is_lost = is_emptied(found.state.leader, found)
            assert changed[:4] == found.state[:4] or (is_lost and changed.leader == NO_LEADER)


def test_what_was_given_up_stays_so() -> None:
    for found, broker_id, changed in every_failed_log():
        if changed is not None:
            assert give_up(Known(changed, 200, found.brokers), broker_id, SETTINGS[1]) is None


# ---- brokers that share one data directory
# -------------------------------------------------------------------------------------------------

LED_BY_1 = PartitionState(1, 5, 10, (1,), (1,), 7)


def known(state: PartitionState, *kinds: str) -> Known:
    return Known(state, REVISION, brokers_of(*kinds))


def test_in_a_shared_directory_any_broker_leads_and_is_the_only_replica() -> None:
    changed = next_state(known(LED_BY_1, GONE, DRAINS, RUNS), others=(1, 2, 3))

    assert changed == PartitionState(3, 6, 30, (3,), (3,), 8)


def test_in_a_shared_directory_the_first_of_the_order_leads() -> None:
    for order in ((2, 3, 1), (3, 2, 1), (1, 2, 3)):
        changed = next_state(known(LED_BY_1, RESTARTED, RUNS, RUNS), others=order)
        assert changed is not None
        assert changed.leader == order[0]
        assert changed.leader_epoch == 6


def test_in_a_shared_directory_a_partition_waits_for_any_broker() -> None:
    waiting = next_state(known(LED_BY_1, GONE, GONE, GONE), others=(1,))

    assert waiting is not None
    assert waiting == PartitionState(NO_LEADER, 6, 0, (1,), (1,), 8)
    assert next_state(known(waiting, GONE, RUNS, GONE), others=(2,)) == PartitionState(
        2, 7, 20, (2,), (2,), 9
    )


def test_in_a_shared_directory_a_topic_of_a_standalone_broker_gets_a_leader() -> None:
    state = PartitionState(NO_LEADER, 0, 0, (), (), 0)

    assert next_state(known(state, GONE, RUNS, GONE), others=(2,)) == PartitionState(
        2, 1, 20, (2,), (2,), 1
    )
    assert next_state(known(state, GONE, RUNS, GONE)) is None


def test_in_a_shared_directory_a_draining_leader_hands_over_to_any_broker() -> None:
    kinds = (DRAINS, GONE, RUNS)

    draining = next_state(known(LED_BY_1, *kinds), others=(1, 3))

    assert draining is not None
    assert draining == LED_BY_1._replace(successor=3, partition_epoch=8)
    assert hand_over(known(draining, *kinds), is_shared=True) == PartitionState(
        3, 6, 30, (3,), (3,), 9
    )
    assert prefer(known(LED_BY_1, *kinds), 3, is_shared=True) == draining
