"""Growth of internal topics: which partitions get more replicas when brokers join, and where."""

from collections.abc import Iterator

from broker.core.cluster import eligibility
from broker.core.cluster.growth import Growth, grown
from broker.core.cluster.records import Replicas
from broker.core.cluster.writes import Item
from broker.model.limits import CLUSTER_GROWTHS_AT_ONCE
from tests.unit.core.cluster.clusters import Cluster

FACTORS = {"internal": 3}


def targets(cluster: Cluster) -> dict[Item, Replicas]:
    growth, found = Growth(cluster.image, FACTORS), {}
    while growth.has_work:
        found.update(growth.next())
    return found


def begin(cluster: Cluster, found: dict[Item, Replicas]) -> Iterator[Item]:
    for item, target in found.items():
        known = eligibility.known(cluster.image, *item)
        changed = known and grown(known, target)
        if changed is not None:
            cluster.put(*item, changed)
            yield item


def test_internal_topics_grow_to_their_factor_and_others_do_not() -> None:
    cluster = Cluster(4)
    internal = cluster.create("internal", (1,), (2, 3, 4))
    cluster.create("other", (1,))

    found = targets(cluster)

    assert found == {(internal, 0): (1, 2, 3)}
    assert [*begin(cluster, found)] == [(internal, 0)]
    state = cluster.state(internal)
    assert (state.replicas, state.isr, state.adding) == ((1, 2, 3), (1,), (2, 3))
    assert targets(cluster) == {}


def test_a_topic_has_as_many_replicas_as_there_are_brokers_that_run() -> None:
    cluster = Cluster(3)
    internal = cluster.create("internal", (1,))
    cluster.drain(3)

    assert targets(cluster) == {(internal, 0): (1, 2)}
    [*_] = begin(cluster, targets(cluster))
    state = cluster.state(internal)
    cluster.put(internal, 0, state._replace(isr=(1, 2), adding=()))
    assert targets(cluster) == {}

    cluster.restart(3)

    assert targets(cluster) == {(internal, 0): (1, 2, 3)}


def test_a_bounded_number_of_partitions_grows_at_once() -> None:
    cluster = Cluster(2)
    internal = cluster.create("internal", *[(1,)] * 25)

    first = [*begin(cluster, targets(cluster))]

    assert len(first) == CLUSTER_GROWTHS_AT_ONCE
    assert targets(cluster) == {}
    state = cluster.state(*first[0])
    cluster.put(*first[0], state._replace(isr=(1, 2), adding=()))
    assert targets(cluster) == {(internal, CLUSTER_GROWTHS_AT_ONCE): (1, 2)}


def test_replicas_are_added_on_other_hosts_and_racks_then_where_there_are_fewest() -> None:
    cluster = Cluster()
    for each, host, rack in ((1, "a", "r"), (2, "a", "s"), (3, "b", "r"), (4, "c", "s")):
        cluster.register(each, host=host, rack=rack)
    cluster.refresh()
    internal = cluster.create("internal", (1,))

    assert targets(cluster) == {(internal, 0): (1, 4, 3)}
    cluster = Cluster(5)
    cluster.create("other", *[(2, 3)] * 5)
    internal = cluster.create("internal", (1,), (1,))
    found = targets(cluster)
    assert found[internal, 0] == (1, 4, 5)
    assert found[internal, 1] == (1, 4, 5)


def test_a_partition_without_a_leader_or_that_has_changed_meanwhile_does_not_grow() -> None:
    cluster = Cluster(3)
    internal = cluster.create("internal", (1,), (2,))
    found = targets(cluster)
    state = cluster.state(internal)
    cluster.put(internal, 0, state._replace(replicas=(1, 2), isr=(1,)))
    cluster.fail(2)

    assert [*begin(cluster, found)] == []
    assert targets(cluster) == {(internal, 0): (1, 2, 3)}


def test_a_topic_that_does_not_exist_yet_or_is_deleted_meanwhile_does_not_grow() -> None:
    assert targets(Cluster(2)) == {}
    cluster = Cluster(2)
    internal = cluster.create("internal", (1,))
    growth = Growth(cluster.image, FACTORS)
    growth.next()
    del cluster.image.topics[internal]

    assert growth.next() == {(internal, 0): ()}
