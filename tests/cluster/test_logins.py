"""Brokers of a cluster log in to each other over the listener that clients use, too."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest

from tests.support.broker_process import BrokerProcess, held_port, wait_until
from tests.support.cluster_process import ClusterProcess
from tests.support.secured_broker import SCRAM_MODULE

PASSWORD = "a secret of brokers"
LIMIT_S = 60


class LoginBroker(BrokerProcess):
    """A broker with one SASL_PLAINTEXT listener.

    The first one is a user of the metadata store, others are users of the line that all have.
    """

    def __init__(self, folder: Path, *, settings: tuple[str, ...], listen: str | None) -> None:
        """Write its JAAS line to a file."""
        assert listen is None
        self._held, port = held_port()
        self.config = folder / "broker.toml"
        user = "brokers" if "node.id=1" in settings else "others"
        line = (
            f'{SCRAM_MODULE} required username="{user}" password="{PASSWORD}"'
            f' user_others="{PASSWORD}";'
        )
        name = "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config"
        self.config.write_text(f"{json.dumps(name)} = {json.dumps(line)}\n")
        self.config.chmod(0o600)
        super().__init__(folder, settings=settings, listen=f"SASL_PLAINTEXT://127.0.0.1:{port}")

    def command(self) -> list[str]:
        """Return the command line."""
        return [*super().command(), "--config", str(self.config)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    cluster = ClusterProcess(
        tmp_path,
        2,
        settings=("default.replication.factor=2", "min.insync.replicas=2"),
        kind=LoginBroker,
    )
    store = next(each for each in cluster.brokers[1].settings if "metadata.store" in each)
    subprocess.run(
        [
            *(sys.executable, "-m", "broker", "user", "create", "brokers"),
            *("--set", store, "--data-dir", str(tmp_path / "none"), "--password-file", "-"),
        ],
        input=f"{PASSWORD}\n",
        text=True,
        check=True,
    )
    yield cluster
    cluster.close()


@pytest.mark.etcd
def test_replicas_are_copied_and_groups_served_over_logins(cluster: ClusterProcess) -> None:
    for broker in cluster.brokers.values():
        broker.launch()
    for broker in cluster.brokers.values():
        broker.wait_started()
    conf: dict[str, str | int | float | bool] = {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "brokers",
        "sasl.password": PASSWORD,
    }
    admin = confluent_kafka.admin.AdminClient(conf)
    wait_until(lambda: len(admin.list_topics(timeout=10).brokers) == 2, "both brokers are known")
    made = admin.create_topics([confluent_kafka.admin.NewTopic("t", 4, 2)])
    made["t"].result(LIMIT_S)
    producer = confluent_kafka.Producer(conf | {"acks": "all"})
    for number in range(100):
        producer.produce("t", b"%d" % number)
    assert producer.flush(LIMIT_S) == 0

    group = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(conf | group)
    consumer.subscribe(["t"])
    read: set[object] = set()
    while len(read) < 100:
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert message.error() is None, message.error()
        read.add(message.value())
    consumer.close()

    for broker in cluster.brokers.values():
        assert PASSWORD not in broker.stderr()
        broker.check()
