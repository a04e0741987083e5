"""What every broker of a cluster says of it, while brokers come and go."""

from typing import Any

from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess


def test_every_broker_names_the_same_brokers_racks_and_controller(
    three_brokers: ClusterProcess,
) -> None:
    brokers = [
        (number, f"rack-{number}", each.address) for number, each in three_brokers.brokers.items()
    ]

    def is_agreed() -> bool:  # the last to join may have seen no controller yet
        views = [seen(three_brokers.metadata(each)) for each in three_brokers.brokers]
        [first, *others] = views
        return others == [first, first] and first[1] in three_brokers.brokers

    wait_until(is_agreed, "all name one cluster and one controller")
    assert seen(three_brokers.metadata(1))[2] == brokers


def seen(view: dict[str, Any] | None) -> tuple[str, int, list[tuple[int, str, str]]]:
    """Return the cluster id, the controller and the brokers of an answer to Metadata."""
    assert view is not None
    found = [
        (each["node_id"], each["rack"], f"{each['host']}:{each['port']}")
        for each in view["brokers"]
    ]
    return view["cluster_id"], view["controller_id"], found


def test_a_broker_that_stops_is_registered_no_more_when_its_process_ends(
    three_brokers: ClusterProcess,
) -> None:
    three_brokers.drain(2)

    assert sorted(registrations(three_brokers)) == ["broker/1", "broker/3"]
    three_brokers.restart(2)
    assert sorted(registrations(three_brokers)) == ["broker/1", "broker/2", "broker/3"]


def registrations(cluster: ClusterProcess) -> list[str]:
    """Return the keys of the brokers that are registered in the store."""
    return [
        key.removeprefix(f"{cluster.prefix}/")
        for key in cluster.etcd.entries(f"{cluster.prefix}/broker/")
    ]
