"""What every broker of a cluster says of it, while brokers come and go."""

from typing import Any

from tests.cluster.test_health import create
from tests.support.batches import batch_of
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess
from tests.support.metrics_page import Samples, metrics_of
from tests.support.wire_client import WireClient
from tests.support.wire_requests import commit_offset, produce

RECORD = batch_of([(b"k", b"v", ())], 1_700_000_000_000)


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


def coordinator_of(cluster: ClusterProcess, group: str) -> int:
    """Return the broker that coordinates a group, once there is one."""
    found: dict[str, int] = {}
    with WireClient(cluster.brokers[1].address) as client:

        def is_known() -> bool:
            found.update(client.request("FindCoordinator", 1, {"key": group}))
            return found["error_code"] == 0

        wait_until(is_known, "a coordinator")
    return found["node_id"]


def test_a_coordinator_shows_the_lag_in_a_partition_that_only_another_broker_has(
    three_brokers: ClusterProcess,
) -> None:
    cluster, topic, group = three_brokers, "far", "far-readers"
    coordinator = coordinator_of(cluster, group)
    leader = coordinator % len(cluster.brokers) + 1
    create(cluster.brokers[leader], topic, [leader])
    with WireClient(cluster.brokers[leader].address) as client:
        for _ in range(5):
            assert produce(client, topic, RECORD)[0] == 0
    with WireClient(cluster.brokers[coordinator].address) as client:
        wait_until(lambda: commit_offset(client, group, topic, 2) == 0, "an offset")

    def shown(page: Samples, name: str) -> list[float]:
        series = page.get(f"polylog_group_{name}", [])
        return [value for labels, value in series if labels["group"] == group]

    page = metrics_of(cluster.brokers[coordinator])
    assert (shown(page, "offset"), shown(page, "lag_records")) == ([2], [])
    assert page["polylog_metrics_left_out"] == [({"family": "lags"}, 1)]

    def is_known() -> bool:
        page.update(metrics_of(cluster.brokers[coordinator]))
        return bool(shown(page, "lag_records"))

    wait_until(is_known, "the leader is asked")
    assert shown(page, "lag_records") == [3]
    assert shown(page, "lag_ratio") == [0.6]
    [seconds] = shown(page, "lag_seconds")
    assert seconds > 24 * 3600, "its time is that of the records"
    assert shown(metrics_of(cluster.brokers[leader]), "offset") == []
