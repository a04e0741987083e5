"""Cursus's commands: golden responses of a real broker, in both forms and both envelopes."""

import json
import socket
import struct
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess
from tests.support.cursus_client import CursusClient, envelope
from tests.support.wire_client import WireClient

POLICY = (
    "cleanup_policy=delete partitioner=hash_key auth_policy=open read_acl= write_acl="
    " retention_hours=0 retention_bytes=0"
)
COMMANDS = (
    "CREATE,DELETE,LIST,DESCRIBE,METADATA,LIST_OFFSETS,HELP,PUBLISH,CONSUME,STREAM,REGISTER_GROUP,"
    "SUBSCRIBE,JOIN_GROUP,SYNC_GROUP,HEARTBEAT,LEAVE_GROUP,GROUP_STATUS,LIST_GROUPS,"
    "FIND_COORDINATOR,FETCH_OFFSET,COMMIT_OFFSET,COMMIT,BATCH_COMMIT,INIT_PRODUCER_ID,BEGIN_TXN,"
    "TXN_PUBLISH,SEND_OFFSETS_TO_TXN,END_TXN,TXN_STATUS,APPEND_STREAM,READ_STREAM,STREAM_VERSION,"
    "SAVE_SNAPSHOT,READ_SNAPSHOT,PROTOCOL_INFO,NEGOTIATE,AUTH,LIST_CLUSTER,CLUSTER_STATUS,"
    "ELECT_LEADER,EXIT"
)
FEATURES = (
    "event_sourcing_v1,idempotent_producer_v1,offset_resume_v1,stream_control_v1,"
    "structured_errors_v1,topic_compaction_v1"
)


INFO = (
    f"OK protocol=cursus min_version=1 max_version=1 default_version=1 features={FEATURES}"
    " error_classes=authorization,availability,conflict,fencing,internal,not_found,routing,"
    "validation"
)
VERSION_2 = (
    "ERROR: UNSUPPORTED_PROTOCOL_VERSION class=validation retryable=false requested=2 min=1 max=1"
)
NO_AUTHORIZER = "this broker has no authorizer (authorizer.class.name)"
UNSUPPORTED = "unsupported_topic_policy"
NAME_RULE = (
    "a topic name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-', and is not '.' or"
    " '..'"
)


@pytest.fixture
def topic_name() -> str:
    """Return a name that no other test has."""
    return f"commands-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(cursus_topic: Callable[..., str]) -> str:
    """A topic of two partitions."""
    return cursus_topic(2)


def configs_of(wire: WireClient, topic: str) -> dict[str, str]:
    """Return the configuration that Kafka's tools show of a topic."""
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    answer = wire.request("DescribeConfigs", 4, {"resources": [resource]})
    return {each["name"]: each["value"] for each in answer["results"][0]["configs"]}


# ---- the protocol ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("HELP", f"OK commands={COMMANDS}"),
        ("help", f"OK commands={COMMANDS}"),
        (
            "PROTOCOL_INFO",
            INFO,
        ),
        ("NEGOTIATE version=1", "OK protocol_version=1 enabled= unsupported="),
        (
            "NEGOTIATE version=1 features=offset_resume_v1,telepathy_v1",
            "OK protocol_version=1 enabled=offset_resume_v1 unsupported=telepathy_v1",
        ),
        (
            "NEGOTIATE version=1 features=*",
            f"OK protocol_version=1 enabled={FEATURES} unsupported=",
        ),
        ("NEGOTIATE features=x", "ERROR: missing_protocol_version"),
        ("NEGOTIATE version=one", "ERROR: invalid_protocol_version version=one"),
        (
            "NEGOTIATE version=2",
            VERSION_2,
        ),
        (
            "NEGOTIATE version=1 features=telepathy_v1 require_features=true",
            "ERROR: UNSUPPORTED_FEATURE class=validation retryable=false features=telepathy_v1",
        ),
        (
            "AUTH principal=bob token=t",
            (
                "ERROR: authentication_failed mechanism=PLAIN"
                ' reason="there is no authentication on this listener"'
            ),
        ),
        ("AUTH principal=bob", "ERROR: invalid_auth command=AUTH"),
        ("LIST_CLUSTER", "ERROR: distribution_not_enabled"),
        ("CLUSTER_STATUS", "ERROR: distribution_required command=CLUSTER_STATUS"),
        (
            "ELECT_LEADER topic=t partition=0 broker=2",
            "ERROR: distribution_required command=ELECT_LEADER",
        ),
        ("FIND_COORDINATOR", "ERROR: missing_coordinator_key command=FIND_COORDINATOR"),
        ("APPEND_STREAM key=k", "ERROR: missing_topic command=APPEND_STREAM"),
        ("APPEND_STREAM topic=t key=k", "ERROR: topic_not_found topic=t"),
        ("STREAM_VERSION topic=t key=k", "ERROR: topic_not_found topic=t"),
        ("SAVE_SNAPSHOT topic=t key=k", "ERROR: topic_not_found topic=t"),
        ("READ_SNAPSHOT topic=t key=k", "ERROR: topic_not_found topic=t"),
        ("READ_STREAM topic=t key=k", '{"error":"topic_not_found topic=t","status":"ERROR"}'),
        ("FROB a b", 'ERROR: unknown_command command="FROB a b"'),
        ("CREATE a b c d", 'ERROR: unknown_command command="CREATE a b c d"'),
    ],
)
def test_a_command_is_answered_with_and_without_an_envelope(
    cursus: CursusClient, command: str, answer: str
) -> None:
    assert cursus.ask(command) == answer
    cursus.ask("NEGOTIATE version=1")  # forgets what was negotiated
    assert cursus.ask(envelope(command)) == answer
    cursus.ask("NEGOTIATE version=1")
    assert cursus.ask(envelope(command, "admin")) == answer


def test_negotiated_errors_carry_their_class(cursus: CursusClient) -> None:
    cursus.ask("NEGOTIATE version=1 features=structured_errors_v1")

    assert cursus.ask("DELETE topic=nope") == (
        "ERROR: topic_not_found class=not_found retryable=false topic=nope"
    )


def test_a_negotiation_applies_to_one_connection(broker: Broker, cursus: CursusClient) -> None:
    cursus.ask("NEGOTIATE version=1 features=*")

    with CursusClient(broker.address) as other:
        assert other.ask("DELETE topic=nope") == "ERROR: topic_not_found topic=nope"


@pytest.mark.parametrize("key", ["group=g", "transactional_id=x", "txn=x", "transaction=x"])
def test_find_coordinator_names_this_broker(broker: Broker, cursus: CursusClient, key: str) -> None:
    host, _, port = broker.address.rpartition(":")
    kind = "group" if key.startswith("group") else "transaction"

    assert cursus.ask(f"FIND_COORDINATOR {key}") == (
        f"OK coordinator_id=standalone coordinator_type={kind} host={host} port={port}"
    )


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b"", b'ERROR: decode_failed reason="data too short"'),
        (b"\0", b'ERROR: decode_failed reason="data too short"'),
        (b"\x01\0\0", b'ERROR: decode_failed reason="invalid topic length"'),
        (b"\x1f\x8b\0\0", None),
    ],
)
def test_an_empty_frame_is_answered_and_the_connection_stays_open(
    cursus: CursusClient, body: bytes, answer: bytes | None
) -> None:
    cursus.ask("HELP")

    found = cursus.answer(body)

    assert found == answer or (answer is None and found.startswith(b"ERROR: decode_failed reason="))
    assert cursus.ask("LIST_CLUSTER") == "ERROR: distribution_not_enabled"


def test_an_envelope_without_a_command_is_answered_and_closes_the_connection(
    cursus: CursusClient,
) -> None:
    cursus.ask("HELP")

    assert cursus.ask(envelope("\x01\x02")) == (
        "ERROR: malformed_input reason=missing_topic_or_payload"
    )
    assert cursus.frame() is None


def test_a_frame_above_the_limit_closes_the_connection(cursus: CursusClient) -> None:
    cursus.ask("HELP")
    cursus.socket.sendall(struct.pack(">I", (64 << 20) + 1) + b"HELP")

    assert cursus.frame() is None


def test_pipelined_commands_are_answered_in_order(cursus: CursusClient) -> None:
    for n in range(100):
        cursus.send(f"NEGOTIATE version=1 features=f{n}")

    assert [cursus.frame() for _ in range(100)] == [
        b"OK protocol_version=1 enabled= unsupported=f%d" % n for n in range(100)
    ]


def test_a_frame_may_arrive_byte_by_byte(cursus: CursusClient) -> None:
    for byte in struct.pack(">I", 12) + b"LIST_CLUSTER":
        cursus.socket.sendall(bytes([byte]))

    assert cursus.frame() == b"ERROR: distribution_not_enabled"


def test_a_half_closed_client_gets_its_responses(cursus: CursusClient) -> None:
    for _ in range(3):
        cursus.send("LIST_CLUSTER")
    cursus.socket.shutdown(socket.SHUT_WR)

    assert [cursus.frame() for _ in range(4)] == [b"ERROR: distribution_not_enabled"] * 3 + [None]


# ---- topics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "partitions"),
    [
        ("CREATE topic={}", 4),
        ("CREATE topic={} partitions=3", 3),
        ("CREATE {}", 4),
        ("CREATE {} 2", 2),
        ("create {} 2", 2),
    ],
)
def test_a_topic_is_created(
    cursus: CursusClient, topic_name: str, command: str, partitions: int
) -> None:
    answer = f"OK topic={topic_name} partitions={partitions} {POLICY}"

    assert cursus.ask(command.format(topic_name)) == answer
    assert cursus.ask(f"CREATE topic={topic_name}") == answer, "it is there"
    assert (
        cursus.ask(f"LIST topic={topic_name}") == f"OK topic={topic_name} partitions={partitions}"
    )
    assert cursus.ask(f"DELETE {topic_name}") == f"OK topic={topic_name} deleted=true"
    assert cursus.ask(f"DELETE {topic_name}") == f"ERROR: topic_not_found topic={topic_name}"


def test_a_partition_count_can_only_grow(cursus: CursusClient, topic: str) -> None:
    assert cursus.ask(f"CREATE {topic} 3") == f"OK topic={topic} partitions=3 {POLICY}"
    assert cursus.ask(f"CREATE {topic} 2") == (
        f'ERROR: create_topic_failed topic={topic} reason="cannot decrease partition count for'
        f" topic '{topic}': 3 -> 2\""
    )
    assert cursus.ask(f"CREATE {topic}") == f"OK topic={topic} partitions=3 {POLICY}"


def test_a_topic_policy_is_stored_as_the_topics_configuration(
    cursus: CursusClient, wire: WireClient, topic: str
) -> None:
    answer = cursus.ask(
        f"CREATE topic={topic} cleanup_policy=compact,delete retention_hours=5 retention_bytes=1000"
        " partitioner=round_robin idempotent=true auth_policy=open replication_factor=1"
        " event_sourcing=false"
    )

    assert answer == (
        f"OK topic={topic} partitions=2 cleanup_policy=compact,delete partitioner=round_robin"
        " auth_policy=open read_acl= write_acl= retention_hours=5 retention_bytes=1000"
    )
    configs = configs_of(wire, topic)
    assert configs["retention.ms"] == "18000000"
    assert configs["retention.bytes"] == "1000"
    assert configs["cleanup.policy"] == "compact,delete"
    assert configs["polylog.cursus.idempotent"] == "true"
    assert configs["polylog.cursus.partitioner"] == "round_robin"
    again = cursus.ask(f"CREATE topic={topic} retention_hours=0 retention_bytes=0")
    assert again.endswith(" retention_hours=0 retention_bytes=0")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", 'missing_topic expected="CREATE topic=<name> [partitions=<N>]"'),
        ("topic=", 'missing_topic expected="CREATE topic=<name> [partitions=<N>]"'),
        ("topic=t partitions=0", 'invalid_partitions reason="must be a positive integer"'),
        ("topic=t partitions=x", 'invalid_partitions reason="must be a positive integer"'),
        ("t -1", 'invalid_partitions reason="must be a positive integer"'),
        (
            "topic=t replication_factor=0",
            'invalid_replication_factor reason="must be a positive integer"',
        ),
        (
            "topic=t replication_factor=2",
            'invalid_replication_factor reason="replication factor 2: this cluster has 1 broker"',
        ),
        ("topic=t retention_hours=-1", "invalid_retention_hours value=-1"),
        ("topic=t retention_hours=9999999999999", "invalid_retention_hours value=9999999999999"),
        ("topic=t retention_bytes=x", "invalid_retention_bytes value=x"),
        ("topic=t idempotent=maybe", "invalid_idempotent value=maybe"),
        ("topic=t cleanup_policy=burn", "invalid_topic_policy cleanup_policy=burn"),
        (
            "topic=t cleanup_policy=delete,delete",
            "invalid_topic_policy cleanup_policy=delete,delete",
        ),
        ("topic=t partitioner=dice", "invalid_topic_policy partitioner=dice"),
        ("topic=t auth_policy=secret", "invalid_topic_policy auth_policy=secret"),
        (
            "topic=t auth_policy=deny_write",
            f'{UNSUPPORTED} policy=auth_policy reason="{NO_AUTHORIZER}"',
        ),
        (
            "topic=t read_acl=bob",
            (
                'invalid_topic_policy reason="auth_policy=acl needs read_acl or write_acl,'
                ' which need it"'
            ),
        ),
        ("topic=t event_sourcing=maybe", "invalid_event_sourcing value=maybe"),
        (
            "topic=bad/x",
            f'invalid_topic_name topic="bad/x" reason="{NAME_RULE}"',
        ),
        (
            "topic=t partitions=10001",
            'create_topic_failed topic=t reason="10001 partitions, at most 10000 are allowed"',
        ),
    ],
)
def test_an_invalid_create_is_refused_with_its_reason(
    cursus: CursusClient, arguments: str, error: str
) -> None:
    answer = cursus.ask(f"CREATE {arguments}".strip())

    if error.startswith("create_topic_failed"):
        assert answer.startswith('ERROR: create_topic_failed topic=t reason="')
    else:
        assert answer == f"ERROR: {error}"
    assert cursus.ask("LIST topic=t") == "ERROR: topic_not_found topic=t"


def test_internal_topics_are_listed_and_cannot_be_changed(cursus: CursusClient, topic: str) -> None:
    cursus.ask(f"FETCH_OFFSET topic={topic} partition=0 group=g")

    shown = cursus.ask("LIST").split("topics=")[1].split(",")
    assert {"__consumer_offsets", topic} <= set(shown)
    assert cursus.ask("DELETE topic=__consumer_offsets") == (
        "ERROR: delete_topic_failed topic=__consumer_offsets reason=\"'__consumer_offsets' belongs"
        ' to the broker"'
    )


def test_a_topic_is_described(broker: Broker, cursus: CursusClient, topic: str) -> None:
    cursus.ask(f"PUBLISH topic={topic} partition=1 producerId=p message=m")
    here = broker.address

    assert cursus.ask(f"METADATA topic={topic}") == (
        f"OK topic={topic} partitions=2 leaders={here},{here} epochs=0,0 {POLICY}"
    )
    assert cursus.ask(f"LIST_OFFSETS topic={topic}") == (
        f"OK topic={topic} partitions=2 offsets=P0:earliest=0:latest=0:leo=0:hwm=0"
        ",P1:earliest=0:latest=1:leo=1:hwm=1"
    )
    assert cursus.ask(f"LIST_OFFSETS topic={topic} partition=1") == (
        f"OK topic={topic} partitions=2 offsets=P1:earliest=0:latest=1:leo=1:hwm=1"
    )
    text = cursus.ask(f"DESCRIBE topic={topic}")
    assert text.startswith('{\n  "status": "OK",\n  "topic": ')
    partitions = [
        {"id": n, "leader": here, "replicas": [here], "isr": [here], "leo": n, "hwm": n}
        for n in (0, 1)
    ]
    assert json.loads(text) == {
        "status": "OK",
        "topic": topic,
        "partitions": partitions,
        "policy": {
            "cleanup_policy": "delete",
            "partitioner": "hash_key",
            "auth_policy": "open",
            "read_acl": "",
            "write_acl": "",
            "retention_hours": 0,
            "retention_bytes": 0,
        },
    }


@pytest.mark.parametrize("keyword", ["DELETE", "DESCRIBE", "METADATA", "LIST_OFFSETS"])
def test_an_unknown_topic_is_reported(cursus: CursusClient, keyword: str) -> None:
    assert cursus.ask(keyword) == f"ERROR: missing_topic command={keyword}"
    assert cursus.ask(f"{keyword} topic=nope") == "ERROR: topic_not_found topic=nope"
    assert cursus.ask(f"{keyword} nope") == "ERROR: topic_not_found topic=nope"


def test_an_unknown_partition_is_reported(cursus: CursusClient, topic: str) -> None:
    assert cursus.ask(f"LIST_OFFSETS topic={topic} partition=2") == (
        "ERROR: partition_not_found partition=2"
    )
    assert cursus.ask(f"LIST_OFFSETS topic={topic} partition=x") == (
        "ERROR: invalid_partition command=LIST_OFFSETS"
    )


# ---- offsets of groups -------------------------------------------------------------------------


def test_an_offset_is_committed_and_only_rises(cursus: CursusClient, topic: str) -> None:
    fetch = f"FETCH_OFFSET topic={topic} partition=1 group=g"

    assert cursus.ask(fetch) == "OK offset=0"
    assert cursus.ask(f"COMMIT {topic} g 1 5") == "OK"
    assert cursus.ask(fetch) == "OK offset=5"
    assert cursus.ask(f"COMMIT {topic} g 1 5") == "OK"
    assert cursus.ask(f"COMMIT topic={topic} group=g partition=1 offset=4") == (
        f'ERROR: offset_regression reason="offset regression group=g topic={topic} partition=1'
        ' current=5 got=4"'
    )
    assert cursus.ask(fetch) == "OK offset=5"
    assert cursus.ask(f"FETCH_OFFSET topic={topic} partition=0 group=g") == "OK offset=0"


def test_kafka_clients_see_the_offsets_that_cursus_committed(
    cursus: CursusClient, wire: WireClient, topic: str
) -> None:
    cursus.ask(f"COMMIT {topic} shared 0 5")

    assert wire_requests.committed_offset(wire, "shared", topic) == (0, 5)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("FETCH_OFFSET partition=0 group=g", "missing_topic command=FETCH_OFFSET"),
        ("FETCH_OFFSET topic={} group=g", "missing_partition command=FETCH_OFFSET"),
        ("FETCH_OFFSET topic={} partition=0", "missing_group command=FETCH_OFFSET"),
        ("FETCH_OFFSET topic=nope partition=0 group=g", "topic_not_found topic=nope"),
        ("FETCH_OFFSET topic={} partition=2 group=g", "partition_not_found partition=2"),
        ("FETCH_OFFSET topic={} partition=-1 group=g", "invalid_partition command=FETCH_OFFSET"),
        ("COMMIT topic={} group=g partition=0", "missing_offset command=COMMIT"),
        ("COMMIT {} g 0 x", "invalid_offset command=COMMIT"),
        ("COMMIT {} g 0 -1", "invalid_offset command=COMMIT"),
        ("COMMIT {} g x 0", "invalid_partition command=COMMIT"),
        ("COMMIT {} g 2 0", "partition_not_found partition=2"),
        ("COMMIT nope g 0 0", "topic_not_found topic=nope"),
    ],
)
def test_invalid_offsets_are_refused(
    cursus: CursusClient, topic: str, command: str, error: str
) -> None:
    assert cursus.ask(command.format(topic)) == f"ERROR: {error}"


# ---- health, and listeners ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        ("/", b"text/plain; charset=utf-8", b"OK"),
        ("/health", b"text/plain; charset=utf-8", b"OK"),
        ("/live", b"application/json", b'{"status":"live"}'),
        ("/ready", b"application/json", b'{"status":"ready"}'),
    ],
)
def test_health_is_served_over_http_on_the_same_port(
    broker: Broker, path: str, kind: bytes, text: bytes
) -> None:
    host, _, port = broker.address.rpartition(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        for byte in f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode():
            connection.sendall(bytes([byte]))
        answer = connection.makefile("rb").read()

    assert answer == (
        b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nCache-Control: no-store\r\n"
        b"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s" % (kind, len(text), text)
    )


def test_an_http_header_that_does_not_end_closes_the_connection(broker: Broker) -> None:
    host, _, port = broker.address.rpartition(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 2000)
        with suppress(ConnectionResetError):
            assert connection.recv(100) == b""


def test_a_listener_can_be_limited_to_cursus(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, listen="cursus://127.0.0.1:0")
    broker.start()
    try:
        with CursusClient(broker.address) as client:
            assert client.ask(b"\xfe\xfe") == 'ERROR: decode_failed reason="invalid topic length"'
            assert client.ask("LIST") == "OK count=0 topics="
    finally:
        assert broker.stop() == 0
