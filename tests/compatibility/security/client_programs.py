"""What each client does in the security matrix: it writes, is refused elsewhere, and reads.

A client gets what `Access` says, writes values to a topic, writes to a topic that it may not use if
there are ACLs, and reads the values as a group. It returns the name of the refusal and the values.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import TopicAuthorizationFailedError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider

from tests.compatibility.java.tools import JavaTools
from tests.compatibility.programs import facts_of, run
from tests.compatibility.security.combinations import Access

LIMIT_S = 60.0
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
BEARER_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


class Task(NamedTuple):
    """What a client has to do."""

    access: Access
    topic: str
    forbidden: str  # empty: there are no ACLs
    group: str
    values: Sequence[str]


class Seen(NamedTuple):
    """What a client has seen."""

    is_refused: bool
    values: list[str]


Program: TypeAlias = Callable[[Task], Seen]


def _librdkafka_options(access: Access) -> dict[str, Any]:
    common: dict[str, Any] = {
        "bootstrap.servers": access.address,
        "security.protocol": access.protocol,
    }
    if access.trust_store:
        common["ssl.ca.location"] = access.trust_store
    if access.key_store:
        common |= {
            "ssl.key.location": access.key_store,
            "ssl.certificate.location": access.key_store,
        }
    if access.mechanism:
        common["sasl.mechanism"] = access.mechanism
    if access.mechanism == "OAUTHBEARER":
        common["oauth_cb"] = lambda _: (access.token, time.time() + LIMIT_S)
    elif access.mechanism:
        common |= {"sasl.username": access.user, "sasl.password": access.password}
    return common


def librdkafka(task: Task) -> Seen:
    """Run confluent-kafka."""
    common = _librdkafka_options(task.access)
    refusals: list[KafkaError] = []
    producer = Producer(common)
    for value in task.values:
        producer.produce(task.topic, value, on_delivery=lambda error, _: _unless_none(error))
    assert producer.flush(LIMIT_S) == 0
    if task.forbidden:
        try:
            producer.produce(
                task.forbidden,
                "forbidden",
                on_delivery=lambda error, _: refusals.extend([error] if error else []),
            )
        except KafkaException as error:  # it knows already
            refusals.append(error.args[0])
        assert producer.flush(LIMIT_S) == 0
    consumer = Consumer(common | {"group.id": task.group, "auto.offset.reset": "earliest"})
    consumer.subscribe([task.topic])
    values: list[str] = []
    with _closing(consumer):
        deadline = time.monotonic() + LIMIT_S
        while len(values) < len(task.values) and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None:
                _unless_none(message.error())
                values.append((message.value() or b"").decode())
        consumer.commit(asynchronous=False)
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    return Seen(any(each.code() == denied for each in refusals), values)


def _unless_none(error: KafkaError | None) -> None:
    if error is not None:
        raise KafkaException(error)


@contextmanager
def _closing(client: Any) -> Iterator[None]:
    try:
        yield
    finally:
        client.close()


def aiokafka(task: Task) -> Seen:
    """Run aiokafka."""
    return asyncio.run(_aiokafka(task))


class _Token(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        """Return the token."""
        return self._token


def _python_options(access: Access) -> dict[str, Any]:
    """Return what aiokafka and kafka-python call alike."""
    options: dict[str, Any] = {
        "bootstrap_servers": access.address,
        "security_protocol": access.protocol,
    }
    if access.trust_store:
        context = ssl.create_default_context(cafile=access.trust_store)
        if access.key_store:
            context.load_cert_chain(access.key_store)
        options["ssl_context"] = context
    if access.mechanism:
        options["sasl_mechanism"] = access.mechanism
    if access.mechanism not in {"", "OAUTHBEARER"}:
        options |= {"sasl_plain_username": access.user, "sasl_plain_password": access.password}
    return options


async def _aiokafka(task: Task) -> Seen:
    options = _python_options(task.access)
    if task.access.mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = _Token(task.access.token)
    is_refused = False
    producer = AIOKafkaProducer(**options)
    try:  # what cannot start has to be stopped, too
        await producer.start()
        for value in task.values:
            await producer.send_and_wait(task.topic, value.encode())
        if task.forbidden:
            try:
                await producer.send_and_wait(task.forbidden, b"forbidden")
            except TopicAuthorizationFailedError:
                is_refused = True
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(
        task.topic, group_id=task.group, auto_offset_reset="earliest", **options
    )
    values: list[str] = []
    try:
        await consumer.start()
        async with asyncio.timeout(LIMIT_S):
            while len(values) < len(task.values):
                values.append((await consumer.getone()).value.decode())
        await consumer.commit()
    finally:
        await consumer.stop()
    return Seen(is_refused, values)


class _PythonToken(PythonTokenProvider):  # type: ignore[misc] # kafka-python has no types
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        """Return the token."""
        return self._token


def kafka_python(task: Task) -> Seen:
    """Run kafka-python."""
    options = _python_options(task.access)
    if task.access.mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = _PythonToken(task.access.token)
    is_refused = False
    producer = KafkaProducer(**options)
    with _closing(producer):
        for value in task.values:
            producer.send(task.topic, value.encode()).get(LIMIT_S)
        if task.forbidden:
            try:
                producer.send(task.forbidden, b"forbidden").get(LIMIT_S)
            except kafka_errors.TopicAuthorizationFailedError:
                is_refused = True
    consumer = KafkaConsumer(
        task.topic, group_id=task.group, auto_offset_reset="earliest", **options
    )
    values: list[str] = []
    with _closing(consumer):
        deadline = time.monotonic() + LIMIT_S
        while len(values) < len(task.values) and time.monotonic() < deadline:
            for found in consumer.poll(timeout_ms=500).values():
                values += [each.value.decode() for each in found]
        consumer.commit()
    return Seen(is_refused, values)


def java(tools: JavaTools, folder: Path, task: Task) -> Seen:
    """Run Kafka's own client."""
    access = task.access
    properties = {
        "bootstrap.servers": access.address,
        "security.protocol": access.protocol,
        "group.id": task.group,
    }
    if access.trust_store:
        properties |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": access.trust_store,
        }
    if access.key_store:
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": access.key_store}
    if access.mechanism:
        properties["sasl.mechanism"] = access.mechanism
    if access.mechanism == "OAUTHBEARER":
        properties |= {
            "sasl.jaas.config": f"{BEARER_MODULE} required;",
            "sasl.login.callback.handler.class": BEARER_HANDLER,
            "sasl.oauthbearer.token.endpoint.url": f"file://{access.token_file}",
        }
    elif access.mechanism:
        module = PLAIN_MODULE if access.mechanism == "PLAIN" else SCRAM_MODULE
        user = f'username="{access.user}" password="{access.password}"'
        properties["sasl.jaas.config"] = f"{module} required {user};"
    file = folder / "client.properties"
    lines = [f"{name}={text}\n" for name, text in properties.items()]
    file.write_text("".join(lines), encoding="utf-8")
    arguments = [str(file), task.topic, task.forbidden, *task.values]
    facts = tools.facts("Secured.java", *arguments)
    return Seen(facts.get("refused") == "TopicAuthorizationException", facts["read"].split(","))


def franz_go(program: Path, task: Task) -> Seen:
    """Run franz-go."""
    access = task.access
    environment = {
        "TRUST_STORE": access.trust_store,
        "KEY_STORE": access.key_store,
        "SASL_MECHANISM": access.mechanism,
        "SASL_USER": access.user,
        "SASL_PASSWORD": access.password,
        "SASL_TOKEN": access.token,
    }
    words = [f"{name}={text}" for name, text in environment.items()]
    command = [str(program), "franz-go", "secured", access.address, task.topic, task.forbidden]
    printed = run(["/usr/bin/env", *words, *command, *task.values])
    facts = facts_of(printed)
    return Seen(facts.get("refused") == "true", facts["read"].split(","))
