"""How fast a new replica copies a partition when an operator limits that (KIP-73)."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import batch_of
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ASK_TIMEOUT_S, ClusterProcess, running_cluster
from tests.support.wire_client import WireClient
from tests.support.wire_requests import produce

pytestmark = pytest.mark.etcd
TOPIC = "t"
RATE, UNLIMITED = 200_000, (1 << 63) - 1  # bytes per second
BATCHES, BATCH_BYTES = 16, 100_000
# A second's bytes are copied without waiting: at the begin, in the first answer, in the last one.
LEAST_SECONDS = BATCHES * BATCH_BYTES / RATE - 3
BROKER, TOPIC_CONFIG, SET = 4, 2, 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with running_cluster(tmp_path) as running:
        yield running


def ask(cluster: ClusterProcess, api: str, version: int, broker_id: int = 1, **body: Any) -> Any:
    with WireClient(cluster.brokers[broker_id].listen, ASK_TIMEOUT_S) as client:
        return client.request(api, version, body)


def alter(cluster: ClusterProcess, kind: int, name: str, key: str, value: str) -> None:
    """Set one configuration of a topic, or of a broker, which has to be asked itself."""
    entry = {"name": key, "config_operation": SET, "value": value}
    resource = {"resource_type": kind, "resource_name": name, "configs": [entry]}
    asked = int(name) if kind == BROKER else 1
    answer = ask(
        cluster, "IncrementalAlterConfigs", 1, asked, resources=[resource], validate_only=False
    )
    assert answer["responses"][0]["error_code"] == 0, answer


def state(cluster: ClusterProcess) -> dict[str, Any]:
    found = cluster.metadata(1, [TOPIC])
    assert found is not None
    partition: dict[str, Any] = found["topics"][0]["partitions"][0]
    return partition


def reassign(cluster: ClusterProcess, *replicas: int) -> None:
    partition = {"partition_index": 0, "replicas": list(replicas)}
    answer = ask(
        cluster,
        "AlterPartitionReassignments",
        1,
        topics=[{"name": TOPIC, "partitions": [partition]}],
        timeout_ms=10_000,
        allow_replication_factor_change=True,
    )
    assert answer["responses"][0]["partitions"][0]["error_code"] == 0, answer


@pytest.mark.slow("copies at a limited rate")
@pytest.mark.parametrize(("side", "broker_id"), [("leader", 1), ("follower", 3)])
def test_a_new_replica_copies_as_fast_as_the_throttle_allows(
    cluster: ClusterProcess, side: str, broker_id: int
) -> None:
    assigned = [{"partition_index": 0, "broker_ids": [1, 2]}]
    topic = {"name": TOPIC, "num_partitions": -1, "replication_factor": -1}
    topic |= {"assignments": assigned, "configs": []}
    made = ask(cluster, "CreateTopics", 7, topics=[topic], timeout_ms=10_000)
    assert made["topics"][0]["error_code"] == 0, made
    records = batch_of([(b"k", b"v" * BATCH_BYTES, ())], int(time.time() * 1000))
    wait_until(lambda: set(state(cluster)["isr_nodes"]) == {1, 2}, "both replicas are in sync")
    with WireClient(cluster.brokers[1].listen, ASK_TIMEOUT_S) as client:
        for _ in range(BATCHES):
            assert produce(client, TOPIC, records)[0] == 0
    name = f"{side}.replication.throttled"
    alter(cluster, BROKER, str(broker_id), f"{name}.rate", str(RATE))
    alter(cluster, TOPIC_CONFIG, TOPIC, f"{name}.replicas", f"0:{broker_id}")
    time.sleep(1)  # every broker has heard of it

    began = time.monotonic()
    reassign(cluster, 1, 2, 3)
    wait_until(lambda: set(state(cluster)["isr_nodes"]) == {1, 2, 3}, "it is copied", 60)

    assert time.monotonic() - began > LEAST_SECONDS
    reassign(cluster, 1, 2)
    wait_until(lambda: state(cluster)["replica_nodes"] == [1, 2], "the replica is gone")
    alter(cluster, BROKER, str(broker_id), f"{name}.rate", "1")
    time.sleep(1)

    reassign(cluster, 1, 2, 3)
    time.sleep(1)
    assert set(state(cluster)["isr_nodes"]) == {1, 2}, "it would take days"
    alter(cluster, BROKER, str(broker_id), f"{name}.rate", str(UNLIMITED))
    wait_until(lambda: set(state(cluster)["isr_nodes"]) == {1, 2, 3}, "it is copied again", 60)
