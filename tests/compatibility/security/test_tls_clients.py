"""Unmodified clients over TLS, with and without certificates; keys that are renewed meanwhile."""

import asyncio
import json
import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaConsumer, KafkaProducer

from tests.compatibility.java.tools import JavaTools
from tests.support.broker_process import wait_until
from tests.support.certificates import Authority
from tests.support.configured_broker import ConfiguredBroker, key_store
from tests.support.private_file import write_private
from tests.support.secure_broker import SecureBroker

RECORDS = 200
SIZE = 20_000  # longer than a record of TLS
SECONDS = 60


@pytest.fixture(scope="module", params=["none", "required"])
def secure(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureBroker]:
    """A broker whose clients need no certificate, and one whose clients do."""
    client_auth = request.param
    broker = SecureBroker(
        tmp_path_factory.mktemp(client_auth), settings=[f"ssl.client.auth={client_auth}"]
    )
    broker.start()
    yield broker
    assert broker.stop() == 0
    broker.check()


def needs_certificate(broker: SecureBroker) -> bool:
    return "ssl.client.auth=required" in broker.settings


def certificate(broker: SecureBroker) -> Path | None:
    return broker.authority.key_store("alice") if needs_certificate(broker) else None


def context(broker: SecureBroker) -> ssl.SSLContext:
    return broker.client_context(certificate(broker))


def values(count: int = RECORDS) -> list[bytes]:
    return [os.urandom(SIZE) for _ in range(count)]


def of_librdkafka(broker: SecureBroker, **more: Any) -> dict[str, Any]:
    options = {
        "bootstrap.servers": broker.secure,
        "security.protocol": "SSL",
        "ssl.ca.location": str(broker.authority.file),
        **more,
    }
    own = certificate(broker)
    if own is not None:
        options |= {"ssl.certificate.location": str(own), "ssl.key.location": str(own)}
    return options


def test_librdkafka(secure: SecureBroker) -> None:
    sent = values()
    producer = Producer(of_librdkafka(secure, **{"enable.idempotence": True}))
    for value in sent:
        producer.produce("librdkafka", value)
    assert producer.flush(SECONDS) == 0

    reads = {"group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer(of_librdkafka(secure, **reads))
    consumer.subscribe(["librdkafka"])
    received = [consumer.poll(SECONDS) for _ in sent]
    consumer.close()

    assert [each.value() for each in received if each is not None] == sent


def test_kafka_python(secure: SecureBroker) -> None:
    sent = values(50)
    options = {
        "bootstrap_servers": secure.secure,
        "security_protocol": "SSL",
        "ssl_context": context(secure),
    }
    producer = KafkaProducer(**options)
    for value in sent:
        producer.send("kafka-python", value)
    producer.flush(SECONDS)
    producer.close()

    consumer = KafkaConsumer(
        "kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=5000, **options
    )
    received = []
    for record in consumer:
        received.append(record.value)
        if len(received) == len(sent):
            break
    consumer.close()

    assert received == sent


def test_aiokafka(secure: SecureBroker) -> None:
    sent = values(50)
    options = {
        "bootstrap_servers": secure.secure,
        "security_protocol": "SSL",
        "ssl_context": context(secure),
    }

    async def scenario() -> list[bytes]:
        producer = AIOKafkaProducer(**options)
        await producer.start()
        for value in sent:
            await producer.send_and_wait("aiokafka", value)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            "aiokafka", group_id="readers", auto_offset_reset="earliest", **options
        )
        await consumer.start()
        received = [(await consumer.getone()).value for _ in sent]
        await consumer.stop()
        return received

    assert asyncio.run(asyncio.wait_for(scenario(), SECONDS)) == sent


@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_javas_tools(secure: SecureBroker, java: JavaTools, tmp_path: Path) -> None:
    options = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secure.authority.file),
    }
    own = certificate(secure)
    if own is not None:
        options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(own)}
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    at = ("--bootstrap-server", secure.secure)

    java.run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "java", "--num-records", "2000", "--record-size", "1000"),
        *("--throughput", "-1", *at, "--command-config", str(config)),
    )
    consumed = java.run(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--topic", "java", "--num-records", "2000", *at, "--command-config", str(config)),
    )
    described = java.run(
        "org.apache.kafka.tools.TopicCommand",
        *(*at, "--command-config", str(config), "--describe", "--topic", "java"),
    )

    assert ", 2000, " in consumed
    assert "PartitionCount: 1" in described


def asked(broker: SecureBroker, data: bytes) -> Callable[[], bytes]:
    client = broker.open(context(broker))
    client.sendall(data)

    def answer() -> bytes:
        with client:
            return client.recv(4096)

    return answer


def test_the_other_wire_protocols_and_http_go_through_the_same_listener(
    secure: SecureBroker,
) -> None:
    wanted = {"topic": "lines", "partition": 0, "offset": 0, "max_bytes": 1000}
    fetch = json.dumps({"Fetch": wanted}).encode()

    assert asked(secure, b"V1|1|PRODUCE|lines k:v\n")().startswith(b"V1|1|OK|")
    assert asked(secure, b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")().startswith(b"HTTP/1.1 200")
    assert asked(secure, struct.pack(">I", len(fetch)) + fetch)()[4:].startswith(b"{")
    listed = b"\x00\x00LIST"
    assert b"lines" in asked(secure, struct.pack(">I", len(listed)) + listed)()


def test_a_client_without_trust_in_the_authority_does_not_connect(secure: SecureBroker) -> None:
    with (
        secure.open_raw() as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
    with (
        secure.open_raw() as plain,
        pytest.raises(ssl.SSLCertVerificationError, match="other"),
    ):
        context(secure).wrap_socket(plain, server_hostname="other.example")


def shown(broker: SecureBroker) -> int:
    """Return the serial number of the certificate that a new connection is shown."""
    with broker.open(context(broker)) as client:
        found: Any = client.getpeercert()
        return int(found["serialNumber"], 16)


def alter(broker: SecureBroker, name: str, value: str | None, **options: Any) -> None:
    """Alter a setting of broker 1 over the plain listener."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    kind = AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=kind))
    admin.incremental_alter_configs([resource], **options)[resource].result(SECONDS)


LOCATION = "listener.name.ssl.ssl.keystore.location"


def test_keys_are_renewed_by_an_alteration_and_kept_over_a_kill(secure: SecureBroker) -> None:
    before = shown(secure)
    client = secure.open(context(secure))
    renewed = secure.authority.folder / "renewed.pem"
    write_private(renewed, secure.authority.pem([("CN", "server")]))

    alter(secure, LOCATION, str(renewed), validate_only=True)
    assert shown(secure) == before
    alter(secure, LOCATION, str(renewed))
    after = shown(secure)
    client.sendall(b"V1|1|PRODUCE|lines k:v\n")
    assert client.recv(100).startswith(b"V1|1|OK|")  # it is untouched
    client.close()
    secure.kill()
    secure.start()

    assert after != before
    assert shown(secure) == after
    write_private(renewed, secure.authority.pem([("CN", "server")]))
    alter(secure, LOCATION, str(renewed))  # the same path, whose file has changed
    assert shown(secure) not in {before, after}
    alter(secure, LOCATION, None)
    assert shown(secure) == before


@pytest.mark.parametrize(
    ("name", "store"),
    [
        (LOCATION, "missing"),
        (LOCATION, "garbage"),
        (LOCATION, "without a key"),
        (LOCATION, "other name"),
        (LOCATION, "fewer hosts"),
        ("ssl.keystore.location", "good"),
    ],
)
def test_keys_that_do_not_fit_are_refused_and_the_old_ones_stay(
    secure: SecureBroker, name: str, store: str
) -> None:
    before = shown(secure)
    path = secure.authority.folder / f"{store}.pem"
    pem = secure.authority.pem([("CN", "server")])
    content = {
        "garbage": b"garbage",
        "without a key": pem[pem.index(b"-----BEGIN CERTIFICATE") :],
        "other name": secure.authority.pem([("CN", "other")]),
        "fewer hosts": secure.authority.pem([("CN", "server")], ["localhost"]),
        "good": pem,
    }
    if store in content:
        write_private(path, content[store])

    with pytest.raises(KafkaException) as refused:
        alter(secure, name, str(path))

    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert shown(secure) == before


def test_keys_are_renewed_when_their_file_changes_and_not_by_a_damaged_one(
    secure: SecureBroker,
) -> None:
    before = shown(secure)
    secure.key_store.write_bytes(secure.authority.pem([("CN", "server")]))
    wait_until(lambda: shown(secure) != before, "the renewed key is used")
    after = shown(secure)

    secure.expected_complaints.append("keys are not renewed")
    lines = len(secure.log_lines())
    secure.key_store.write_bytes(b"damaged")
    wait_until(
        lambda: any("keys are not renewed" in each for each in secure.log_lines()[lines:]), "logged"
    )

    assert shown(secure) == after


def test_a_certificate_that_ends_soon_is_warned_of(tmp_path: Path) -> None:
    broker = SecureBroker(tmp_path)
    broker.key_store.write_bytes(broker.authority.pem([("CN", "server")], days=10))
    broker.start()
    try:
        wait_until(lambda: "certificate expires: listener=SSL" in broker.stderr(), "logged")
        assert "days=9" in broker.stderr() or "days=10" in broker.stderr()
    finally:
        assert broker.stop() == 0


def test_a_listener_with_a_name_of_its_own_has_its_own_keys(tmp_path: Path) -> None:
    broker = SecureBroker(tmp_path, settings=["listener.security.protocol.map=INSIDE:SSL"])
    own = broker.authority.key_store("inside", ["inside.example"])
    broker.settings += (f"listener.name.inside.ssl.keystore.location={own}",)
    broker.listen += ",INSIDE://127.0.0.1:0"
    broker.start()
    try:
        port = int(broker.stdout().split("127.0.0.1:")[3].split()[0].rstrip(","))
        with (
            socket.create_connection(("127.0.0.1", port), SECONDS) as plain,
            broker.client_context().wrap_socket(plain, server_hostname="inside.example") as client,
        ):
            client.sendall(b"V1|1|PRODUCE|lines k:v\n")
            assert client.recv(100).startswith(b"V1|1|OK|")
    finally:
        assert broker.stop() == 0


def test_a_certificate_identifies_a_client_of_a_protocol_without_a_login(tmp_path: Path) -> None:
    """The listener is for V1 only and asks for a login: V1 has none, a certificate does instead."""
    authority = Authority(tmp_path)
    broker = ConfiguredBroker(
        tmp_path,
        ["V1"],
        {
            "listener.security.protocol.map": "V1:SASL_SSL",
            "listener.name.v1.ssl.client.auth": "requested",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "ssl.keystore.location": str(key_store(tmp_path, authority)),
            "ssl.truststore.location": str(authority.own.certificate),
        },
    )
    broker.start()
    host, _, port = broker.of_listener["V1"].rpartition(":")
    try:
        for own, expected in ((authority.issue("alice"), b"V1|1|OK|"), (None, b"")):
            with (
                socket.create_connection((host, int(port)), SECONDS) as plain,
                authority.client_context(own).wrap_socket(plain, server_hostname=host) as client,
            ):
                client.sendall(b"V1|1|PRODUCE|lines k:v\n")
                assert client.recv(100).startswith(expected)
                assert expected or client.recv(100) == b""
    finally:
        assert broker.stop() == 0
