"""A cluster whose brokers reach each other over TLS only, and prove who they are."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import TEST_SETTINGS
from tests.support.authority import Authority
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess, running_cluster
from tests.support.secure_broker import SecureBroker

SETTINGS = (
    *TEST_SETTINGS,
    "inter.broker.listener.name=SSL",
    "ssl.client.auth=required",
    "min.insync.replicas=2",
)
ESTABLISHED = "01"
SECONDS = 60
COPIED = NewTopic("copied", num_partitions=6, replication_factor=3)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "keys")


@pytest.fixture
def cluster(tmp_path: Path, authority: Authority) -> Iterator[ClusterProcess]:
    kind = partial(SecureBroker, authority=authority)
    with running_cluster(tmp_path / "cluster", SETTINGS, kind) as cluster:
        yield cluster


def secured(cluster: ClusterProcess, broker_id: int) -> SecureBroker:
    found = cluster.brokers[broker_id]
    assert isinstance(found, SecureBroker)
    return found


def remote_ports() -> set[int]:
    """Return the ports to which a process of this machine has a connection."""
    rows = [each.split() for each in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[2].partition(":")[2], 16) for row in rows if row[3] == ESTABLISHED}


def test_replicas_and_forwarded_requests_go_over_the_listener_of_brokers(
    cluster: ClusterProcess, authority: Authority
) -> None:
    key = authority.key_store("client")
    options: dict[str, str | int | float | bool] = {
        "bootstrap.servers": ",".join(secured(cluster, each).secure for each in cluster.brokers),
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.file),
        "ssl.certificate.location": str(key),
        "ssl.key.location": str(key),
    }
    admin = AdminClient(options)
    admin.create_topics([COPIED])["copied"].result(SECONDS)
    producer = Producer({**options, "acks": "all"})
    for number in range(600):
        producer.produce("copied", b"%d" % number, partition=number % 6)
    assert producer.flush(SECONDS) == 0
    wait_until(
        lambda: all(sorted(each) == [1, 2, 3] for each in cluster.in_sync(1, "copied").values()),
        "all are in sync",
    )

    known = admin.list_topics("copied", timeout=SECONDS)
    ports = remote_ports()
    assert {each.port for each in known.brokers.values()} == {
        secured(cluster, each).secure_port for each in cluster.brokers
    }
    assert ports >= {secured(cluster, each).secure_port for each in cluster.brokers}
    assert ports.isdisjoint(
        int(each.address.rpartition(":")[2]) for each in cluster.brokers.values()
    )

    cluster.kill(known.topics["copied"].partitions[0].leader)
    consumer = Consumer({**options, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["copied"])
    received: set[bytes | None] = set()
    while len(received) < 600:
        record = consumer.poll(SECONDS)
        assert record is not None
        if record.error() is None:
            received.add(record.value())
    consumer.close()
    assert received == {b"%d" % number for number in range(600)}


def test_a_broker_with_a_certificate_of_another_authority_copies_nothing(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.brokers[1].address})
    admin.create_topics([COPIED])["copied"].result(SECONDS)
    stranger = secured(cluster, 3)
    for each in cluster.brokers.values():
        each.expected_complaints += ["no connection to a leader", "TLS handshakes failed"]
    cluster.kill(3)
    other = Authority(tmp_path / "other").key_store("stranger")
    stranger.key_store.write_bytes(other.read_bytes())
    stranger.launch()

    wait_until(
        lambda: "certificate verify failed" in secured(cluster, 1).stderr() + stranger.stderr(),
        "it is refused",
    )
