"""Real clients log in with each mechanism, and are told apart when they cannot."""

import asyncio
import os
import subprocess
import time
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest

from tests.compatibility.clients.go_clients import compiled
from tests.compatibility.programs import UnavailableError, facts_of
from tests.support.secured_broker import PLAIN_USERS, STORED_USERS, SecuredBroker

LOGINS = {
    "PLAIN": ("bob", PLAIN_USERS["bob"]),
    "SCRAM-SHA-256": ("alice", STORED_USERS["alice"]),
    "SCRAM-SHA-512": ("alice", STORED_USERS["alice"]),
}
ODD = "dave, who=is odd"  # a comma and an equal sign, which SCRAM escapes
CASES = [
    *((mechanism, *login) for mechanism, login in LOGINS.items()),
    ("SCRAM-SHA-512", ODD, STORED_USERS[ODD]),
]
LIMIT_S = 30
MECHANISMS = pytest.mark.parametrize(("mechanism", "user", "password"), CASES)


def librdkafka(secured: SecuredBroker, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": secured.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def of_python(secured: SecuredBroker, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": secured.address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


@MECHANISMS
def test_librdkafka_produces_and_consumes(
    secured: SecuredBroker, topic: str, mechanism: str, user: str, password: str
) -> None:
    conf = librdkafka(secured, mechanism, user, password)
    producer = confluent_kafka.Producer(conf)
    producer.produce(topic, b"value")
    assert producer.flush(LIMIT_S) == 0

    group = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(conf | group)
    consumer.subscribe([topic])
    message = consumer.poll(LIMIT_S)
    consumer.close()

    assert message is not None
    assert message.value() == b"value"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_librdkafka_without_the_newer_requests_logs_in(
    secured: SecuredBroker, topic: str, mechanism: str
) -> None:
    """SaslHandshake v0: messages without headers."""
    conf = librdkafka(secured, mechanism, *LOGINS[mechanism])
    old = {"api.version.request": False, "broker.version.fallback": "0.10.2.0", "log_level": 2}
    producer = confluent_kafka.Producer(conf | old)
    producer.produce(topic, b"value")

    assert producer.flush(LIMIT_S) == 0


@pytest.mark.parametrize("mechanism", LOGINS)
def test_librdkafka_reports_a_wrong_password(
    secured: SecuredBroker, topic: str, mechanism: str
) -> None:
    reported: list[confluent_kafka.KafkaError] = []
    user, _ = LOGINS[mechanism]
    conf = librdkafka(secured, mechanism, user, "wrong")
    more = {"error_cb": reported.append, "log_level": 0}
    producer = confluent_kafka.Producer(conf | more)
    producer.produce(topic, b"value")
    until = time.monotonic() + LIMIT_S

    while not reported and time.monotonic() < until:
        producer.poll(0.1)
    producer.purge()
    producer.flush(1)

    assert reported[0].code() == confluent_kafka.KafkaError._AUTHENTICATION


@pytest.mark.parametrize("mechanism", LOGINS)
def test_kafka_python_produces_and_consumes(
    secured: SecuredBroker, topic: str, mechanism: str
) -> None:
    conf = of_python(secured, mechanism, *LOGINS[mechanism])
    producer = kafka.KafkaProducer(**conf)
    producer.send(topic, b"value").get(LIMIT_S)
    producer.close()

    consumer = kafka.KafkaConsumer(
        topic, **conf, auto_offset_reset="earliest", consumer_timeout_ms=LIMIT_S * 1000
    )
    value = next(consumer).value
    consumer.close()

    assert value == b"value"


@MECHANISMS
def test_aiokafka_produces_and_consumes(
    secured: SecuredBroker, topic: str, mechanism: str, user: str, password: str
) -> None:
    conf = of_python(secured, mechanism, user, password)

    async def work() -> bytes:
        producer = aiokafka.AIOKafkaProducer(**conf)
        await producer.start()
        await producer.send_and_wait(topic, b"value")
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(topic, **conf, auto_offset_reset="earliest")
        await consumer.start()
        message = await asyncio.wait_for(consumer.getone(), LIMIT_S)
        await consumer.stop()
        return bytes(message.value or b"")

    assert asyncio.run(work()) == b"value"


@pytest.mark.parametrize("mechanism", LOGINS)
def test_aiokafka_reports_a_wrong_password(secured: SecuredBroker, mechanism: str) -> None:
    conf = of_python(secured, mechanism, LOGINS[mechanism][0], "wrong")

    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(**conf)
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(start())


@pytest.mark.slow("compiles clients in Go")
@pytest.mark.timeout(900)
@MECHANISMS
def test_franz_go_produces_and_consumes_in_a_group(
    secured: SecuredBroker, topic: str, mechanism: str, user: str, password: str
) -> None:
    try:
        program = compiled()
    except UnavailableError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [str(program), "franz-go", "group", secured.address, topic],
        env=os.environ | {"SASL": f"{mechanism}:{user}:{password}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert len(facts_of(done.stdout)["read"].split()) == 30
