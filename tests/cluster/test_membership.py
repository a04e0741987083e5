"""What every broker of a cluster says of it, while brokers come and go."""

from tests.support.cluster_process import ClusterProcess


def test_every_broker_names_the_same_brokers_racks_and_controller(
    three_brokers: ClusterProcess,
) -> None:
    views = [three_brokers.metadata(each) for each in three_brokers.brokers]

    found = [
        (
            view["cluster_id"],
            view["controller_id"],
            [
                (each["node_id"], each["rack"], f"{each['host']}:{each['port']}")
                for each in view["brokers"]
            ],
        )
        for view in views
        if view is not None
    ]
    assert found == [found[0]] * 3
    assert found[0][1] in three_brokers.brokers
    assert found[0][2] == [
        (number, f"rack-{number}", each.address) for number, each in three_brokers.brokers.items()
    ]


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
