"""What librdkafka reads of a topic: the judge of what our sink has written."""

from typing import Any, NamedTuple

from confluent_kafka import Consumer, Message, TopicPartition

_TIMEOUT_S = 20.0


class Read(NamedTuple):
    """One record."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def read_committed(address: str, topic: str) -> list[Read]:
    """All committed records of a topic, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": False,
        }
    )
    found: list[Read] = []
    try:
        partitions = consumer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions
        for number in partitions:
            # With this isolation level, the end is the last stable offset.
            here = TopicPartition(topic, number)
            first, end = consumer.get_watermark_offsets(here, _TIMEOUT_S)
            consumer.assign([TopicPartition(topic, number, first)])
            while first < end:
                message = consumer.poll(0.2)
                if message is None:
                    # What is left are markers, which are not handed over.
                    [place] = consumer.position([here])
                    first = max(first, place.offset)
                    continue
                assert message.error() is None, message.error()
                read = _read(message)
                if read.offset >= end:
                    break
                first = read.offset + 1
                found.append(read)
    finally:
        consumer.close()
    return found


def _read(message: Message) -> Read:
    offset: Any = message.offset()
    headers: Any = message.headers() or ()
    _, timestamp = message.timestamp()
    return Read(
        message.partition() or 0,
        offset,
        message.key(),
        message.value(),
        tuple(headers),
        timestamp,
    )
