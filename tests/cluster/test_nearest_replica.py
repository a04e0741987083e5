"""A consumer that tells its rack reads from the replica there, and from the leader without it."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.model.settings import RACK_AWARE
from tests.conftest import TEST_SETTINGS
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ASK_TIMEOUT_S, ClusterProcess
from tests.support.wire_client import WireClient

TOPIC = "t"
LEADER, NEAREST = 1, 2
COUNT = 200
DEADLINE_S = 60


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three brokers in three racks, each with a replica of the topic, which broker 1 leads."""
    settings = [*TEST_SETTINGS, f"replica.selector.class={RACK_AWARE}"]
    cluster = ClusterProcess(tmp_path, 3, settings=settings)
    try:
        cluster.start()
        create(cluster)
        yield cluster
        cluster.check()
    finally:
        cluster.close()


def create(cluster: ClusterProcess) -> None:
    topic = {
        "name": TOPIC,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": [LEADER, NEAREST, 3]}],
        "configs": [],
    }
    with WireClient(cluster.brokers[LEADER].listen, ASK_TIMEOUT_S) as client:
        made = client.request("CreateTopics", 7, {"topics": [topic], "timeout_ms": 10_000})
    assert made["topics"][0]["error_code"] == 0, made
    cluster.wait_for_replicas(TOPIC, 1)
    cluster.wait_for_leaders(TOPIC, 1)


class Reader:
    """A consumer of librdkafka in a rack, which tells the broker that it reads from."""

    def __init__(self, cluster: ClusterProcess, rack: str) -> None:
        """Read from the first record on."""
        self.broker = -1
        self.values: list[int] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "unused",
                "client.rack": rack,
                "enable.auto.commit": False,
                "statistics.interval.ms": 100,
                "stats_cb": self._take_statistics,
                "fetch.wait.max.ms": 200,
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def _take_statistics(self, text: str) -> None:
        found: dict[str, Any] = json.loads(text)["topics"].get(TOPIC, {})
        partition = found.get("partitions", {}).get("0")
        if partition is not None:
            self.broker = partition["broker"]

    def reads(self, count: int) -> bool:
        """Read for a moment; return whether there are that many records by now."""
        message = self._consumer.poll(0.1)
        while message is not None:
            value = message.value()
            if message.error() is None and value is not None:
                self.values.append(int(value))
            message = self._consumer.poll(0.1)
        return len(self.values) >= count

    def uses(self, broker_id: int) -> bool:
        """Read for a moment; return whether it reads from a broker."""
        self.reads(0)
        return self.broker == broker_id

    def close(self) -> None:
        self._consumer.close()


def write(cluster: ClusterProcess, first: int) -> None:
    """Write records with acks=all."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 1})
    for number in range(first, first + COUNT):
        producer.produce(
            TOPIC, str(number), partition=0, on_delivery=lambda error, _: failed.append(error)
        )
    assert producer.flush(DEADLINE_S) == 0
    assert not any(failed), failed


def test_a_consumer_reads_from_the_replica_in_its_rack_and_goes_on_without_it(
    cluster: ClusterProcess,
) -> None:
    write(cluster, 0)
    reader = Reader(cluster, f"rack-{NEAREST}")
    try:
        wait_until(lambda: reader.reads(COUNT), "it has read all", DEADLINE_S)
        wait_until(lambda: reader.uses(NEAREST), "it reads from its rack", DEADLINE_S)
        write(cluster, COUNT)
        wait_until(lambda: reader.reads(2 * COUNT), "it has read the next", DEADLINE_S)
        assert reader.broker == NEAREST

        cluster.kill(NEAREST)
        write(cluster, 2 * COUNT)
        wait_until(lambda: reader.reads(3 * COUNT), "it goes on without it", DEADLINE_S)
        wait_until(lambda: reader.uses(LEADER), "it reads from the leader", DEADLINE_S)

        assert reader.values == [*range(3 * COUNT)]
    finally:
        reader.close()
        cluster.restart(NEAREST)


def test_a_consumer_goes_on_when_its_replica_becomes_the_leader(cluster: ClusterProcess) -> None:
    write(cluster, 0)
    reader = Reader(cluster, f"rack-{NEAREST}")
    try:
        wait_until(lambda: reader.reads(COUNT), "it has read all", DEADLINE_S)
        wait_until(lambda: reader.uses(NEAREST), "it reads from its rack", DEADLINE_S)

        cluster.drain(LEADER)
        write(cluster, COUNT)
        wait_until(lambda: reader.reads(2 * COUNT), "it goes on", DEADLINE_S)

        assert reader.values == [*range(2 * COUNT)]
    finally:
        reader.close()
        cluster.restart(LEADER)


def test_a_consumer_elsewhere_reads_from_the_leader(cluster: ClusterProcess) -> None:
    write(cluster, 0)
    readers = [Reader(cluster, each) for each in ("rack-1", "", "another")]
    try:
        for reader in readers:
            wait_until(partial(reader.reads, COUNT), "it has read all", DEADLINE_S)
            assert reader.uses(LEADER)
    finally:
        for reader in readers:
            reader.close()
