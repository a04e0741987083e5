"""Replicas of new partitions: hosts, racks, balance."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.cluster import placement
from broker.core.cluster.records import BrokerState, Replicas
from broker.model.errors import RequestError
from broker.model.limits import BROKERS_PER_TOPIC_MAX
from tests.unit.core.cluster.clusters import Cluster


@st.composite
def clusters(draw: Any) -> tuple[Cluster, dict[int, str], dict[int, str]]:
    """Return a cluster of racks with hosts with brokers, and the host and rack of each broker."""
    cluster = Cluster()
    hosts: dict[int, str] = {}
    racks: dict[int, str] = {}
    for rack in range(draw(st.integers(1, 4))):
        for host in range(draw(st.integers(1, 3))):
            for _ in range(draw(st.integers(1, 2))):
                broker_id = len(hosts) + 1
                hosts[broker_id], racks[broker_id] = f"{rack}-{host}", f"r{rack}"
    for broker_id in draw(st.permutations(list(hosts))):
        cluster.register(broker_id, host=hosts[broker_id], rack=racks[broker_id])
    cluster.refresh()
    return cluster, hosts, racks


def spread(counts: list[int]) -> int:
    return max(counts) - min(counts)


def uses(placed: tuple[Replicas, ...], broker_id: int) -> int:
    return sum(broker_id in replicas for replicas in placed)


@given(clusters(), st.integers(1, 30), st.integers(1, 5), st.integers(0, 100))
def test_replicas_are_distinct_and_spread_over_hosts_and_racks(
    made: Any, partitions: int, factor: int, start: int
) -> None:
    cluster, hosts, racks = made
    factor = min(factor, len(hosts))

    placed = cluster.place(partitions, factor, start)

    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        used = {hosts[each] for each in replicas}
        assert len(used) == min(factor, len(set(hosts.values())))
        assert len({racks[each] for each in replicas}) == min(factor, len(set(racks.values())))
    assert placed == cluster.place(partitions, factor, start)


@given(st.integers(1, 8), st.integers(1, 60), st.integers(1, 4), st.integers(0, 100))
def test_equal_brokers_hold_and_lead_equal_shares(
    brokers: int, partitions: int, factor: int, start: int
) -> None:
    cluster = Cluster(brokers)
    factor = min(factor, brokers)

    placed = cluster.place(partitions, factor, start)

    assert spread([uses(placed, each) for each in range(1, brokers + 1)]) <= 1
    leaders = [replicas[0] for replicas in placed]
    assert spread([leaders.count(each) for each in range(1, brokers + 1)]) <= 1 + (factor > 1)


@given(st.integers(2, 6), st.lists(st.integers(1, 20), min_size=1, max_size=8), st.integers(1, 3))
def test_topics_together_are_balanced(brokers: int, sizes: list[int], factor: int) -> None:
    cluster = Cluster(brokers)
    factor = min(factor, brokers)

    for place, partitions in enumerate(sizes):
        cluster.create(f"t{place}", *cluster.place(partitions, factor, start=place))

    counts = cluster.image.counts
    assert spread([counts.replicas.get(each, 0) for each in range(1, brokers + 1)]) <= 1
    assert spread([counts.preferred.get(each, 0) for each in range(1, brokers + 1)]) <= 2


def test_a_new_broker_gets_replicas_until_it_has_as_many_as_the_others() -> None:
    cluster = Cluster(2)
    cluster.create("old", *cluster.place(10, 1))
    cluster.register(3)
    cluster.refresh()

    placed = cluster.place(5, 1)

    assert placed == ((3,),) * 5


def test_one_partition_topics_begin_on_different_brokers_by_their_start() -> None:
    cluster = Cluster(3)

    assert {cluster.place(1, 1, start)[0][0] for start in range(3)} == {1, 2, 3}


def test_the_order_takes_a_broker_of_each_rack_in_turn() -> None:
    cluster = Cluster()
    for broker_id, rack in ((0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "c"), (5, "c")):
        cluster.register(broker_id, rack=rack)
    cluster.refresh()

    assert [each[0] for each in cluster.place(6, 1)] == [0, 2, 4, 1, 3, 5]


def test_a_failed_brokers_leaderships_go_to_different_ones() -> None:
    cluster = Cluster(4)

    placed = cluster.place(48, 3)

    seconds = [replicas[1] for replicas in placed if replicas[0] == 1]
    assert [seconds.count(each) for each in (2, 3)] == [6, 6]


def test_draining_brokers_get_replicas_only_if_there_are_not_enough_others() -> None:
    cluster = Cluster(3)
    cluster.register(2, state=BrokerState.DRAINING)
    cluster.refresh()

    assert {each for replicas in cluster.place(6, 2) for each in replicas} == {1, 3}
    assert {each for replicas in cluster.place(6, 3) for each in replicas} == {1, 2, 3}


@pytest.mark.parametrize(("brokers", "factor"), [(0, 1), (2, 3), (2, 0), (2, -1)])
def test_a_replication_factor_without_so_many_brokers_is_refused(brokers: int, factor: int) -> None:
    with pytest.raises(RequestError, match="replication factor"):
        Cluster(brokers).place(1, factor)


def test_a_topic_is_placed_on_a_limited_number_of_brokers_with_the_fewest_replicas() -> None:
    cluster = Cluster(BROKERS_PER_TOPIC_MAX + 10)
    cluster.create("t", *[(each,) for each in range(1, 11)])

    placed = cluster.place(BROKERS_PER_TOPIC_MAX, 1)

    assert {each for (each,) in placed} == set(range(11, BROKERS_PER_TOPIC_MAX + 11))
    cluster.create("u", *placed)


def test_many_partitions_are_placed_in_slices() -> None:
    slices = placement.place(Cluster(5).image, 1_000, 3, 0)

    assert sum(1 for _ in slices) >= 8
