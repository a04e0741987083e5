"""Apache Kafka's tools (newest release) see all of a cluster of three brokers through any one."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cluster.test_several_directories import more_of, on_two_disks
from tests.compatibility.java.tools import JavaTools
from tests.conftest import TEST_SETTINGS
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess, running_cluster

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.etcd, pytest.mark.timeout(900)]

TOOLS = "org.apache.kafka.tools"
CONFIG = "kafka.admin.ConfigCommand"
PARTITIONS = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Three brokers that the tests share, with one topic."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), TEST_SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def topic(cluster: ClusterProcess, java: JavaTools) -> str:
    """A topic that was created through the first broker."""
    name = "of-the-tools"
    create = ("--create", "--topic", name, "--partitions", str(PARTITIONS))
    java.run(f"{TOOLS}.TopicCommand", *at(cluster, 1), *create)
    cluster.wait_for_leaders(name, PARTITIONS)
    return name


def at(cluster: ClusterProcess, broker_id: int) -> tuple[str, str]:
    """Return the option that names one of the brokers."""
    return "--bootstrap-server", cluster.brokers[broker_id].listen


def test_the_topic_command_shows_the_same_leaders_at_each_broker(
    java: JavaTools, cluster: ClusterProcess, topic: str
) -> None:
    command = f"{TOOLS}.TopicCommand"

    described = [
        java.run(command, *at(cluster, each), "--describe", "--topic", topic)
        for each in cluster.brokers
    ]
    unavailable = java.run(command, *at(cluster, 2), "--describe", "--unavailable-partitions")

    leaders = [re.findall(r"Partition: (\d+)\s+Leader: (\d+)", each) for each in described]
    assert leaders[0] == leaders[1] == leaders[2]
    assert sorted({leader for _, leader in leaders[0]}) == ["1", "2", "3"]
    assert topic not in unavailable


def test_an_alteration_through_one_broker_is_described_by_another(
    java: JavaTools, cluster: ClusterProcess, topic: str
) -> None:
    of = ("--entity-type", "topics", "--entity-name", topic)
    every = ("--entity-type", "brokers", "--entity-default")

    java.run(CONFIG, *at(cluster, 1), *of, "--alter", "--add-config", "retention.ms=86400001")
    java.run(CONFIG, *at(cluster, 2), *every, "--alter", "--add-config", "max.connections=777")

    assert "retention.ms=86400001" in java.run(CONFIG, *at(cluster, 3), *of, "--describe")
    assert "max.connections=777" in java.run(CONFIG, *at(cluster, 3), *every, "--describe")


def test_endpoints_and_the_quorum_are_those_of_all_brokers(
    java: JavaTools, cluster: ClusterProcess
) -> None:
    endpoints = java.run(f"{TOOLS}.ClusterTool", "list-endpoints", *at(cluster, 2))
    quorum = f"{TOOLS}.MetadataQuorumCommand"
    status = java.run(quorum, *at(cluster, 3), "describe", "--status")
    replication = java.run(quorum, *at(cluster, 1), "describe", "--replication")

    for broker_id, broker in cluster.brokers.items():
        port = broker.listen.rsplit(":", 1)[1]
        shown = rf"^{broker_id}\s+127\.0\.0\.1\s+{port}\s+rack-{broker_id}\s+unfenced\s+broker"
        assert re.search(shown, endpoints, re.MULTILINE), endpoints
    leader = re.search(r"LeaderId:\s+(\d)\n", status)
    assert leader is not None
    assert re.search(rf"^{leader[1]}\s.*Leader", replication, re.MULTILINE)
    assert len(re.findall(r"^[123]\s.*(?:Leader|Follower)", replication, re.MULTILINE)) == 3


def test_groups_offsets_and_files_of_all_brokers_are_found_through_one(
    java: JavaTools, cluster: ClusterProcess, topic: str
) -> None:
    groups = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
    reset = ("--reset-offsets", "--to-earliest", "--execute", "--topic", topic)
    names = [f"group-{each}" for each in range(6)]

    for each, name in enumerate(names):
        java.run(groups, *at(cluster, 1 + each % 3), "--group", name, *reset)
    listed = java.run(groups, *at(cluster, 1), "--list")
    described = java.run(groups, *at(cluster, 2), "--describe", "--all-groups")
    ends = java.run(f"{TOOLS}.GetOffsetShell", *at(cluster, 3), "--topic", topic)
    files = java.run(
        f"{TOOLS}.LogDirsCommand", *at(cluster, 1), "--describe", "--topic-list", topic
    )

    assert set(names) <= set(listed.split())
    assert len(re.findall(rf"^group-\d\s+{topic}\s+\d\s+0\s+0\s+0", described, re.MULTILINE)) == 36
    assert sorted(ends.split()) == [f"{topic}:{each}:0" for each in range(PARTITIONS)]
    directories = json.loads(next(line for line in files.splitlines() if line.startswith("{")))
    held = {
        partition["partition"]
        for broker in directories["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    }
    assert held == {f"{topic}-{each}" for each in range(PARTITIONS)}


def test_elections_and_moves_find_every_partition_in_place(
    java: JavaTools, cluster: ClusterProcess, topic: str, tmp_path: Path
) -> None:
    elected = java.run(
        f"{TOOLS}.LeaderElectionCommand",
        *(*at(cluster, 2), "--election-type", "preferred", "--all-topic-partitions"),
    )
    leaders = cluster.leaders(1, topic)
    stay = tmp_path / "stay.json"
    moves = [
        {"topic": topic, "partition": number, "replicas": [leader]}
        for number, leader in leaders.items()
    ]
    stay.write_text(json.dumps({"version": 1, "partitions": moves}))
    command = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    file = ("--reassignment-json-file", str(stay))
    started = java.run(command, *at(cluster, 3), "--execute", *file)
    verified = java.run(command, *at(cluster, 1), "--verify", *file)

    assert "Error" not in elected
    assert "Successfully started partition reassignments" in started
    assert verified.count("is completed") == PARTITIONS


def test_transactions_of_all_coordinators_are_listed_through_one_broker(
    java: JavaTools, cluster: ClusterProcess, topic: str
) -> None:
    names = [f"writer-{each}" for each in range(6)]
    for name in names:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, b"value")
        producer.commit_transaction(30)

    listed = java.run(f"{TOOLS}.TransactionsCommand", *at(cluster, 1), "list")

    shown = re.findall(r"^(writer-\d)\s+(\d)\s+\d+\s+CompleteCommit", listed, re.MULTILINE)
    assert sorted(name for name, _ in shown) == names, listed
    assert len({coordinator for _, coordinator in shown}) > 1


@pytest.mark.slow("a tool runs five times")
def test_reassign_partitions_moves_each_replica_within_its_broker(
    java: JavaTools, tmp_path: Path
) -> None:
    moves = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    cluster = ClusterProcess(tmp_path / "cluster", settings=TEST_SETTINGS)
    for broker in cluster.brokers.values():
        on_two_disks(broker)
    try:
        cluster.start()
        create = ("--create", "--topic", "t", "--partitions", "1", "--replication-factor", "3")
        java.run(f"{TOOLS}.TopicCommand", *at(cluster, 1), *create)
        cluster.wait_for_replicas("t", 1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for _ in range(4):
            producer.produce("t", bytes(100_000))
        assert producer.flush(60) == 0
        wanted = [
            more_of(broker) if (broker.data_dir / "t-0").exists() else broker.data_dir
            for broker in cluster.brokers.values()
        ]
        entry = {
            "topic": "t",
            "partition": 0,
            "replicas": [*cluster.brokers],
            "log_dirs": [str(each) for each in wanted],
        }
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        options = (*at(cluster, 1), "--reassignment-json-file", str(plan))
        rate = "--replica-alter-log-dirs-throttle"

        started = java.run(moves, *options, "--execute", rate, "1")
        going_on = java.run(moves, *options, "--verify", "--preserve-throttles")
        java.run(moves, *options, "--execute", "--additional", rate, "100000000")
        for each in wanted:
            wait_until((each / "t-0").exists, "the replica has moved")
        ended = java.run(moves, *options, "--verify")

        assert "Successfully started moving log director" in started
        assert going_on.count("still in progress") >= len(wanted), going_on
        assert ended.count("completed successfully") >= len(wanted), ended
        cluster.check()
    finally:
        cluster.close()
