"""The audit of several brokers: each has its chain, and all of them are in one topic."""

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from broker.codec import Record, records
from tests.support.acl_broker import TOPIC, AclBroker, acl, create_acls
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess, running_cluster
from tests.support.wire_client import WireClient
from tests.support.wire_requests import fetch_body

FETCH_BYTES = 1 << 20

pytestmark = [pytest.mark.etcd, pytest.mark.slow("starts three brokers on an etcd")]


def keys_of(clients: list[WireClient]) -> dict[bytes | None, list[bytes]]:
    """Return the lines in all partitions of the topic, by their keys."""
    found: dict[bytes | None, list[bytes]] = {}
    for partition in range(len(clients)):
        for client in clients:
            for each in lines_of(client, partition):
                found.setdefault(each.key, []).append(each.value or b"")
    return found


def lines_of(client: WireClient, partition: int) -> list[Record]:
    """Return the records of a partition; none from a broker that does not lead it."""
    wanted = fetch_body("__audit", partition, 0, FETCH_BYTES)
    [topic] = client.request("Fetch", 11, wanted)["responses"]
    [answer] = topic["partitions"]
    return list(records(answer["records"] or b"")) if answer["error_code"] == 0 else []


def test_each_broker_writes_a_chain_of_its_own_to_a_partition_that_it_leads(
    tmp_path: Path,
) -> None:
    settings = ("polylog.audit.events=administration,denial", "polylog.audit.topic.partitions=3")
    with running_cluster(tmp_path / "cluster", settings, AclBroker) as cluster:
        brokers = [cast("AclBroker", each) for each in cluster.brokers.values()]
        admins = [each.client("admin") for each in brokers]
        for number, admin in enumerate(admins):
            assert create_acls(admin, acl("Read", TOPIC, f"topic-{number}")) == [0]
        expected = {str(broker_id).encode() for broker_id in cluster.brokers}
        wait_until(lambda: set(keys_of(admins)) == expected, "each broker has written")
        lines = keys_of(admins)
        for admin in admins:
            admin.close()
        files = {
            str(broker_id).encode(): each.data_dir / "audit.jsonl"
            for broker_id, each in cluster.brokers.items()
        }
        for key, file in files.items():
            assert file.read_bytes().splitlines()[: len(lines[key])] == lines[key]
        _check_chains(cluster)


def _check_chains(cluster: ClusterProcess) -> None:
    for each in cluster.brokers.values():
        command = [sys.executable, "-m", "broker", "audit", "verify"]
        done = subprocess.run(
            [*command, str(each.data_dir / "audit.jsonl")], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout
