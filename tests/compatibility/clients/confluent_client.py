"""confluent-kafka, that is librdkafka: what most programs outside Java use."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compatibility.clients.client import (
    HEARTBEAT_INTERVAL_MS,
    POLL_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    SESSION_TIMEOUT_MS,
    Client,
    Member,
    Producing,
    Reader,
    Record,
)

LOGICAL_OFFSETS = {"earliest": -2, "latest": -1}


def connect(address: str, **settings: Any) -> Client:
    """Return a client of the broker at that address; settings have _ instead of dots."""
    return ConfluentClient(address, settings)


def read_record(message: Any) -> Record:
    """Return a received message as a `Record`."""
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    kind, timestamp = message.timestamp()
    return Record(
        value=message.value(),
        key=message.key(),
        headers=tuple(message.headers() or ()),
        timestamp=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        partition=message.partition(),
        offset=message.offset(),
    )


class ConfluentReader(Reader):
    """A consumer with assigned partitions."""

    def poll(self) -> list[Record]:
        return [read_record(message) for message in self._consumer.consume(500, POLL_TIMEOUT_S)]

    def close(self) -> None:
        self._consumer.close()


class ConfluentMember(ConfluentReader, Member):
    """A consumer of a group."""

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)


class ConfluentClient(Client):
    """librdkafka through its Python binding."""

    name = "confluent"

    def __init__(self, address: str, settings: dict[str, Any]) -> None:
        self._config: dict[str, Any] = {
            **{name.replace("_", "."): value for name, value in settings.items()},
            "bootstrap.servers": address,
            "topic.metadata.refresh.interval.ms": 1_000,
            "allow.auto.create.topics": True,
        }
        self._admin = AdminClient(self._config)

    def close(self) -> None:
        """Do nothing: librdkafka's handles are freed with the objects."""

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        self._admin.create_topics([NewTopic(topic, partitions)])[topic].result(REQUEST_TIMEOUT_S)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(REQUEST_TIMEOUT_S)

    def topics(self) -> dict[str, int]:
        metadata = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        return {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    def brokers(self) -> list[str]:
        metadata = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        return [f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()]

    def write(self, topic: str, records: list[Record], how: Producing) -> list[int]:
        producer = Producer(
            self._config
            | {
                "compression.type": how.compression,
                "acks": how.acks,
                "enable.idempotence": how.idempotent,
                "message.max.bytes": 1_048_588,
            }
        )
        offsets: dict[int, int] = {}

        def keep_offset(place: int) -> Callable[[object, Any], None]:
            def delivered(error: object, message: Any) -> None:
                assert error is None, error
                offsets[place] = message.offset()

            return delivered

        for place, record in enumerate(records):
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers) or None,
                partition=record.partition,
                timestamp=record.timestamp or 0,
                on_delivery=keep_offset(place),
            )
        assert producer.flush(REQUEST_TIMEOUT_S) == 0
        return [offsets[place] for place in range(len(records))]

    def reader(self, topic: str, partitions: range, start: int | str) -> Reader:
        consumer = Consumer(self._config | {"group.id": "unused", "enable.auto.commit": False})
        offset = start if isinstance(start, int) else LOGICAL_OFFSETS[start]
        consumer.assign([TopicPartition(topic, each, offset) for each in partitions])
        return ConfluentReader(consumer)

    def offset_for_time(self, topic: str, timestamp: int) -> int | None:
        consumer = Consumer(self._config | {"group.id": "unused"})
        try:
            [found] = consumer.offsets_for_times(
                [TopicPartition(topic, 0, timestamp)], REQUEST_TIMEOUT_S
            )
        finally:
            consumer.close()
        # librdkafka returns "end" (-1) if no record is that late.
        return found.offset if found.offset >= 0 else None

    def join(self, group: str, topic: str) -> Member:
        consumer = Consumer(
            self._config
            | {
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            }
        )
        consumer.subscribe([topic])
        return ConfluentMember(consumer)
