"""MirrorMaker 2 between two brokers: records, settings of topics, offsets of groups."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    Message,
    Producer,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.compatibility.committed import ARRIVAL_TIMEOUT_S, committed
from tests.compatibility.java.mirror_maker import MirrorMaker
from tests.compatibility.java.tools import JavaTools
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic, end_offset

# The first run may fetch the jars.
pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(900),
    pytest.mark.slow("starts MirrorMaker, which does some things once a second"),
]

PARTITIONS = 2
RECORDS = 40
TIMESTAMP = 1_700_000_000_000
GROUP = "readers"
RETENTION_MS = "345600000"
TOPIC = "orders"
MIRRORED = f"source.{TOPIC}"
EXACTLY_ONCE = """\
target.exactly.once.source.support = enabled
dedicated.mode.enable.internal.rest = true
"""


@dataclass(frozen=True)
class Copied:
    """What a copy of a record has in common with it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp: int


def produce(broker: BrokerProcess, first: int) -> None:
    """Produce records with keys, headers and timestamps; one in ten is a tombstone."""
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(first, first + RECORDS):
        producer.produce(
            TOPIC,
            None if number % 10 == 9 else b"value %d" % number,
            b"key %d" % (number % 7),
            number % PARTITIONS,
            headers=[("number", b"%d" % number)],
            timestamp=TIMESTAMP + number,
        )
    assert producer.flush(60) == 0


def copied(message: Message) -> Copied:
    """Return what a copy has to have."""
    partition, offset = message.partition(), message.offset()
    headers: Any = message.headers() or ()
    assert partition is not None
    assert offset is not None
    told = tuple((name, bytes(value)) for name, value in headers)
    time = message.timestamp()[1]
    return Copied(partition, offset, message.key(), message.value(), told, time)


def records(broker: BrokerProcess, topic: str) -> set[Copied]:
    """Return all records of a topic that has as many as were produced."""
    read = committed(broker.address, topic, at_least=2 * RECORDS, partitions=PARTITIONS)
    assert len(read) == 2 * RECORDS
    return set(map(copied, read))


class Asked:
    """What a broker is asked for again and again, by one client."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.address = broker.address
        self.admin = AdminClient({"bootstrap.servers": broker.address})

    def topics(self) -> set[str]:
        """The names of all topics."""
        return set(self.admin.list_topics(timeout=60).topics)

    def arrived(self) -> int:
        """Return how many records the mirrored topic has; 0 before it is there."""
        if MIRRORED not in self.topics():
            return 0
        with WireClient(self.address) as client:
            return sum(end_offset(client, MIRRORED, each) for each in range(PARTITIONS))

    def committed(self) -> dict[int, int]:
        """Return the offsets that the group has committed of the mirrored topic."""
        group = ConsumerGroupTopicPartitions(GROUP)
        found = self.admin.list_consumer_group_offsets([group])[GROUP].result(60)
        places = found.topic_partitions or []
        return {each.partition: each.offset for each in places if each.topic == MIRRORED}

    def retention(self) -> str:
        """Return the mirrored topic's retention."""
        resource = ConfigResource(ResourceType.TOPIC, MIRRORED)
        settings = self.admin.describe_configs([resource])[resource].result(60)
        return str(settings["retention.ms"].value)


def read_and_commit(broker: BrokerProcess) -> None:
    """Let the group read all records of the source and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    for _ in range(RECORDS):
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None, message.error()
    consumer.commit(asynchronous=False)
    consumer.close()


def test_mirror_maker_copies_records_settings_and_offsets_of_groups(
    java: JavaTools, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    source, target = start_broker(), start_broker()
    at_source, at_target = Asked(source), Asked(target)
    new = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})
    at_source.admin.create_topics([new])[TOPIC].result(60)
    produce(source, 0)
    read_and_commit(source)
    mirror = MirrorMaker(tmp_path, java, source, target, topics=TOPIC, groups=GROUP)

    def wait_for(condition: Callable[[], bool], what: str) -> None:
        wait_until(lambda: mirror.is_alive() and condition(), what, ARRIVAL_TIMEOUT_S)

    with mirror:
        wait_for(lambda: at_target.arrived() == RECORDS, "the records are copied")
        ends = dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
        wait_for(lambda: at_target.committed() == ends, "the group's offsets are translated")
        entry = ConfigEntry(
            "retention.ms", RETENTION_MS, incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
        at_source.admin.incremental_alter_configs([resource])[resource].result(60)
        wait_for(lambda: at_target.retention() == RETENTION_MS, "the settings are copied")
        produce(source, RECORDS)
        wait_for(lambda: at_target.arrived() >= 2 * RECORDS, "the later records are copied")

    assert records(target, MIRRORED) == records(source, TOPIC)
    internal = {"heartbeats", "source.checkpoints.internal", "mm2-offsets.source.internal"}
    assert internal <= at_target.topics()


def test_each_record_is_copied_once_although_mirror_maker_and_the_target_are_killed(
    java: JavaTools, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    source, target = start_broker(), start_broker()
    with WireClient(source.address) as client:
        create_topic(client, TOPIC, PARTITIONS)
    mirror = MirrorMaker(tmp_path, java, source, target, TOPIC, GROUP, EXACTLY_ONCE)
    produce(source, 0)

    with mirror:
        at_target = Asked(target)
        wait_until(
            lambda: mirror.is_alive() and at_target.arrived() > 0, "records", ARRIVAL_TIMEOUT_S
        )
        produce(source, RECORDS)
        mirror.kill()
    target.kill()
    target.start()
    with mirror:
        committed(target.address, MIRRORED, at_least=2 * RECORDS, partitions=PARTITIONS)
        produce(source, 2 * RECORDS)
        target.kill()
        target.start()
        read = committed(target.address, MIRRORED, at_least=3 * RECORDS, partitions=PARTITIONS)

    numbers = sorted(int(copied(each).headers[0][1]) for each in read)
    assert numbers == list(range(3 * RECORDS))
