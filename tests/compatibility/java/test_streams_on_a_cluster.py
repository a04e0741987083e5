"""Kafka Streams with exactly-once on topics with three replicas, whose brokers are killed."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compatibility.java.test_streams import (
    COUNT_TIMEOUT_S,
    PARTITIONS,
    counting,
    counts_of,
    each_once,
    lines,
    write,
)
from tests.compatibility.java.tools import JavaTools
from tests.conftest import TEST_SETTINGS
from tests.support import wire_requests
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ASK_TIMEOUT_S, ClusterProcess, running_cluster
from tests.support.wire_client import ConnectionClosedError, WireClient

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.etcd, pytest.mark.timeout(900)]

REPLICAS = ("default.replication.factor=3", "min.insync.replicas=2")
PART = 2_000  # lines, three words each


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three brokers with three replicas of everything."""
    with running_cluster(tmp_path / "cluster", (*TEST_SETTINGS, *REPLICAS)) as running:
        yield running


def counted(cluster: ClusterProcess, topic: str) -> int:
    """Return how many counts are written, committed or not; -1 if not all partitions are led."""
    watching = cluster.running()[0]
    total = 0
    for partition, leader in cluster.leaders(watching, topic).items():
        if leader not in cluster.running():
            return -1
        try:
            with WireClient(cluster.brokers[leader].listen, ASK_TIMEOUT_S) as client:
                answer = wire_requests.list_offset(client, topic, partition, -1)
        except (ConnectionClosedError, OSError):
            return -1
        if answer["error_code"] != 0:
            return -1
        total += answer["offset"]
    return total


@pytest.mark.slow("three brokers are killed, one after another, under Kafka Streams")
def test_word_count_is_exactly_once_while_each_of_three_brokers_is_killed(
    java: JavaTools, cluster: ClusterProcess, tmp_path: Path
) -> None:
    topic, results = "lines", "lines-counts"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for name, made in admin.create_topics(
        [NewTopic(each, PARTITIONS) for each in (topic, results)]
    ).items():
        made.result()
        cluster.wait_for_replicas(name, PARTITIONS)
    written = lines(0, 6 * PART + 100)
    expected = Counter(" ".join(written).split())
    goes_on = PART  # counts, of the three times as many of a part

    def wait_counted(at_least: int) -> None:
        wait_until(
            lambda: counted(cluster, results) >= at_least, "words are counted", COUNT_TIMEOUT_S
        )

    settings = ("replication.factor=3",)
    with counting(java, cluster.bootstrap, topic, tmp_path, "exactly_once_v2", *settings):
        for number, victim in enumerate(cluster.brokers):
            first = 2 * PART * number
            write(cluster.bootstrap, topic, written[first : first + PART])
            wait_counted(3 * first + goes_on)
            cluster.kill(victim)  # somewhere within the part
            write(cluster.bootstrap, topic, written[first + PART : first + 2 * PART])
            wait_counted(3 * (first + PART) + goes_on)
            cluster.restart(victim)
            for name in cluster.topics(victim):
                count = len(cluster.leaders(victim, name))
                cluster.wait_for_replicas(name, count)
        write(cluster.bootstrap, topic, written[6 * PART :])
        counts = counts_of(cluster.bootstrap, results, expected)

    assert counts == each_once(expected)
