"""librdkafka's view of a topic, which verifies what the sink has written."""

from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Message, TopicPartition

from tests.support.broker_process import wait_until

_TIMEOUT_S = 20.0


class Read(NamedTuple):
    """One record."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def read_committed(address: str, topic: str, *, is_settled: bool = True) -> list[Read]:
    """Return all committed records of a topic, by partition and offset.

    A committed transaction becomes visible a moment later, because markers are written after the
    response. So when all have ended (`is_settled`), this waits until committed records reach the
    end.
    """
    if is_settled:
        wait_until(lambda: _is_settled(address, topic), "all markers are written", _TIMEOUT_S)
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
                    # The rest are markers, which are not returned.
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


def _is_settled(address: str, topic: str) -> bool:
    return _ends(address, topic, "read_committed") == _ends(address, topic, "read_uncommitted")


def _ends(address: str, topic: str, isolation: str) -> list[int]:
    settings = {"bootstrap.servers": address, "group.id": "judge", "isolation.level": isolation}
    with closing(Consumer(settings)) as consumer:
        partitions = consumer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions
        edges = [
            consumer.get_watermark_offsets(TopicPartition(topic, each), _TIMEOUT_S)
            for each in partitions
        ]
    return [end for _, end in edges]


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
