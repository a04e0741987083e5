"""ACLs in a cluster on etcd: a change takes effect on every broker, and they trust each other."""

from collections.abc import Iterator
from functools import partial
from typing import cast

import pytest

from tests.support.acl_broker import CLUSTER, GROUP, TOPIC, AclBroker, acl, create_acls, delete_acls
from tests.support.acl_broker import exact_filter as exact
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess, running_cluster
from tests.support.cursus_client import CursusClient, Message, batch, read_batch
from tests.support.line_client import LineClient
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

SOON_S = 20.0  # a change is seen after some milliseconds


def _is_answered(client: WireClient, code: int) -> bool:
    return code_of(client, "t") == code


def _is_written(client: LineClient) -> bool:
    return "OK|" in client.command("PRODUCE lines a:value")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Three brokers whose connections to each other are a super user's."""
    folder = tmp_path_factory.mktemp("cluster")
    settings = ("default.replication.factor=3", "min.insync.replicas=2")
    with running_cluster(folder, settings, AclBroker) as running:
        yield running


def brokers(cluster: ClusterProcess) -> list[AclBroker]:
    return [cast("AclBroker", each) for each in cluster.brokers.values()]


def code_of(client: WireClient, name: str) -> int:
    wanted = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    [found] = client.request("Metadata", 9, wanted)["topics"]
    return int(found["error_code"])


def make_topic(cluster: ClusterProcess, name: str, partitions: int = 1) -> None:
    first, *_ = brokers(cluster)
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 3}
    with first.client("admin") as admin:
        wanted = {"topics": [topic], "timeout_ms": 20_000}
        [made] = admin.request("CreateTopics", 5, wanted)["topics"]
    assert made["error_code"] == 0, made
    cluster.wait_for_leaders(name, partitions)


def test_a_change_takes_effect_on_every_broker(cluster: ClusterProcess) -> None:
    first, *_ = brokers(cluster)
    entry = acl("Read", TOPIC, "t")
    with first.client("admin") as admin:
        make_topic(cluster, "t")
        clients = [each.client() for each in brokers(cluster)]
        assert [code_of(each, "t") for each in clients] == [29, 29, 29]

        assert create_acls(admin, entry) == [0]
        assert code_of(clients[0], "t") == 0, "in force here at the answer"
        for each in clients:
            wait_until(partial(_is_answered, each, 0), "it is in force", SOON_S)

        assert delete_acls(admin, exact(entry)) == 1
        assert code_of(clients[0], "t") == 29
        for each in clients:
            wait_until(partial(_is_answered, each, 29), "it is gone", SOON_S)
            each.close()


def test_entries_are_there_after_all_brokers_were_killed(cluster: ClusterProcess) -> None:
    first, *_ = brokers(cluster)
    with first.client("admin") as admin:
        assert create_acls(admin, acl("Describe", TOPIC, "kept")) == [0]
    for broker_id in cluster.brokers:
        cluster.kill(broker_id)
    cluster.start()

    for each in brokers(cluster):
        with each.client() as alice:
            assert code_of(alice, "kept") == 3


def test_replicas_copy_and_a_client_that_is_no_broker_may_not(cluster: ClusterProcess) -> None:
    make_topic(cluster, "copied")
    cluster.wait_for_replicas("copied", 1)
    leader = cluster.leaders(1, "copied")[0]
    leading = cast("AclBroker", cluster.brokers[leader])
    partition = {"index": 0, "records": Batch([b"value"]).encode()}
    body = {
        "acks": -1,
        "timeout_ms": 20_000,
        "topic_data": [{"name": "copied", "partition_data": [partition]}],
    }
    with leading.acls(acl("Write", TOPIC, "copied")), leading.client() as alice:
        [answer] = alice.request("Produce", 9, body)["responses"]
        fetch = {
            "max_wait_ms": 0,
            "session_epoch": 0,
            "replica_state": {"replica_id": 2, "replica_epoch": 1},
        }
        refused = alice.request("Fetch", 17, fetch)

    assert answer["partition_responses"][0]["error_code"] == 0
    assert refused["error_code"] == 31


def test_a_request_that_is_forwarded_is_decided_where_the_client_is(
    cluster: ClusterProcess,
) -> None:
    first, *_ = brokers(cluster)
    make_topic(cluster, "lines", 3)
    for each in brokers(cluster):
        with LineClient(each.addresses["alice"]) as alice:
            for key in "abcdef":
                assert "not authorized" in alice.command(f"PRODUCE lines {key}:value")
    with first.acls(acl("Write", TOPIC, "lines")):
        for each in brokers(cluster):
            with LineClient(each.addresses["alice"]) as alice:
                wait_until(
                    partial(_is_written, alice),
                    "it is in force",
                    SOON_S,
                )
                answers = [alice.command(f"PRODUCE lines {key}:value") for key in "abcdef"]
            assert all(answer.startswith("OK|") for answer in answers), answers


def test_nobody_takes_a_client_for_a_broker_that_says_so(cluster: ClusterProcess) -> None:
    first, *_ = brokers(cluster)
    with LineClient(first.addresses["alice"]) as alice:
        assert "not authorized" in alice.command("BROKER_FORWARDING 192.0.2.1 0")
        with first.acls(acl("ClusterAction", CLUSTER)):
            said = alice.command("BROKER_FORWARDING 192.0.2.1 0")
            assert "brokers connect to the listener ADMIN" in said
    with LineClient(first.addresses["admin"]) as admin:
        assert admin.command("BROKER_FORWARDING 192.0.2.1 0").startswith("OK|")


def test_a_pattern_reads_only_what_the_client_may_read_whichever_broker_leads_it(
    cluster: ClusterProcess,
) -> None:
    first, *_ = brokers(cluster)
    names = [f"seen-{number}" for number in range(6)]
    for name in names:
        make_topic(cluster, name)
    for each in brokers(cluster):
        wait_until(partial(_has_all, each, names), "it knows the topics", SOON_S)
    with CursusClient(first.addresses["admin"]) as admin:
        for name in names:
            admin.answer(batch(name, 0, [Message(name.encode())], acks=b"all"))
    allowed = {name.encode() for name in names[1:]}
    needs = [acl("Read", TOPIC, name) for name in names[1:]]
    with first.acls(*needs, acl("Read", GROUP, "g")):
        for each in brokers(cluster):
            with CursusClient(each.addresses["alice"]) as alice:
                named = "CONSUME topic=seen-* partition=0 offset=0 group=g"
                wait_until(partial(_is_read, alice, named, allowed), "all it may read", SOON_S)
                assert _read(alice, named) == allowed
                found = read_batch(alice.answer("CONSUME seen-* 0 0"), is_original=True)
                assert {message.payload for message in found.messages} == allowed


def _has_all(broker: AclBroker, names: list[str]) -> bool:
    with broker.client("admin") as admin:
        return all(code_of(admin, name) == 0 for name in names)


def _read(client: CursusClient, command: str) -> set[bytes]:
    return {message.payload for message in client.consume(command).messages}


def _is_read(client: CursusClient, command: str, wanted: set[bytes]) -> bool:
    answer = client.answer(command)
    return answer[:2] == b"\xba\x7c" and wanted <= {
        message.payload for message in read_batch(answer).messages
    }
