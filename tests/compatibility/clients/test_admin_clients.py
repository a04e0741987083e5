"""Topic settings and administration by the admin clients of three libraries.

Their effects are checked at the wire level.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import pytest
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType as PythonConfigResourceType
from kafka.admin import KafkaAdminClient

from tests.support import wire_requests
from tests.support.broker_process import Broker
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

TIMEOUT_S = 60
T = TypeVar("T")


class Admin(Protocol):
    """The operations that each library must have."""

    def set(self, topic: str, name: str, value: str) -> str:
        """Set a key; return the broker's error."""

    def value(self, topic: str, name: str) -> str:
        """Read a key."""

    def grow(self, topic: str, total: int) -> None:
        """Give a topic more partitions."""

    def delete_below(self, topic: str, offset: int) -> int:
        """Delete records of partition 0; return its new log start."""


class Confluent:
    """librdkafka: IncrementalAlterConfigs."""

    def __init__(self, address: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": address})

    def set(self, topic: str, name: str, value: str) -> str:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        [done] = self._admin.incremental_alter_configs([resource]).values()
        error = done.exception(TIMEOUT_S)
        return str(error) if error else ""

    def value(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        [found] = self._admin.describe_configs([resource]).values()
        return found.result(TIMEOUT_S)[name].value

    def grow(self, topic: str, total: int) -> None:
        [done] = self._admin.create_partitions([NewPartitions(topic, total)]).values()
        done.result(TIMEOUT_S)

    def delete_below(self, topic: str, offset: int) -> int:
        [done] = self._admin.delete_records([TopicPartition(topic, 0, offset)]).values()
        return done.result(TIMEOUT_S).low_watermark


class KafkaPython:
    """kafka-python: IncrementalAlterConfigs."""

    def __init__(self, address: str) -> None:
        self._address = address

    def _do(self, work: Callable[[Any], T]) -> T:
        admin = KafkaAdminClient(bootstrap_servers=self._address)
        try:
            return work(admin)
        finally:
            admin.close()

    def set(self, topic: str, name: str, value: str) -> str:
        resource = PythonConfigResource(PythonConfigResourceType.TOPIC, topic, {name: value})
        [done] = self._do(lambda admin: admin.alter_configs([resource])).values()
        return str(done[topic]).replace("OK", "")

    def value(self, topic: str, name: str) -> str:
        resource = PythonConfigResource(PythonConfigResourceType.TOPIC, topic)
        found = self._do(lambda admin: admin.describe_configs([resource], config_filter="all"))
        [by_name] = found.values()
        return by_name[topic][name]["value"]

    def grow(self, topic: str, total: int) -> None:
        self._do(lambda admin: admin.create_partitions({topic: total}))

    def delete_below(self, topic: str, offset: int) -> int:
        wanted = {PythonTopicPartition(topic, 0): offset}
        [done] = self._do(lambda admin: admin.delete_records(wanted)).values()
        return done["low_watermark"]


class Aiokafka:
    """aiokafka: AlterConfigs, which replaces the whole configuration."""

    def __init__(self, address: str) -> None:
        self._address = address

    def _do(self, work: Callable[[AIOKafkaAdminClient], Coroutine[Any, Any, T]]) -> T:
        async def run() -> T:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._address)
            await admin.start()
            try:
                return await work(admin)
            finally:
                await admin.close()

        return asyncio.run(run())

    def set(self, topic: str, name: str, value: str) -> str:
        resource = AioConfigResource(AioConfigResourceType.TOPIC, topic, {name: value})
        [answer] = self._do(lambda admin: admin.alter_configs([resource]))
        [(code, text, _, _)] = answer.resources
        return f"{code} {text}" if code else ""

    def value(self, topic: str, name: str) -> str:
        resource = AioConfigResource(AioConfigResourceType.TOPIC, topic)
        [answer] = self._do(lambda admin: admin.describe_configs([resource]))
        [(_, _, _, _, entries)] = answer.resources
        return {entry[0]: entry[1] for entry in entries}[name]

    def grow(self, topic: str, total: int) -> None:
        self._do(lambda admin: admin.create_partitions({topic: AioNewPartitions(total)}))

    def delete_below(self, topic: str, offset: int) -> int:
        wanted = {AioTopicPartition(topic, 0): RecordsToDelete(offset)}
        [start] = self._do(lambda admin: admin.delete_records(wanted)).values()
        return start


@pytest.fixture(params=[Confluent, KafkaPython, Aiokafka], ids=lambda each: each.__name__)
def admin(request: pytest.FixtureRequest, broker: Broker) -> Admin:
    """One library's admin client after the other."""
    client: Admin = request.param(broker.address)
    return client


@pytest.fixture
def wire(broker: Broker, topic: str) -> Any:
    """A raw Kafka client, and a topic."""
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic)
        yield client


def test_a_key_that_is_set_is_described_and_in_force(
    admin: Admin, wire: WireClient, topic: str
) -> None:
    batch = Batch([b"x" * 300]).encode()
    assert admin.value(topic, "max.message.bytes") == "1048588"

    assert admin.set(topic, "max.message.bytes", "200") == ""

    assert admin.value(topic, "max.message.bytes") == "200"
    assert wire_requests.produce(wire, topic, batch) == (10, -1)
    assert admin.set(topic, "max.message.bytes", "2000") == ""
    assert wire_requests.produce(wire, topic, batch) == (0, 0)


def test_a_wrong_value_is_an_error_that_says_what_is_allowed(
    admin: Admin, wire: WireClient, topic: str
) -> None:
    said = admin.set(topic, "retention.ms", "soon")

    assert all(each in said for each in ("retention.ms", "soon", "-1 or more ms")), said
    assert admin.value(topic, "retention.ms") == "604800000"


def test_a_topic_that_grows_is_written_to_and_read_in_its_new_partitions(
    admin: Admin, wire: WireClient, topic: str
) -> None:
    admin.grow(topic, 3)

    assert wire_requests.produce(wire, topic, Batch([b"new"]).encode(), partition=2) == (0, 0)
    assert wire_requests.fetch(wire, topic, 2, 0)


def test_deleted_records_are_out_of_range(admin: Admin, wire: WireClient, topic: str) -> None:
    wire_requests.produce(wire, topic, Batch([b"a", b"b", b"c"]).encode())

    assert admin.delete_below(topic, 2) == 2

    assert wire_requests.list_offset(wire, topic, 0, -2)["offset"] == 2
    body = wire_requests.fetch_body(topic, 0, 1, 1 << 20)
    answer = wire.request("Fetch", 11, body)["responses"][0]["partitions"][0]
    assert answer["error_code"] == 1
    assert admin.delete_below(topic, -1) == 3
