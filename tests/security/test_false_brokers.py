"""Clients that pose as brokers, where no ACL refuses them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from tests.support import quotas, wire_requests
from tests.support.acl_broker import AclBroker
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.cluster_process import running_cluster
from tests.support.cursus_client import CursusClient
from tests.support.line_client import LineClient
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

MARK = "BROKER_FORWARDING 192.0.2.1 0"
CONNECTIONS = 4
UNKNOWN_TOPIC, INVALID_TOPIC = 3, 17


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker of one test."""
    return start_broker("quota.window.num=2", f"max.connections.per.ip={CONNECTIONS}")


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[WireClient]:
    """A client that may set quotas."""
    with WireClient(broker.address, client_id="admin") as client:
        yield client


def audit_code(client: WireClient) -> int:
    """Return the error of writing an event of the audit."""
    partition = {"index": 0, "records": Batch([b"forged"]).encode()}
    topic = {"name": "__audit", "partition_data": [partition]}
    body = {"acks": -1, "timeout_ms": 20_000, "topic_data": [topic]}
    [answer] = client.request("Produce", 9, body)["responses"]
    return int(answer["partition_responses"][0]["error_code"])


def test_an_address_gets_its_connections_back_whatever_host_they_have_named(
    broker: BrokerProcess,
) -> None:
    def is_served() -> bool:
        with ExitStack() as stack:
            clients = [stack.enter_context(LineClient(broker.address)) for _ in range(CONNECTIONS)]
            try:
                for each in clients:
                    each.send(f"V1|1|{MARK.replace(' ', '|', 1)}\n".encode())
                return all(each.line() for each in clients)
            except ConnectionError:
                return False

    for _ in range(3):
        wait_until(is_served, "all connections of the address are there", 5.0)


def test_nobody_escapes_a_quota_by_naming_another_client(
    broker: BrokerProcess, admin: WireClient
) -> None:
    assert quotas.alter(admin, {"user": None}, producer_byte_rate=1_000.0) == [0]
    with LineClient(broker.address, timeout_s=1.0) as client:
        assert client.command(MARK).startswith("OK|")
        client.command(f"PRODUCE t key:{'x' * 20_000}")
        with pytest.raises(TimeoutError):
            client.command("PRODUCE t key:value")


def test_commands_between_brokers_are_unknown_where_there_is_one_broker(
    broker: BrokerProcess,
) -> None:
    with CursusClient(broker.address) as client:
        client.answer("FORWARDED client=192.0.2.1 revision=0 structured=false")
        answer = client.ask("COMMITTED_OFFSET topic=t partition=0 group=g")
    assert answer.startswith("ERROR: unknown_command")


def test_nobody_writes_events_of_the_audit_in_the_name_of_another_broker(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker("polylog.audit.events=administration", "polylog.audit.topic.enable=true")
    with WireClient(broker.address, client_id="polylog-broker") as client:
        wire_requests.create_topic(client, "t")  # which is an event

        wait_until(lambda: audit_code(client) != UNKNOWN_TOPIC, "there is a topic for events", 20.0)
        assert audit_code(client) == INVALID_TOPIC


@pytest.mark.etcd
def test_nobody_is_a_broker_over_another_listener_than_that_of_the_brokers(tmp_path: Path) -> None:
    """The listener of the brokers is the first; nothing is authorized."""
    settings = ("authorizer.class.name=", "polylog.audit.events=administration")
    kind = partial(AclBroker, principals=("clients",))
    with running_cluster(tmp_path / "cluster", settings, kind) as cluster:
        [broker, *_] = [cast("AclBroker", each) for each in cluster.brokers.values()]
        with broker.client("admin") as admin:
            topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}  # it is an event
            admin.request("CreateTopics", 5, {"topics": [topic], "timeout_ms": 20_000})

        def codes(name: str) -> set[int]:
            """Return the answers of all brokers to an event of another broker."""
            with ExitStack() as stack:
                clients = [
                    stack.enter_context(
                        cast("AclBroker", each).client(name, client_id="polylog-broker")
                    )
                    for each in cluster.brokers.values()
                ]
                return {audit_code(each) for each in clients}

        wait_until(lambda: 0 in codes("admin"), "one leads the topic for events", 20.0)
        assert 0 not in codes("clients")
        for name, expected in (("admin", "OK|"), ("clients", "brokers connect to the listener")):
            with LineClient(broker.addresses[name]) as client:
                assert expected in client.command(MARK)
