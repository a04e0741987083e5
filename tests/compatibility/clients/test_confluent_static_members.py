"""librdkafka with group.instance.id (KIP-345): one of two members with the same one is fenced."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import Broker, wait_until

POLL_SECONDS = 0.1


@pytest.fixture
def member(broker: Broker, topic: str, name: str) -> Iterator[Callable[[], Consumer]]:
    """Make members of one group that all have the same instance id."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    [created] = admin.create_topics([NewTopic(topic, 3, 1)]).values()
    created.result()
    with ExitStack() as members:

        def join() -> Consumer:
            consumer = Consumer(
                {
                    "bootstrap.servers": broker.address,
                    "group.id": name,
                    "group.instance.id": "the-only-one",
                    "heartbeat.interval.ms": 100,
                    "session.timeout.ms": 30_000,
                    "enable.auto.commit": False,
                }
            )
            consumer.subscribe([topic])
            members.callback(consumer.close)
            return consumer

        yield join


def has_all(consumer: Consumer) -> Callable[[], bool]:
    """Poll it; return whether it has the three partitions."""

    def look() -> bool:
        consumer.poll(POLL_SECONDS)
        return len(consumer.assignment()) == 3

    return look


def is_fenced(consumer: Consumer) -> Callable[[], bool]:
    """Poll it; return whether it has learned that it is fenced for good."""

    def look() -> bool:
        try:
            message = consumer.poll(POLL_SECONDS)
        except KafkaException as raised:
            error = raised.args[0]
        else:
            error = None if message is None else message.error()
        return error is not None and error.code() in (
            KafkaError._FATAL,
            KafkaError.FENCED_INSTANCE_ID,
        )

    return look


def test_a_second_member_with_the_same_instance_id_fences_the_first(
    member: Callable[[], Consumer],
) -> None:
    first = member()
    wait_until(has_all(first), "the first has the partitions")

    second = member()

    wait_until(has_all(second), "the second has the partitions")
    wait_until(is_fenced(first), "the first is fenced")


def test_a_static_member_that_rejoins_gets_its_partitions_without_a_rebalance(
    member: Callable[[], Consumer],
) -> None:
    first = member()
    wait_until(has_all(first), "the first has the partitions")
    had = sorted(each.partition for each in first.assignment())
    first.close()

    second = member()

    wait_until(has_all(second), "the second has the partitions")
    assert sorted(each.partition for each in second.assignment()) == had
