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

from tests.compatibility.client import (
    HEARTBEAT_INTERVAL_MS,
    POLL_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    SESSION_TIMEOUT_MS,
    Client,
    Member,
    Record,
    collect,
)

LOGICAL_OFFSETS = {"earliest": -2, "latest": -1}


def connect(address: str) -> Client:
    """Return a client of the broker at that address."""
    return ConfluentClient(address)


def read_record(message: Any) -> Record:
    """Return a received message in our words."""
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


class ConfluentMember:
    """A consumer of a group."""

    def __init__(self, config: dict[str, Any], group: str, topic: str) -> None:
        self._consumer = Consumer(
            config
            | {
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> list[Record]:
        return [read_record(m) for m in self._consumer.consume(500, POLL_TIMEOUT_S)]

    def assignment(self) -> list[int]:
        return sorted(place.partition for place in self._consumer.assignment())

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class ConfluentClient:
    """librdkafka through its Python binding."""

    name = "confluent"

    def __init__(self, address: str) -> None:
        self._config: dict[str, Any] = {
            "bootstrap.servers": address,
            "topic.metadata.refresh.interval.ms": 1_000,
            "allow.auto.create.topics": True,
        }
        self._admin = AdminClient(self._config)

    def close(self) -> None:
        """Nothing to do: librdkafka's handles go with the objects."""

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

    def produce(
        self,
        topic: str,
        records: list[Record],
        *,
        compression: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        producer = Producer(
            self._config
            | {
                "compression.type": compression,
                "acks": acks,
                "enable.idempotence": idempotent,
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

    def consume(
        self,
        topic: str,
        start: int | str,
        count: int,
        *,
        partitions: int = 1,
        when_idle: Callable[[], object] | None = None,
    ) -> list[Record]:
        consumer = Consumer(self._config | {"group.id": "unused", "enable.auto.commit": False})
        offset = start if isinstance(start, int) else LOGICAL_OFFSETS[start]
        consumer.assign([TopicPartition(topic, p, offset) for p in range(partitions)])

        def poll() -> list[Record]:
            return [read_record(m) for m in consumer.consume(1_000, POLL_TIMEOUT_S)]

        try:
            return collect(poll, count, when_idle)
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp: int) -> int | None:
        consumer = Consumer(self._config | {"group.id": "unused"})
        try:
            [found] = consumer.offsets_for_times(
                [TopicPartition(topic, 0, timestamp)], REQUEST_TIMEOUT_S
            )
        finally:
            consumer.close()
        # librdkafka says "end" (-1) where no record is that late.
        return found.offset if found.offset >= 0 else None

    def join(self, group: str, topic: str) -> Member:
        return ConfluentMember(self._config, group, topic)
