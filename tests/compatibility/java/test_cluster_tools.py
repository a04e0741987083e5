"""Apache Kafka's tools for clusters, brokers and groups (newest release) against this broker."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compatibility.java.tools import JavaTools
from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

TOOLS = "org.apache.kafka.tools"
CONFIG = "kafka.admin.ConfigCommand"
MOVES = f"{TOOLS}.reassign.ReassignPartitionsCommand"


def at(broker: Broker) -> tuple[str, str]:
    """Return the option that names the broker."""
    return "--bootstrap-server", broker.address


@pytest.fixture
def made(broker: Broker, topic: str) -> str:
    """A topic with two partitions."""
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, 2)
    return topic


def test_topic_command_lists_describes_and_deletes(
    java: JavaTools, broker: Broker, made: str
) -> None:
    command = f"{TOOLS}.TopicCommand"

    java.run(command, *at(broker), "--create", "--if-not-exists", "--topic", made)
    listed = java.run(command, *at(broker), "--list", "--exclude-internal")
    unavailable = java.run(command, *at(broker), "--describe", "--unavailable-partitions")
    lagging = java.run(command, *at(broker), "--describe", "--under-replicated-partitions")
    described = java.run(command, *at(broker), "--describe", "--topic", made)
    topic_id = described.split("TopicId: ")[1].split()[0]
    by_id = java.run(command, *at(broker), "--describe", "--topic-id", topic_id)
    java.run(command, *at(broker), "--delete", "--topic", made)
    java.run(command, *at(broker), "--describe", "--if-exists", "--topic", made)
    left = java.run(command, *at(broker), "--list")

    assert made in listed.split()
    assert made not in unavailable + lagging
    assert re.search(rf"Topic: {made}\s+TopicId: {topic_id}\s+PartitionCount: 2", by_id)
    assert re.search(rf"Topic: {made}\s.*PartitionCount: 2\s+ReplicationFactor: 1", described)
    assert re.search(r"Partition: 1\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described)
    assert made not in left.split()


def test_config_command_alters_and_describes_a_broker_and_all_brokers(
    java: JavaTools, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker()
    this = (*at(broker), "--entity-type", "brokers", "--entity-name", "1")
    every = (*at(broker), "--entity-type", "brokers", "--entity-default")

    java.run(CONFIG, *every, "--alter", "--add-config", "log.retention.ms=2000,max.connections=77")
    java.run(CONFIG, *this, "--alter", "--add-config", "log.retention.ms=1000")
    of_all = java.run(CONFIG, *every, "--describe")
    of_this = java.run(CONFIG, *this, "--describe")
    java.run(CONFIG, *this, "--alter", "--delete-config", "log.retention.ms")
    inherited = java.run(CONFIG, *this, "--describe", "--all")

    assert re.search(
        r"^\s+log\.retention\.ms=2000 .*DYNAMIC_DEFAULT_BROKER_CONFIG", of_all, re.MULTILINE
    )
    assert "max.connections=77" in of_all
    assert re.search(
        r"log\.retention\.ms=1000 .*\{DYNAMIC_BROKER_CONFIG:log\.retention\.ms=1000,"
        r" DYNAMIC_DEFAULT_BROKER_CONFIG:log\.retention\.ms=2000",
        of_this,
    )
    assert re.search(
        r"log\.retention\.ms=2000 .*\{DYNAMIC_DEFAULT_BROKER_CONFIG:log\.retention\.ms=2000",
        inherited,
    )


def test_config_command_shows_why_a_broker_setting_is_refused(
    java: JavaTools, broker: Broker
) -> None:
    this = (*at(broker), "--entity-type", "brokers", "--entity-name", "1", "--alter")

    with pytest.raises(AssertionError, match=r"InvalidRequestException.*node\.id"):
        java.run(CONFIG, *this, "--add-config", "node.id=7")


def test_config_command_sets_and_resets_the_level_of_a_logger(
    java: JavaTools, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker()
    of = (*at(broker), "--entity-type", "broker-loggers", "--entity-name", "1")
    name = "broker.core.maintenance.cleaner"

    java.run(CONFIG, *of, "--alter", "--add-config", f"{name}=DEBUG")
    described = java.run(CONFIG, *of, "--describe")
    java.run(CONFIG, *of, "--alter", "--delete-config", name)
    reset = java.run(CONFIG, *of, "--describe")

    assert f"{name}=DEBUG" in described
    assert f"{name}=INFO" in reset
    assert "root=INFO" in reset


def test_config_command_alters_and_describes_a_group(
    java: JavaTools, broker: Broker, topic: str
) -> None:
    of = (*at(broker), "--entity-type", "groups", "--entity-name", topic)

    java.run(CONFIG, *of, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    described = java.run(CONFIG, *of, "--describe")
    java.run(CONFIG, *of, "--alter", "--delete-config", "consumer.session.timeout.ms")
    everything = java.run(CONFIG, *of, "--describe", "--all")

    assert "consumer.session.timeout.ms=50000" in described
    assert "consumer.session.timeout.ms=45000" in everything
    assert "consumer.heartbeat.interval.ms=5000" in everything


def test_config_command_finds_no_quotas_users_or_metrics(java: JavaTools, broker: Broker) -> None:
    for entities in ("users", "clients", "client-metrics"):
        described = java.run(CONFIG, *at(broker), "--entity-type", entities, "--describe")

        assert "=" not in described, described


def test_cluster_tool_reports_the_id_and_the_endpoints(java: JavaTools, broker: Broker) -> None:
    cluster_id = java.run(f"{TOOLS}.ClusterTool", "cluster-id", *at(broker))
    endpoints = java.run(f"{TOOLS}.ClusterTool", "list-endpoints", *at(broker))

    host, port = broker.address.rsplit(":", 1)
    assert re.search(r"Cluster ID: \S{22}\n", cluster_id)
    assert re.search(rf"1\s+{re.escape(host)}\s+{port}\s+null\s+unfenced\s+broker", endpoints)


def test_feature_command_describes_and_changes_nothing(java: JavaTools, broker: Broker) -> None:
    command = f"{TOOLS}.FeatureCommand"

    described = java.run(command, *at(broker), "describe")
    same = java.run(
        command, *at(broker), "upgrade", "--feature", "metadata.version=30", "--dry-run"
    )

    assert re.search(r"Feature: metadata\.version\s.*FinalizedVersionLevel: 4\.3-IV0", described)
    assert "metadata.version can be upgraded to 30." in same
    with pytest.raises(AssertionError, match=r"metadata\.version"):
        java.run(command, *at(broker), "downgrade", "--feature", "metadata.version=29")


def test_metadata_quorum_command_describes_the_quorum_of_one(
    java: JavaTools, broker: Broker, made: str
) -> None:
    command = f"{TOOLS}.MetadataQuorumCommand"

    status = java.run(command, *at(broker), "describe", "--status")
    replication = java.run(command, *at(broker), "describe", "--replication")

    assert re.search(r"LeaderId:\s+1\n", status)
    assert re.search(r"HighWatermark:\s+[1-9]\d*\n", status), f"{made} is a change of metadata"
    assert re.search(r"MaxFollowerLag:\s+0\n", status)
    assert re.search(r"^1\s+\S{22}\s+\d+\s+0\s+\d+\s+\d+\s+Leader", replication, re.MULTILINE)


def test_broker_api_versions_command_shows_what_is_advertised(
    java: JavaTools, broker: Broker
) -> None:
    shown = java.run(f"{TOOLS}.BrokerApiVersionsCommand", *at(broker))
    with WireClient(broker.address) as client:
        advertised = client.request("ApiVersions", 0, {})["api_keys"]

    usable = {int(key) for key in re.findall(r"\((\d+)\): \d+(?: to \d+)? \[usable: \d+\]", shown)}
    assert usable == {each["api_key"] for each in advertised}
    assert "UNKNOWN" not in shown


def test_leader_election_command_finds_every_leader_elected(
    java: JavaTools, broker: Broker, made: str
) -> None:
    command = f"{TOOLS}.LeaderElectionCommand"

    of_one = java.run(
        command, *at(broker), "--election-type", "unclean", "--topic", made, "--partition", "1"
    )
    of_all = java.run(
        command, *at(broker), "--election-type", "preferred", "--all-topic-partitions"
    )

    assert f"Valid replica already elected for partitions {made}-1" in of_one
    assert "Error" not in of_all


def test_reassign_partitions_command_finds_every_replica_in_place(
    java: JavaTools, broker: Broker, made: str, tmp_path: Path
) -> None:
    stay, move = tmp_path / "stay.json", tmp_path / "move.json"
    for file, replicas in ((stay, [1]), (move, [2])):
        partition = {"topic": made, "partition": 0, "replicas": replicas}
        file.write_text(json.dumps({"version": 1, "partitions": [partition]}))

    listed = java.run(MOVES, *at(broker), "--list")
    started = java.run(MOVES, *at(broker), "--execute", "--reassignment-json-file", str(stay))
    verified = java.run(MOVES, *at(broker), "--verify", "--reassignment-json-file", str(stay))

    assert "No partition reassignments found." in listed
    assert f"Successfully started partition reassignment for {made}-0" in started
    assert f"Reassignment of partition {made}-0 is completed." in verified
    with pytest.raises(AssertionError, match=r"broker id 2"):
        java.run(MOVES, *at(broker), "--execute", "--reassignment-json-file", str(move))


def test_acls_command_is_refused_without_an_authorizer(java: JavaTools, broker: Broker) -> None:
    with pytest.raises(AssertionError, match="SecurityDisabledException"):
        java.run(f"{TOOLS}.AclCommand", *at(broker), "--list")


def test_reassign_partitions_moves_between_directories(java: JavaTools, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    data, more = str(broker.data_dir), tmp_path / "more"
    broker.wrap = lambda command: [f"{data},{more}" if each == data else each for each in command]
    broker.start()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "t", 1)
        for _ in range(4):
            wire_requests.produce(client, "t", Batch([bytes(100_000)]).encode())
    there = [each for each in (broker.data_dir, more) if not (each / "t-0").exists()]
    entry = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [str(there[0])]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    moves = (*at(broker), "--reassignment-json-file", str(plan))

    rate = ("--replica-alter-log-dirs-throttle", "1")
    started = java.run(MOVES, *moves, "--execute", *rate)
    going_on = java.run(MOVES, *moves, "--verify", "--preserve-throttles")
    described = java.run(f"{TOOLS}.LogDirsCommand", *at(broker), "--describe")
    java.run(
        *(MOVES, *moves, "--execute", "--additional"),
        *("--replica-alter-log-dirs-throttle", "100000000"),
    )
    wait_until((there[0] / "t-0").exists, "the move has ended")
    ended = java.run(MOVES, *moves, "--verify")

    assert "Successfully started moving log directory" in started
    assert "still in progress" in going_on, going_on
    assert '"isFuture":true' in described
    assert "completed successfully" in ended, ended
    assert broker.stop() == 0
