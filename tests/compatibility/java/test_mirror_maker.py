"""MirrorMaker 2 between two brokers: records, settings of topics, offsets of groups."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.compatibility.committed import ARRIVAL_TIMEOUT_S, committed
from tests.compatibility.java.mirror_maker import MirrorMaker
from tests.compatibility.java.tools import JavaTools
from tests.support.broker_process import BrokerProcess, wait_until

# The first run may fetch the jars.
pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(900),
    pytest.mark.slow("starts MirrorMaker twice, one after the other"),
]

PARTITIONS = 2
RECORDS = 40
TIMESTAMP = 1_700_000_000_000
GROUP = "readers"
RETENTION_MS = "345600000"
TOPIC = "orders"
MIRRORED = f"source.{TOPIC}"


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
    partition, offset, headers = message.partition(), message.offset(), message.headers()
    assert partition is not None
    assert offset is not None
    told = tuple((name, bytes(value)) for name, value in headers or [])
    time = message.timestamp()[1]
    return Copied(partition, offset, message.key(), message.value(), told, time)


def records(broker: BrokerProcess, topic: str) -> set[Copied]:
    """Return all records of a topic that has as many as were produced."""
    read = committed(broker.address, topic, at_least=2 * RECORDS, partitions=PARTITIONS)
    assert len(read) == 2 * RECORDS
    return set(map(copied, read))


def arrived(broker: BrokerProcess) -> int:
    """Return how many records the mirrored topic has; 0 before it is there."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    if MIRRORED not in admin.list_topics(timeout=60).topics:
        return 0
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "-"})
    try:
        places = [TopicPartition(MIRRORED, each) for each in range(PARTITIONS)]
        return sum(consumer.get_watermark_offsets(each, timeout=60)[1] for each in places)
    finally:
        consumer.close()


def offsets_of_group(broker: BrokerProcess, topic: str) -> list[int]:
    """Return the offsets that the group has committed."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": GROUP})
    try:
        places = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        return [each.offset for each in consumer.committed(places, timeout=60)]
    finally:
        consumer.close()


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


def retention(broker: BrokerProcess) -> str:
    """Return the mirrored topic's retention."""
    resource = ConfigResource(ResourceType.TOPIC, MIRRORED)
    admin = AdminClient({"bootstrap.servers": broker.address})
    return str(admin.describe_configs([resource])[resource].result(60)["retention.ms"].value)


def test_mirror_maker_copies_records_settings_and_offsets_of_groups_and_repeats_none(
    java: JavaTools, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    source, target = start_broker(), start_broker()
    new = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})
    AdminClient({"bootstrap.servers": source.address}).create_topics([new])[TOPIC].result(60)
    produce(source, 0)
    read_and_commit(source)
    mirror = MirrorMaker(tmp_path, java, source, target, topics=TOPIC, groups=GROUP)

    def wait_for(condition: Callable[[], bool], what: str) -> None:
        wait_until(lambda: mirror.is_alive() and condition(), what, ARRIVAL_TIMEOUT_S)

    with mirror:
        wait_for(lambda: arrived(target) == RECORDS, "the records are copied")
        wait_for(
            lambda: offsets_of_group(target, MIRRORED) == [RECORDS // PARTITIONS] * PARTITIONS,
            "the group's offsets are translated",
        )
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, {"retention.ms": RETENTION_MS})
        altered = AdminClient({"bootstrap.servers": source.address}).alter_configs([resource])
        altered[resource].result(60)
        wait_for(lambda: retention(target) == RETENTION_MS, "the topic's settings are copied")
    produce(source, RECORDS)
    with mirror:
        wait_for(lambda: arrived(target) >= 2 * RECORDS, "the later records are copied")

    assert records(target, MIRRORED) == records(source, TOPIC)
    topics = AdminClient({"bootstrap.servers": target.address}).list_topics(timeout=60).topics
    assert {"heartbeats", "source.checkpoints.internal", "mm2-offsets.source.internal"} <= set(
        topics
    )
