"""Records of partitions with one replica, when the broker that leads them ends and comes back."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compatibility.committed import committed_values
from tests.support.cluster_process import ClusterProcess

PARTITIONS = 6
TIMEOUT_S = 60
ENDS: dict[str, Callable[[ClusterProcess, int], None]] = {
    "killed": ClusterProcess.kill,
    "drained": ClusterProcess.drain,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_broker_that_comes_back_leads_its_partitions_again_with_all_their_records(
    three_brokers: ClusterProcess, topic: str, end: Callable[[ClusterProcess, int], None]
) -> None:
    cluster = three_brokers
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    cluster.wait_for_leaders(topic, PARTITIONS)
    leaders = cluster.leaders(1, topic)
    written = write(cluster, topic, "before")
    for broker_id in cluster.brokers:
        end(cluster, broker_id)
    cluster.restart(*cluster.brokers)
    cluster.wait_for_leaders(topic, PARTITIONS)
    written += write(cluster, topic, "after")
    found = committed_values(cluster.bootstrap, topic, at_least=len(written), partitions=PARTITIONS)
    assert sorted(found) == sorted(written)
    assert cluster.leaders(1, topic) == leaders
    assert sorted(set(leaders.values())) == [1, 2, 3]
    assert stray_folders(cluster) == []


def write(cluster: ClusterProcess, topic: str, name: str) -> list[str]:
    """Write a record to each partition and wait for the acknowledgements."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    errors: list[object] = []
    values = [f"{name} in {partition}" for partition in range(PARTITIONS)]
    for partition, value in enumerate(values):
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None] * PARTITIONS
    return values


def stray_folders(cluster: ClusterProcess) -> list[str]:
    """Return the folders that a broker has put aside because it did not know their topics."""
    return [
        folder.name for each in cluster.brokers.values() for folder in each.data_dir.glob("*-stray")
    ]
