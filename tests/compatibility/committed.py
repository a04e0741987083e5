"""Reading committed records of a topic."""

from collections.abc import Mapping
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from tests.support.broker_process import wait_until

ARRIVAL_TIMEOUT_S = 120.0


def committed(
    address: str,
    topic: str,
    *,
    at_least: int,
    partitions: int = 1,
    isolation: str = "committed",
    security: Mapping[str, str] | None = None,
) -> list[Message]:
    """Read the first partitions from beginning to end, and at least this many records."""
    read: list[Message] = []
    ended: set[int | None] = set()
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"{topic}-reader",
            "isolation.level": f"read_{isolation}",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **(security or {}),
        }
    )
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])

    def has_all() -> bool:
        for message in consumer.consume(500, 0.2):
            error = message.error()
            if error is None:
                read.append(message)
                ended.discard(message.partition())
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
        return len(ended) == partitions and len(read) >= at_least

    with closing(consumer):
        wait_until(has_all, f"{at_least} committed records of {topic}", ARRIVAL_TIMEOUT_S)
    return read


def committed_values(
    address: str,
    topic: str,
    *,
    at_least: int,
    partitions: int = 1,
    isolation: str = "committed",
    security: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the values of `committed` as text."""
    read = committed(
        address,
        topic,
        at_least=at_least,
        partitions=partitions,
        isolation=isolation,
        security=security,
    )
    return [(message.value() or b"").decode() for message in read]
