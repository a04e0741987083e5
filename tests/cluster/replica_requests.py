"""One topic with replicas, as an operator and a producer see it through single brokers."""

import time
from collections.abc import Callable
from typing import Any

from tests.support.batches import batch_of
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ASK_TIMEOUT_S, ClusterProcess
from tests.support.wire_client import WireClient
from tests.support.wire_requests import ALL, produce

TOPIC = "t"
SEND_TIMEOUT_S = 30.0  # longer than a leader waits for its followers


def ask(cluster: ClusterProcess, broker_id: int, api: str, version: int, **body: Any) -> Any:
    with WireClient(cluster.brokers[broker_id].listen, ASK_TIMEOUT_S) as client:
        return client.request(api, version, body)


def create(cluster: ClusterProcess, *replicas: list[int], min_isr: int = 2) -> None:
    """Create the topic, with the replicas of each partition."""
    assigned = [{"partition_index": n, "broker_ids": each} for n, each in enumerate(replicas)]
    topic = {
        "name": TOPIC,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": assigned,
        "configs": [{"name": "min.insync.replicas", "value": str(min_isr)}],
    }
    made = ask(cluster, 1, "CreateTopics", 7, topics=[topic], timeout_ms=10_000)
    assert made["topics"][0]["error_code"] == 0, made


def send(
    cluster: ClusterProcess, broker_id: int, *, value: bytes = b"v", acks: int = ALL
) -> tuple[int, int]:
    """Send a record to a leader; return the error and its offset."""
    records = batch_of([(b"k", value, ())], int(time.time() * 1000))
    with WireClient(cluster.brokers[broker_id].listen, SEND_TIMEOUT_S) as client:
        return produce(client, TOPIC, records, acks=acks)


def write(cluster: ClusterProcess, broker_id: int, *, value: bytes = b"v") -> int:
    """Write a record with acks=all through a leader; return its offset."""
    error, offset = send(cluster, broker_id, value=value)
    assert error == 0
    return offset


def state(cluster: ClusterProcess, broker_id: int, partition: int = 0) -> dict[str, Any]:
    """Return what a broker tells of a partition; nothing if it cannot be asked."""
    found = cluster.metadata(broker_id, [TOPIC])
    rows = [] if found is None else found["topics"][0]["partitions"]
    return next((each for each in rows if each["partition_index"] == partition), {})


def wait_for(
    cluster: ClusterProcess, broker_id: int, condition: Callable[[dict[str, Any]], Any], what: str
) -> None:
    wait_until(lambda: condition(state(cluster, broker_id)), what)


def isr(wanted: set[int]) -> Callable[[dict[str, Any]], bool]:
    return lambda found: set(found.get("isr_nodes", ())) == wanted
