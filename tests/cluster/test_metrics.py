"""What the pages of metrics of a cluster's brokers show while one of them is away."""

from tests.cluster.test_health import create
from tests.support.batches import batch_of
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess
from tests.support.metrics_page import metrics_of, value_of
from tests.support.wire_client import WireClient
from tests.support.wire_requests import produce

GAUGES = (
    "polylog_under_replicated_partitions",
    "polylog_under_min_isr_partitions",
    "polylog_at_min_isr_partitions",
    "polylog_offline_partitions",
)
RECORD = batch_of([(b"k", b"v", ())], 1_700_000_000_000)


def gauges(cluster: ClusterProcess, broker_id: int) -> list[float]:
    found = metrics_of(cluster.brokers[broker_id], "/metrics")
    return [found[each][0][1] for each in GAUGES]


def test_replicas_are_counted_where_they_are_led_and_where_they_are_copied(
    own_three_brokers: ClusterProcess,
) -> None:
    cluster = own_three_brokers
    create(cluster.brokers[1], "copied", [2, 3], min_insync_replicas="2")
    create(cluster.brokers[1], "spare", [1, 2, 3], min_insync_replicas="2")
    create(cluster.brokers[1], "alone", [3])
    wait_until(lambda: gauges(cluster, 2) == [0, 0, 1, 0], "replicas are in sync")
    assert [value_of(each, "polylog_brokers") for each in cluster.brokers.values()] == [3, 3, 3]
    offices = [value_of(each, "polylog_controller") for each in cluster.brokers.values()]
    assert sorted(offices) == [0, 0, 1]

    with WireClient(cluster.brokers[2].address) as client:
        assert produce(client, "copied", RECORD)[0] == 0
    wait_until(lambda: value_of(cluster.brokers[3], "polylog_copied_bytes_total") > 0, "copied")

    cluster.kill(3)

    wait_until(lambda: gauges(cluster, 2) == [1, 1, 0, 1], "2 leads what lacks a replica")
    wait_until(lambda: gauges(cluster, 1) == [1, 0, 1, 1], "1 leads what has just enough")
    leader = cluster.brokers[2]
    # (A page is kept for a second.)
    wait_until(lambda: value_of(leader, "polylog_isr_shrinks_total") == 1, "the shrink is counted")
    assert value_of(leader, "polylog_isr_expansions_total") == 0

    assert value_of(leader, "polylog_replica_lag_records") == 0
    with WireClient(cluster.brokers[1].address) as client:
        assert produce(client, "spare", RECORD)[0] == 0
    wait_until(
        lambda: value_of(cluster.brokers[1], "polylog_replica_lag_records") == 1, "3 lacks one"
    )

    cluster.restart(3)

    wait_until(lambda: gauges(cluster, 2) == [0, 0, 1, 0], "3 is in sync again")
    wait_until(
        lambda: value_of(leader, "polylog_isr_expansions_total") == 1, "the expansion is counted"
    )
    assert value_of(cluster.brokers[1], "polylog_leader_elections_total") == 0
    cluster.kill(2)
    wait_until(
        lambda: value_of(cluster.brokers[3], "polylog_leader_elections_total") >= 1, "3 is elected"
    )
    assert value_of(cluster.brokers[3], "polylog_unclean_leader_elections_total") == 0
