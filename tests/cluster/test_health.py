"""What the health pages of a cluster's brokers tell while one of them stops and is away."""

import http.client
import json
import signal
from typing import Any

from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.cluster_process import ClusterProcess
from tests.support.command_line import CommandLine
from tests.support.wire_client import WireClient

UNHEALTHY = 8  # the exit code of `broker cluster health`


def get(broker: BrokerProcess, path: str) -> tuple[int, dict[str, Any]]:
    host, _, port = broker.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def reasons(broker: BrokerProcess, path: str) -> dict[str, Any]:
    """Return the reasons by name, without those of the disk: it is this machine's."""
    found = get(broker, path)[1].get("reasons", ())
    return {each["reason"]: each for each in found if not each["reason"].startswith("disk_")}


def create(broker: BrokerProcess, name: str, replicas: list[int], **configs: str) -> None:
    """Create a topic with one partition, whose first replica leads it."""
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": replicas}],
        "configs": [{"name": key.replace("_", "."), "value": configs[key]} for key in configs],
    }
    body = {"topics": [topic], "timeout_ms": 30_000, "validate_only": False}
    with WireClient(broker.address) as client:
        assert client.request("CreateTopics", 5, body)["topics"][0]["error_code"] == 0


def test_a_cluster_tells_what_a_lost_broker_and_a_lost_store_do(
    own_three_brokers: ClusterProcess,
) -> None:
    cluster = own_three_brokers
    create(cluster.brokers[1], "copied", [2, 3], min_insync_replicas="2")
    create(cluster.brokers[1], "alone", [3])
    for broker in cluster.brokers.values():
        wait_until(lambda: not reasons(broker, "/health/cluster"), "well")  # noqa: B023
        assert get(broker, "/health/ready") == (200, {"status": "ready"})

    cluster.kill(3)
    found = {
        "offline_partitions": ["alone-0"],
        "under_min_isr_partitions": ["copied-0"],
        "under_replicated_partitions": ["copied-0"],
    }

    def is_told() -> bool:
        told = reasons(cluster.brokers[1], "/health/cluster")
        return {name: each.get("examples") for name, each in told.items()} == found

    wait_until(is_told, "the partitions of the lost broker are named")
    assert get(cluster.brokers[1], "/health/ready")[0] == 200
    rows = CommandLine(cluster.brokers[1].address)("cluster", "health", code=UNHEALTHY).rows
    told = {(each["check"], each["subject"]) for each in rows if each["severity"] == "problem"}
    assert told >= {
        ("broker", "broker 3"),
        ("offline", "alone-0"),
        ("under-min-isr", "copied-0"),
    }
    assert all(each["fix"] for each in rows if each["severity"] == "problem")

    cluster.etcd.send(0, signal.SIGSTOP)
    try:
        for each in (1, 2):
            cluster.brokers[each].expected_complaints += ["lease lost", "cannot be followed"]
        wait_until(lambda: "fenced" in reasons(cluster.brokers[1], "/health/ready"), "fenced")
        assert "metadata_store_unreachable" in reasons(cluster.brokers[1], "/health/cluster")
        assert get(cluster.brokers[1], "/health/live")[0] == 200
        assert get(cluster.brokers[1], "/health/startup")[0] == 200
    finally:
        cluster.etcd.send(0, signal.SIGCONT)
    wait_until(lambda: get(cluster.brokers[1], "/health/ready")[0] == 200, "ready again")


def test_a_broker_that_gives_its_leaderships_away_is_not_ready(
    own_three_brokers: ClusterProcess,
) -> None:
    cluster = own_three_brokers
    broker = cluster.brokers[1]
    create(broker, "t", [1, 2])
    wait_until(lambda: cluster.leaders(1, "t") == {0: 1}, "it leads")
    # Without the store no other broker takes over, until the drain's time is over.
    cluster.etcd.send(0, signal.SIGSTOP)
    try:
        broker.signal(signal.SIGTERM)
        wait_until(
            lambda: set(reasons(broker, "/health/ready")) == {"draining", "stopping"}, "told"
        )
        assert get(broker, "/health/live")[0] == 200
    finally:
        cluster.etcd.send(0, signal.SIGCONT)
    assert broker.process.wait(60) == 0
