"""Transactions of confluent-kafka and kafka-python: commit, abort, offsets, fencing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from tests.support.broker_process import Broker

TIMEOUT_S = 60
PARTITIONS = 2


@pytest.fixture
def topic_of_two(broker: Broker, topic: str) -> str:
    """Create the topic of the test."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    return topic


def producer(broker: Broker, name: str, **settings: Any) -> Producer:
    """Return a producer with an initialised transactional id."""
    made = Producer(
        {"bootstrap.servers": broker.address, "transactional.id": name, "linger.ms": 0, **settings}
    )
    made.init_transactions(TIMEOUT_S)
    return made


@contextmanager
def reader(broker: Broker, topic: str, isolation: str = "read_committed") -> Iterator[Consumer]:
    """Read a topic from its beginning, in its own group."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": f"readers-of-{topic}",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    places = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
    consumer.assign(places)
    yield consumer
    consumer.close()


def read(consumer: Consumer, at_least: int = 0) -> list[str]:
    """Return all values up to the ends of both partitions, and at least so many.

    Markers are written behind the answer to a commit, so its records may be readable later.
    """
    values: list[str] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + TIMEOUT_S
    while len(ended) < PARTITIONS or len(values) < at_least:
        assert time.monotonic() < deadline, f"the ends were not reached: {values}"
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            ended.add(message.partition())
        else:
            ended.discard(message.partition())
            values.append((message.value() or b"").decode())
    return sorted(values)


def send(sender: Producer, topic: str, *values: str) -> None:
    """Write values, alternating between the partitions, and wait for the acknowledgements."""
    for place, value in enumerate(values):
        sender.produce(topic, value.encode(), partition=place % PARTITIONS)
    assert sender.flush(TIMEOUT_S) == 0


def test_committed_transactions_are_read_and_aborted_ones_are_not(
    broker: Broker, topic_of_two: str
) -> None:
    sender = producer(broker, topic_of_two)
    for name, end in (
        ("a", sender.commit_transaction),
        ("b", sender.abort_transaction),
        ("c", sender.commit_transaction),
    ):
        sender.begin_transaction()
        send(sender, topic_of_two, f"{name}1", f"{name}2", f"{name}3")
        end(TIMEOUT_S)

    with reader(broker, topic_of_two) as consumer:
        assert read(consumer, 6) == ["a1", "a2", "a3", "c1", "c2", "c3"]
    with reader(broker, topic_of_two, "read_uncommitted") as consumer:
        assert len(read(consumer, 9)) == 9


def test_an_open_transaction_is_not_read_until_it_is_committed(
    broker: Broker, topic_of_two: str
) -> None:
    sender = producer(broker, topic_of_two)
    sender.begin_transaction()
    send(sender, topic_of_two, "a", "b")

    with reader(broker, topic_of_two) as consumer:
        assert read(consumer) == []
    sender.commit_transaction(TIMEOUT_S)
    with reader(broker, topic_of_two) as consumer:
        assert read(consumer, 2) == ["a", "b"]


@pytest.mark.parametrize("is_committed", [True, False])
def test_offsets_sent_to_a_transaction_are_committed_or_aborted_with_it(
    broker: Broker, topic_of_two: str, is_committed: bool
) -> None:
    sender = producer(broker, topic_of_two)
    place = TopicPartition(topic_of_two, 0, 1)
    with reader(broker, topic_of_two) as consumer:
        sender.begin_transaction()
        send(sender, topic_of_two, "a", "b")
        metadata = consumer.consumer_group_metadata()
        sender.send_offsets_to_transaction([place], metadata, TIMEOUT_S)
        (sender.commit_transaction if is_committed else sender.abort_transaction)(TIMEOUT_S)

        [committed] = consumer.committed([TopicPartition(topic_of_two, 0)], TIMEOUT_S)

    assert committed.offset == (1 if is_committed else -1001)  # OFFSET_INVALID: none


def test_a_new_instance_fences_the_old_one_and_aborts_its_open_transaction(
    broker: Broker, topic_of_two: str
) -> None:
    old = producer(broker, topic_of_two)
    old.begin_transaction()
    send(old, topic_of_two, "old")

    new = producer(broker, topic_of_two)
    with pytest.raises(KafkaException, match="_FENCED"):
        old.commit_transaction(TIMEOUT_S)
    new.begin_transaction()
    send(new, topic_of_two, "new")
    new.commit_transaction(TIMEOUT_S)

    with reader(broker, topic_of_two) as consumer:
        assert read(consumer, 1) == ["new"]


def test_a_transaction_that_exceeds_its_timeout_is_aborted(
    broker: Broker, topic_of_two: str
) -> None:
    sender = producer(broker, topic_of_two, **{"transaction.timeout.ms": 1_000})
    sender.begin_transaction()
    send(sender, topic_of_two, "late")
    other = producer(broker, f"{topic_of_two}-other")
    other.begin_transaction()
    send(other, topic_of_two, "behind")
    other.commit_transaction(TIMEOUT_S)

    deadline = time.monotonic() + TIMEOUT_S
    values: list[str] = []
    while not values and time.monotonic() < deadline:
        with reader(broker, topic_of_two) as consumer:
            values = read(consumer)

    assert values == ["behind"]
    with pytest.raises(KafkaException):
        sender.commit_transaction(TIMEOUT_S)


def test_kafka_python_commits_and_aborts(broker: Broker, topic_of_two: str) -> None:
    sender = KafkaProducer(bootstrap_servers=broker.address, transactional_id=topic_of_two)
    sender.init_transactions()
    for value, end in (
        (b"a", sender.commit_transaction),
        (b"b", sender.abort_transaction),
        (b"c", sender.commit_transaction),
    ):
        sender.begin_transaction()
        sender.send(topic_of_two, value, partition=0).get(TIMEOUT_S)
        end()
    sender.close()

    with reader(broker, topic_of_two) as consumer:
        assert read(consumer, 2) == ["a", "c"]
