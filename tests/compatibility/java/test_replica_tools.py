"""Apache Kafka's tools (newest release) on topics with three replicas, also while brokers fail."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compatibility.java.tools import JavaTools
from tests.conftest import TEST_SETTINGS
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess, running_cluster

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.etcd, pytest.mark.timeout(900)]

TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
ELECT = f"{TOOLS}.LeaderElectionCommand"
CONFIG = "kafka.admin.ConfigCommand"
PARTITIONS = 3
# So long that a paused broker stays registered while a tool runs.
SETTINGS = (*TEST_SETTINGS, "broker.session.timeout.ms=30000", "default.replication.factor=3")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Three brokers that the tests share; each test leaves them running."""
    with running_cluster(tmp_path_factory.mktemp("replicas"), SETTINGS) as running:
        yield running


def at(cluster: ClusterProcess, broker_id: int) -> tuple[str, str]:
    """Return the option that names one of the brokers."""
    return "--bootstrap-server", cluster.brokers[broker_id].listen


def create(java: JavaTools, cluster: ClusterProcess, topic: str, *options: str) -> None:
    """Create a topic through the first broker."""
    java.run(TOPICS, *at(cluster, 1), "--create", "--topic", topic, *options)


def described(java: JavaTools, cluster: ClusterProcess, *options: str) -> str:
    """Return what the topic tool describes."""
    return java.run(TOPICS, *at(cluster, 1), "--describe", *options)


def partitions_in(said: str, topic: str) -> list[int]:
    """Return the partitions of a topic that a description has."""
    return [int(each) for each in re.findall(rf"Topic: {topic}\s+Partition: (\d+)", said)]


def write(cluster: ClusterProcess, topic: str, partition: int = 0) -> None:
    """Write a record with acks=all."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce(
        topic,
        b"value",
        partition=partition,
        on_delivery=lambda error, _: failures.append(error) if error else None,
    )
    assert producer.flush(60) == 0
    assert failures == []


def wait_in_sync(cluster: ClusterProcess, topic: str, partition: int, wanted: list[int]) -> None:
    """Wait until the first broker knows these replicas to be in sync."""
    wait_until(lambda: cluster.in_sync(1, topic).get(partition) == wanted, f"{wanted} are in sync")


def moves(tmp_path: Path, topic: str, *replicas: list[int]) -> tuple[str, str]:
    """Return the option that names a file with the new replicas of each partition."""
    file = tmp_path / f"{topic}.json"
    wanted = [
        {"topic": topic, "partition": number, "replicas": each}
        for number, each in enumerate(replicas)
    ]
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))
    return "--reassignment-json-file", str(file)


def test_the_topic_command_tells_what_a_killed_broker_leaves_and_elections_bring_back(
    java: JavaTools, cluster: ClusterProcess
) -> None:
    count = ("--partitions", str(PARTITIONS))
    create(java, cluster, "kept", *count, "--replication-factor", "3")
    create(java, cluster, "default", *count)
    create(java, cluster, "single", "--replica-assignment", "3")
    of = ("--entity-type", "topics", "--entity-name", "kept")
    for topic in ("kept", "default"):
        cluster.wait_for_replicas(topic, PARTITIONS)
    whole = described(java, cluster, "--topic", "kept")
    assert "ReplicationFactor: 3" in whole
    assert "ReplicationFactor: 3" in described(java, cluster, "--topic", "default")
    preferred = cluster.leaders(1, "kept")
    assert sorted(preferred.values()) == [1, 2, 3]
    assert partitions_in(described(java, cluster, "--under-replicated-partitions"), "kept") == []

    cluster.kill(3)
    for partition in range(PARTITIONS):
        wait_in_sync(cluster, "kept", partition, [1, 2])
    every = list(range(PARTITIONS))
    under = described(java, cluster, "--under-replicated-partitions")
    assert partitions_in(under, "kept") == partitions_in(under, "default") == every
    assert partitions_in(described(java, cluster, "--unavailable-partitions"), "single") == [0]
    assert partitions_in(described(java, cluster, "--unavailable-partitions"), "kept") == []
    assert partitions_in(described(java, cluster, "--under-min-isr-partitions"), "kept") == []

    def has_all(option: str) -> bool:
        return partitions_in(described(java, cluster, option), "kept") == every

    for value, option in ((2, "--at-min-isr-partitions"), (3, "--under-min-isr-partitions")):
        setting = f"min.insync.replicas={value}"
        java.run(CONFIG, *at(cluster, 2), *of, "--alter", "--add-config", setting)
        wait_until(partial(has_all, option), f"{option} has all partitions")
    java.run(CONFIG, *at(cluster, 2), *of, "--alter", "--delete-config", "min.insync.replicas")

    cluster.restart(3)
    for partition in range(PARTITIONS):
        wait_in_sync(cluster, "kept", partition, [1, 2, 3])
    assert 3 not in cluster.leaders(1, "kept").values()
    elected = java.run(
        ELECT, *at(cluster, 2), "--election-type", "preferred", "--all-topic-partitions"
    )
    assert "Successfully completed leader election" in elected
    wait_until(lambda: cluster.leaders(1, "kept") == preferred, "the first replicas lead")
    files = java.run(
        f"{TOOLS}.LogDirsCommand", *at(cluster, 1), "--describe", "--topic-list", "kept"
    )
    directories = json.loads(next(line for line in files.splitlines() if line.startswith("{")))
    held = [
        (broker["broker"], partition["partition"], partition["offsetLag"])
        for broker in directories["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    ]
    assert sorted(held) == [(b, f"kept-{p}", 0) for b in (1, 2, 3) for p in every]


def test_a_reassignment_is_generated_executed_with_throttles_and_verified(
    java: JavaTools, cluster: ClusterProcess, tmp_path: Path
) -> None:
    create(java, cluster, "moved", "--replica-assignment", "1:2,2:1")
    write(cluster, "moved")
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moved"}]}))
    generate = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "2,3")
    of = ("--entity-type", "topics", "--entity-name", "moved")

    generated = java.run(REASSIGN, *at(cluster, 1), *generate)
    current, proposed = map(
        json.loads, (line for line in generated.splitlines() if line.startswith("{"))
    )
    assert [each["replicas"] for each in current["partitions"]] == [[1, 2], [2, 1]]
    assert [sorted(each["replicas"]) for each in proposed["partitions"]] == [[2, 3], [2, 3]]
    wanted = [each["replicas"] for each in proposed["partitions"]]
    file = moves(tmp_path, "moved", *wanted)
    started = java.run(REASSIGN, *at(cluster, 3), "--execute", *file, "--throttle", "10000000")
    assert "Successfully started partition reassignments" in started
    throttled = java.run(CONFIG, *at(cluster, 2), *of, "--describe")
    assert "leader.replication.throttled.replicas=" in throttled
    assert "follower.replication.throttled.replicas=" in throttled

    def verify() -> str:
        return java.run(REASSIGN, *at(cluster, 1), "--verify", *file)

    wait_until(lambda: verify().count("is completed") == 2, "both partitions have moved")
    verify()
    assert "throttled" not in java.run(CONFIG, *at(cluster, 2), *of, "--describe").split("\n", 1)[1]
    for partition in range(2):
        wait_in_sync(cluster, "moved", partition, [2, 3])
    write(cluster, "moved")
    ends = java.run(f"{TOOLS}.GetOffsetShell", *at(cluster, 1), "--topic", "moved")
    assert "moved:0:2" in ends


def test_a_reassignment_under_way_is_listed_and_cancelled(
    java: JavaTools, cluster: ClusterProcess, tmp_path: Path
) -> None:
    wait_until(lambda: cluster.controller() is not None, "there is a controller")
    target = 3 if cluster.controller() != 3 else 2
    stays = 5 - target
    create(java, cluster, "cancelled", "--replica-assignment", f"1:{stays}")
    wait_in_sync(cluster, "cancelled", 0, sorted([1, stays]))
    file = moves(tmp_path, "cancelled", [1, target])

    cluster.brokers[target].expected_complaints.append("lease")
    cluster.pause(target)
    java.run(REASSIGN, *at(cluster, 1), "--execute", *file)
    under_way = java.run(REASSIGN, *at(cluster, 1), "--list")
    cancelled = java.run(REASSIGN, *at(cluster, 1), "--cancel", *file, "--preserve-throttles")
    after = java.run(REASSIGN, *at(cluster, 1), "--list")
    cluster.resume(target)

    assert re.search(rf"cancelled-0: replicas: .*adding: {target}. removing: {stays}", under_way)
    assert "Successfully cancelled" in cancelled
    assert "No partition reassignments found" in after
    wait_in_sync(cluster, "cancelled", 0, sorted([1, stays]))
    folder = cluster.brokers[target].data_dir / "cancelled-0"
    wait_until(lambda: not folder.exists(), "the other broker keeps no files of it")


def test_an_unclean_election_is_held_by_the_election_tool(
    java: JavaTools, cluster: ClusterProcess
) -> None:
    create(java, cluster, "unclean", "--replica-assignment", "2:3")
    wait_in_sync(cluster, "unclean", 0, [2, 3])
    one = ("--topic", "unclean", "--partition", "0")
    cluster.kill(3)
    wait_in_sync(cluster, "unclean", 0, [2])
    write(cluster, "unclean")
    cluster.kill(2)
    cluster.restart(3)
    wait_until(lambda: cluster.leaders(1, "unclean") == {0: -1}, "nobody leads")

    elected = java.run(ELECT, *at(cluster, 1), "--election-type", "unclean", *one)

    assert "Successfully completed leader election (UNCLEAN)" in elected
    wait_until(lambda: cluster.leaders(1, "unclean") == {0: 3}, "the other replica leads")
    cluster.restart(2)
    wait_in_sync(cluster, "unclean", 0, [2, 3])
