"""Elections: every state of a partition with three replicas, and every state of its brokers."""

from collections.abc import Iterator
from itertools import combinations, product

from broker.core.cluster.election import hand_over, next_state, prefer
from broker.core.cluster.image import LiveBroker
from broker.core.cluster.records import (
    NO_LEADER,
    BrokerState,
    PartitionState,
    Registration,
)

REPLICAS = (1, 2, 3)
EPOCHS = {1: 10, 2: 20, 3: 30}  # of the incarnations that the partition's state knows
GONE, RUNS, DRAINS, RESTARTED = "gone", "runs", "drains", "restarted"
Brokers = dict[int, LiveBroker]


def brokers_of(*kinds: str) -> Brokers:
    return {
        broker_id: LiveBroker(
            EPOCHS[broker_id] + 100 * (kind == RESTARTED),
            0,
            Registration(
                "", (), None, "", BrokerState.DRAINING if kind == DRAINS else BrokerState.RUNNING
            ),
        )
        for broker_id, kind in zip(REPLICAS, kinds, strict=True)
        if kind != GONE
    }


def every_cluster() -> Iterator[Brokers]:
    for kinds in product((GONE, RUNS, DRAINS, RESTARTED), repeat=3):
        yield brokers_of(*kinds)


def every_state() -> Iterator[PartitionState]:
    for size in (1, 2, 3):
        for isr in combinations(REPLICAS, size):
            yield PartitionState(NO_LEADER, 5, 0, REPLICAS, isr, 7)
            for leader in isr:
                for successor in (NO_LEADER, *REPLICAS):
                    if successor != leader:
                        yield PartitionState(leader, 5, EPOCHS[leader], REPLICAS, isr, 7, successor)


def every_case() -> Iterator[tuple[PartitionState, Brokers]]:
    for brokers in every_cluster():
        for state in every_state():
            yield state, brokers


def has_failed(state: PartitionState, brokers: Brokers) -> bool:
    return state.leader not in brokers or brokers[state.leader].epoch != state.broker_epoch


def runs(broker_id: int, brokers: Brokers) -> bool:
    return broker_id in brokers and not brokers[broker_id].is_draining


def test_a_live_leader_is_never_replaced_and_keeps_its_epoch() -> None:
    for state, brokers in every_case():
        if not has_failed(state, brokers):
            changed = next_state(state, brokers) or state
            assert changed[:4] == state[:4]


def test_a_failed_leader_is_replaced_by_the_first_member_of_the_isr_that_can_lead() -> None:
    for state, brokers in every_case():
        if has_failed(state, brokers):
            in_order = [each for each in REPLICAS if each in state.isr]
            best = [each for each in in_order if runs(each, brokers)]
            best += [each for each in in_order if each in brokers]
            changed = next_state(state, brokers) or state
            if best:
                assert changed.leader == best[0]
                assert changed.broker_epoch == brokers[best[0]].epoch
            else:
                assert (changed.leader, changed.broker_epoch) == (NO_LEADER, 0)
                assert changed.isr == state.isr
            assert changed.successor == NO_LEADER


def test_the_leader_epoch_rises_with_each_change_of_the_leader_or_its_incarnation_only() -> None:
    for state, brokers in every_case():
        changed = next_state(state, brokers)
        if changed is not None:
            is_other = changed[0::2][:2] != state[0::2][:2]  # leader and broker epoch
            assert (changed.leader, changed.broker_epoch) != (state.leader, state.broker_epoch) or (
                not is_other
            )
            assert changed.leader_epoch == state.leader_epoch + is_other
            assert changed.partition_epoch == state.partition_epoch + 1
            assert changed != state._replace(partition_epoch=changed.partition_epoch)


def test_the_isr_of_a_partition_with_a_leader_has_registered_brokers_only() -> None:
    for state, brokers in every_case():
        changed = next_state(state, brokers) or state
        if changed.leader != NO_LEADER:
            assert changed.isr == tuple(each for each in state.isr if each in brokers)
            assert changed.leader in changed.isr


def test_a_draining_leader_has_a_successor_that_runs_and_is_in_the_isr_if_there_is_one() -> None:
    for state, brokers in every_case():
        changed = next_state(state, brokers) or state
        if changed.leader != NO_LEADER and brokers[changed.leader].is_draining:
            possible = [each for each in changed.isr if runs(each, brokers)]
            if changed.successor == NO_LEADER:
                assert not possible
            elif changed.successor != state.successor:
                assert changed.successor == possible[0]


def test_a_successor_is_kept_as_long_as_it_runs_and_is_in_the_isr() -> None:
    for state, brokers in every_case():
        changed = next_state(state, brokers) or state
        if not has_failed(state, brokers) and state.successor != NO_LEADER:
            if runs(state.successor, brokers) and state.successor in state.isr:
                assert changed.successor == state.successor
            else:
                assert changed.successor != state.successor


def test_a_second_look_changes_nothing() -> None:
    for state, brokers in every_case():
        assert next_state(next_state(state, brokers) or state, brokers) is None


def test_a_leader_hands_over_to_the_present_incarnation_of_its_successor() -> None:
    for state, brokers in every_case():
        if has_failed(state, brokers) or (next_state(state, brokers) or state) != state:
            continue  # the controller acts first
        changed = hand_over(state, brokers, is_shared=False)
        if state.successor == NO_LEADER:
            assert changed is None
        else:
            assert changed is not None
            assert changed.leader == state.successor
            assert changed.broker_epoch == brokers[state.successor].epoch
            assert changed.leader_epoch == state.leader_epoch + 1
            assert changed.partition_epoch == state.partition_epoch + 1
            assert changed.successor == NO_LEADER


def test_nothing_is_handed_over_to_a_successor_that_has_failed_or_is_not_in_the_isr() -> None:
    state = PartitionState(1, 5, 10, REPLICAS, REPLICAS, 7, successor=2)

    assert hand_over(state, brokers_of(RUNS, GONE, RUNS), is_shared=False) is None
    out_of_sync = state._replace(isr=(1, 3))
    assert hand_over(out_of_sync, brokers_of(RUNS, RUNS, RUNS), is_shared=False) is None


def test_the_preferred_leader_becomes_successor_if_it_runs_and_is_in_the_isr() -> None:
    for state, brokers in every_case():
        changed = prefer(state, brokers, 1, is_shared=False)
        may = (
            state.leader not in {1, NO_LEADER}
            and not has_failed(state, brokers)
            and state.successor == NO_LEADER
            and 1 in state.isr
            and runs(1, brokers)
        )
        if may:
            assert changed == state._replace(successor=1, partition_epoch=8)
        else:
            assert changed is None


# ---- brokers that share one data directory
# -------------------------------------------------------------------------------------------------

LED_BY_1 = PartitionState(1, 5, 10, (1,), (1,), 7)


def test_in_a_shared_directory_any_broker_leads_and_is_the_only_replica() -> None:
    changed = next_state(LED_BY_1, brokers_of(GONE, DRAINS, RUNS), others=(1, 2, 3))

    assert changed == PartitionState(3, 6, 30, (3,), (3,), 8)


def test_in_a_shared_directory_the_first_of_the_order_leads() -> None:
    for order in ((2, 3, 1), (3, 2, 1), (1, 2, 3)):
        changed = next_state(LED_BY_1, brokers_of(RESTARTED, RUNS, RUNS), others=order)
        assert changed is not None
        assert changed.leader == order[0]
        assert changed.leader_epoch == 6


def test_in_a_shared_directory_a_partition_waits_for_any_broker() -> None:
    waiting = next_state(LED_BY_1, {}, others=(1,))

    assert waiting is not None
    assert waiting == PartitionState(NO_LEADER, 6, 0, (1,), (1,), 8)
    assert next_state(waiting, brokers_of(GONE, RUNS, GONE), others=(2,)) == PartitionState(
        2, 7, 20, (2,), (2,), 9
    )


def test_in_a_shared_directory_a_topic_of_a_standalone_broker_gets_a_leader() -> None:
    state = PartitionState(NO_LEADER, 0, 0, (), (), 0)

    assert next_state(state, brokers_of(GONE, RUNS, GONE), others=(2,)) == PartitionState(
        2, 1, 20, (2,), (2,), 1
    )
    assert next_state(state, brokers_of(GONE, RUNS, GONE)) is None


def test_in_a_shared_directory_a_draining_leader_hands_over_to_any_broker() -> None:
    brokers = brokers_of(DRAINS, GONE, RUNS)

    draining = next_state(LED_BY_1, brokers, others=(1, 3))

    assert draining is not None
    assert draining == LED_BY_1._replace(successor=3, partition_epoch=8)
    assert hand_over(draining, brokers, is_shared=True) == PartitionState(3, 6, 30, (3,), (3,), 9)
    assert prefer(LED_BY_1, brokers, 3, is_shared=True) == draining
