"""Quotas of a running broker: the rates that real clients get, who is not slowed, floods."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.support import quotas, wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.cursus_client import CursusClient
from tests.support.line_client import LineClient
from tests.support.rustlog_client import RustLogClient
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import Batch

RATE = 500_000.0
SECONDS = 8.0
RECORD = b"x" * 1_000
FLOOD_IDS = 100_000
FLOOD_ENTITIES = 10_000
PER_REQUEST = 500
GROWTH_BYTES_MAX = 64 << 20
INVALID_REQUEST = 42
BROKER = 4  # the type of a resource


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker of one test, over two windows: only one second's worth passes at once."""
    return start_broker("quota.window.num=2")


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[WireClient]:
    """A client that has no quota."""
    with WireClient(broker.address, client_id="admin") as client:
        yield client


def produced_for(broker: BrokerProcess, topic: str, client_id: str, seconds: float) -> float:
    """Produce as fast as librdkafka may for a time; return the acknowledged bytes per second."""
    acknowledged = 0

    def count(error: Any, message: Any) -> None:
        nonlocal acknowledged
        assert error is None, error
        acknowledged += len(message.value())

    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "client.id": client_id,
            "batch.size": 50_000,
            "queue.buffering.max.messages": 200,
            "linger.ms": 5,
        }
    )
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        with suppress(BufferError):
            producer.produce(topic, RECORD, on_delivery=count)
            continue
        producer.poll(0.01)
    rate = acknowledged / seconds
    producer.purge()
    return rate


def consumed_for(broker: BrokerProcess, topic: str, client_id: str, seconds: float) -> float:
    """Consume as fast as librdkafka may for a time; return the bytes per second."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "client.id": client_id,
            "group.id": client_id,
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 100_000,
        }
    )
    consumer.subscribe([topic])
    received, ends = 0, float("inf")
    while time.monotonic() < ends:
        for message in consumer.consume(500, 0.05):
            assert message.error() is None
            received += len(message.value() or b"")
        if received and ends == float("inf"):
            ends = time.monotonic() + seconds
    consumer.close()
    return received / seconds


def fill(broker: BrokerProcess, topic: str, count: int) -> None:
    """Write records without a quota."""
    with WireClient(broker.address, client_id="filler") as client:
        for _ in range(count // 100):
            wire_requests.produce(client, topic, Batch([RECORD] * 100).encode())


# ---- rates ---------------------------------------------------------------------------------------


@pytest.mark.slow("a rate over 8 seconds")
def test_a_producer_gets_its_quota(broker: BrokerProcess, admin: WireClient, topic: str) -> None:
    wire_requests.create_topic(admin, topic)
    assert quotas.alter(admin, {"client-id": "slow"}, producer_byte_rate=RATE) == [0]

    assert produced_for(broker, topic, "slow", SECONDS) == pytest.approx(RATE, rel=0.2)
    assert produced_for(broker, topic, "other", 1.0) > 3 * RATE


@pytest.mark.slow("a rate over 8 seconds")
def test_a_consumer_gets_its_quota(broker: BrokerProcess, admin: WireClient, topic: str) -> None:
    wire_requests.create_topic(admin, topic)
    fill(broker, topic, 20_000)
    assert quotas.alter(admin, {"client-id": "slow"}, consumer_byte_rate=RATE) == [0]

    assert consumed_for(broker, topic, "slow", SECONDS) == pytest.approx(RATE, rel=0.25)
    assert consumed_for(broker, topic, "other", 1.0) > 3 * RATE


def test_two_connections_share_the_quota_of_a_user(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    """Every connection of a plain listener is of User:ANONYMOUS."""
    wire_requests.create_topic(admin, topic)
    with ExitStack() as stack:
        clients = [stack.enter_context(WireClient(broker.address, client_id=name)) for name in "ab"]
        assert quotas.alter(admin, {"user": "ANONYMOUS"}, producer_byte_rate=100_000.0) == [0]
        sent, begun = 0, time.monotonic()
        while time.monotonic() - begun < SECONDS / 2:
            for client in clients:
                client.send("Produce", 9, body_of(topic, 20_000))
            for client in clients:
                client.receive()
                sent += 20_000
        rate = sent / (time.monotonic() - begun)

    assert rate == pytest.approx(100_000, rel=0.35)


def body_of(topic: str, size: int) -> dict[str, Any]:
    """Return a Produce request of one batch."""
    return wire_requests.produce_body(topic, [(0, Batch([b"x" * size]).encode())])


def test_the_answer_tells_the_time_for_which_nothing_is_read(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    wire_requests.create_topic(admin, topic)
    assert quotas.alter(admin, {"client-id": "slow"}, producer_byte_rate=20_000.0) == [0]
    with WireClient(broker.address, client_id="slow") as client:
        begun = time.monotonic()
        answer = client.request("Produce", 9, body_of(topic, 40_000))
        answered = time.monotonic()
        client.request("ApiVersions", 0, {})
        ended = time.monotonic()

    assert answer["throttle_time_ms"] == pytest.approx(1_000, abs=50)
    assert answered - begun < 0.5
    assert ended - answered == pytest.approx(1.0, abs=0.3)


def test_requests_that_python_serves_take_their_share_of_time_only(
    broker: BrokerProcess, admin: WireClient
) -> None:
    assert quotas.alter(admin, {"client-id": "busy"}, request_percentage=0.1) == [0]
    with WireClient(broker.address, client_id="busy") as client:
        times = [
            client.request("Metadata", 9, {"topics": None})["throttle_time_ms"] for _ in range(300)
        ]

    assert 0 < max(times) <= 1_000


def test_changes_of_topics_take_their_quota(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    assert quotas.alter(admin, {"client-id": "maker"}, controller_mutation_rate=1.0) == [0]
    topics = [
        {"name": f"{topic}-{i}", "num_partitions": 8, "replication_factor": 1} for i in range(3)
    ]
    with WireClient(broker.address, client_id="maker") as client:
        answer = client.request("CreateTopics", 7, {"topics": topics, "timeout_ms": 9_000})

    codes = [each["error_code"] for each in answer["topics"]]
    assert codes == [0, 0, 89]
    assert 3_000 < answer["throttle_time_ms"] < 5_100


def test_quotas_survive_a_kill(broker: BrokerProcess, admin: WireClient, topic: str) -> None:
    wire_requests.create_topic(admin, topic)
    assert quotas.alter(admin, {"client-id": None}, producer_byte_rate=1_000.0) == [0]

    broker.kill()
    broker.start()

    with WireClient(broker.address) as client:
        assert quotas.described(client) == {"client-id=None": {"producer_byte_rate": 1_000.0}}
        answer = client.request("Produce", 9, body_of(topic, 3_000))
        assert answer["throttle_time_ms"] > 1_000


# ---- connections ---------------------------------------------------------------------------------


def is_served(broker: BrokerProcess, source: str = "127.0.0.1") -> bool:
    """Connect from an address of this host; return whether a request is answered."""
    host, _, port = broker.address.rpartition(":")
    with socket.create_connection((host, int(port)), 10, (source, 0)) as client:
        client.sendall(bytes.fromhex("0000000c 0012 0000 00000001 0002 7878"))
        with suppress(ConnectionResetError):
            return client.recv(4) != b""
    return False


def configure(client: WireClient, name: str, value: str) -> None:
    """Alter a setting of all brokers."""
    config = {"name": name, "config_operation": 0, "value": value}
    resource = {"resource_type": BROKER, "resource_name": "", "configs": [config]}
    body = {"resources": [resource], "validate_only": False}
    [response] = client.request("IncrementalAlterConfigs", 1, body)["responses"]
    assert response["error_code"] == 0, response


def test_an_address_has_as_many_connections_as_it_may(
    broker: BrokerProcess, admin: WireClient
) -> None:
    configure(admin, "max.connections.per.ip.overrides", "127.0.0.9:2")
    with ExitStack() as stack:
        host, _, port = broker.address.rpartition(":")
        held = [
            stack.enter_context(socket.create_connection((host, int(port)), 10, ("127.0.0.9", 0)))
            for _ in range(2)
        ]
        wait_until(lambda: not is_served(broker, "127.0.0.9"), "a third one is refused")
        assert is_served(broker, "127.0.0.8")
        held[0].close()
        wait_until(lambda: is_served(broker, "127.0.0.9"), "a third one is served")


def test_an_address_connects_as_often_as_it_may(broker: BrokerProcess, admin: WireClient) -> None:
    assert quotas.alter(admin, {"ip": "127.0.0.9"}, connection_creation_rate=5.0) == [0]

    answers = [is_served(broker, "127.0.0.9") for _ in range(6)]

    assert answers == [True] * 5 + [False]
    assert all(is_served(broker, "127.0.0.8") for _ in range(20))
    time.sleep(2)
    assert is_served(broker, "127.0.0.9")


def test_the_broker_accepts_as_many_per_second_as_configured(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    """Others wait: none is refused."""
    broker = start_broker("quota.window.num=2", "max.connection.creation.rate=20")
    begun = time.monotonic()

    assert all(is_served(broker) for _ in range(100))

    assert 2.5 < time.monotonic() - begun < 6


# ---- floods --------------------------------------------------------------------------------------


@pytest.mark.slow("100,000 client ids")
def test_100_000_client_ids_take_bounded_memory_and_disturb_no_one(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    wire_requests.create_topic(admin, topic)
    assert quotas.alter(admin, {"client-id": None}, producer_byte_rate=1e9) == [0]
    assert quotas.alter(admin, {"client-id": None}, request_percentage=1e6) == [0]
    before = broker.private_memory()
    with WireClient(broker.address) as flood:
        for first in range(0, FLOOD_IDS, PER_REQUEST):
            together = []
            for number in range(first, first + PER_REQUEST):
                flood._client_id = f"flood-{number}".encode()
                frame = flood.frame("ApiVersions", 0, b"")
                together.append(len(frame).to_bytes(4) + frame)
            flood.send_bytes(b"".join(together))
            for _ in range(PER_REQUEST):
                flood.receive_frame()
        assert wire_requests.produce(admin, topic, Batch([RECORD]).encode())[0] == 0

    assert broker.private_memory() - before < GROWTH_BYTES_MAX


@pytest.mark.slow("10,000 quotas")
def test_10_000_quotas_are_stored_described_and_cost_no_client_its_turn(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    wire_requests.create_topic(admin, topic)
    entities = [{"user": f"user-{number}"} for number in range(FLOOD_ENTITIES)]
    longest = 0.0
    with WireClient(broker.address, client_id="flood") as flood:
        for first in range(0, FLOOD_ENTITIES, PER_REQUEST):
            part = entities[first : first + PER_REQUEST]
            ops = [{"key": "producer_byte_rate", "value": 1e9, "remove": False}]
            entries = [{"entity": quotas.parts(each), "ops": ops} for each in part]
            flood.send("AlterClientQuotas", 1, {"entries": entries, "validate_only": False})
            begun = time.monotonic()
            assert wire_requests.produce(admin, topic, Batch([RECORD]).encode())[0] == 0
            longest = max(longest, time.monotonic() - begun)
            assert {each["error_code"] for each in flood.receive()["entries"]} == {0}
        described = quotas.described(flood)

    assert len(described) == FLOOD_ENTITIES
    assert longest < 1.0


def test_bad_quotas_are_refused_and_change_nothing(admin: WireClient) -> None:
    for entity in ({}, {"user": ""}, {"group": "g"}, {"ip": "x"}, {"ip": "::1", "user": "u"}):
        assert quotas.alter(admin, entity, producer_byte_rate=1.0) == [INVALID_REQUEST]
    for key, value in (("unknown", 1.0), ("producer_byte_rate", -1.0), ("consumer_byte_rate", 1.5)):
        assert quotas.alter(admin, {"user": "u"}, **{key: value}) == [INVALID_REQUEST]
    for value in (float("nan"), float("inf"), -0.0):
        assert quotas.alter(admin, {"user": "u"}, request_percentage=value) == [INVALID_REQUEST]
    assert quotas.alter(admin, {"user": "u"}, {"user": "u"}, request_percentage=5.0) == [42, 42]

    assert quotas.described(admin) == {}


def test_one_that_disconnects_while_it_rests_leaves_nothing_behind(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    wire_requests.create_topic(admin, topic)
    assert quotas.alter(admin, {"client-id": "slow"}, producer_byte_rate=1.0) == [0]
    for _ in range(50):
        with WireClient(broker.address, client_id="slow") as client:
            client.send_together(*[("Produce", 9, body_of(topic, 1_000))] * 3)
            client.receive()
    with WireClient(broker.address, client_id="slow") as client:
        client.send("Produce", 9, body_of(topic, 1_000))
        client.receive()
        client.send("ApiVersions", 0, {})
        client.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.receive_frame()

    assert broker.stop() == 0
    with pytest.raises((ConnectionClosedError, ConnectionRefusedError)):
        admin.request("ApiVersions", 0, {})


# ---- the other protocols -------------------------------------------------------------------------


def seconds_for(ask: Callable[[], object], count: int) -> float:
    """Return how long some requests take, one after another."""
    begun = time.monotonic()
    for _ in range(count):
        ask()
    return time.monotonic() - begun


def test_writes_and_reads_of_a_user_by_v1_take_their_quota(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    wire_requests.create_topic(admin, topic)
    assert quotas.alter(admin, {"user": "ANONYMOUS"}, producer_byte_rate=1_000.0) == [0]
    with LineClient(broker.address) as client:
        line = f"V1|1|PRODUCE|{topic} k:{'x' * 900}".encode()
        assert 2 < seconds_for(lambda: client.ask(line), 5) < 8

    changes = {"producer_byte_rate": None, "consumer_byte_rate": 1_000.0}
    assert quotas.alter(admin, {"user": "ANONYMOUS"}, **changes) == [0]
    with LineClient(broker.address) as client:
        line = f"V1|1|CONSUME|{topic} 0 4".encode()
        assert 2 < seconds_for(lambda: client.ask(line), 5) < 8


def test_writes_and_reads_of_a_user_by_rustlog_take_their_quota(
    broker: BrokerProcess, admin: WireClient, topic: str
) -> None:
    wire_requests.create_topic(admin, topic)
    assert quotas.alter(admin, {"user": "ANONYMOUS"}, producer_byte_rate=1_000.0) == [0]
    with RustLogClient(broker.address) as client:
        assert 2 < seconds_for(lambda: client.produce(topic, [b"x" * 900]), 5) < 8

    changes = {"producer_byte_rate": None, "consumer_byte_rate": 1_000.0}
    assert quotas.alter(admin, {"user": "ANONYMOUS"}, **changes) == [0]
    with RustLogClient(broker.address) as client:
        assert 2 < seconds_for(lambda: client.fetch(topic, 0, 1_000), 5) < 8


def test_writes_of_a_user_by_cursus_take_their_quota(
    broker: BrokerProcess, admin: WireClient, cursus_topic: Callable[..., str]
) -> None:
    topic = cursus_topic(1)
    assert quotas.alter(admin, {"user": "ANONYMOUS"}, producer_byte_rate=1_000.0) == [0]
    with CursusClient(broker.address) as client:
        text = f"PUBLISH topic={topic} acks=1 message={'x' * 900}"
        assert 2 < seconds_for(lambda: client.ask(text), 5) < 8
    assert quotas.alter(admin, {"user": "ANONYMOUS"}, producer_byte_rate=None) == [0]
