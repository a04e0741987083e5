"""kafka-python: a client in pure Python, with an encoder and decoder of its own."""

from collections.abc import Callable

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from tests.compatibility.client import (
    EARLIEST,
    HEARTBEAT_INTERVAL_MS,
    LATEST,
    POLL_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    SESSION_TIMEOUT_MS,
    Client,
    Member,
    Record,
    collect,
)

POLL_TIMEOUT_MS = int(POLL_TIMEOUT_S * 1_000)
ACKS = {"0": 0, "1": 1, "all": "all"}


def connect(address: str) -> Client:
    """Return a client of the broker at that address."""
    return KafkaPythonClient(address)


def poll_records(consumer: KafkaConsumer) -> list[Record]:
    """Return what has arrived, in our words."""
    batches = consumer.poll(timeout_ms=POLL_TIMEOUT_MS, max_records=1_000).values()
    return [read_record(record) for batch in batches for record in batch]


def read_record(record: ConsumerRecord) -> Record:
    """Return a received record in our words."""
    return Record(
        value=record.value,
        key=record.key,
        headers=tuple(record.headers),
        timestamp=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )


class KafkaPythonMember:
    """A consumer of a group."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        )

    def poll(self) -> list[Record]:
        return poll_records(self._consumer)

    def assignment(self) -> list[int]:
        return sorted(place.partition for place in self._consumer.assignment())

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class KafkaPythonClient:
    """The pure Python client."""

    name = "kafka_python"

    def __init__(self, address: str) -> None:
        self._address = address
        self._admin = KafkaAdminClient(bootstrap_servers=address)

    def close(self) -> None:
        self._admin.close()

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        self._admin.create_topics(
            {topic: {"num_partitions": partitions, "replication_factor": 1}},
            wait_for_metadata=True,
        )

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def topics(self) -> dict[str, int]:
        return {t["name"]: len(t["partitions"]) for t in self._admin.describe_topics()}

    def brokers(self) -> list[str]:
        cluster = self._admin.describe_cluster()
        return [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]]

    def produce(
        self,
        topic: str,
        records: list[Record],
        *,
        compression: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=self._address,
            compression_type=None if compression == "none" else compression,
            acks=ACKS[acks],
            enable_idempotence=idempotent,
            max_request_size=2_000_000,
        )
        futures = [
            producer.send(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=record.partition,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        producer.flush(timeout=REQUEST_TIMEOUT_S)
        offsets = [future.get(REQUEST_TIMEOUT_S).offset for future in futures]
        producer.close()
        return offsets

    def consume(
        self,
        topic: str,
        start: int | str,
        count: int,
        *,
        partitions: int = 1,
        when_idle: Callable[[], object] | None = None,
    ) -> list[Record]:
        consumer = KafkaConsumer(bootstrap_servers=self._address)
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(places)
        if start == EARLIEST:
            consumer.seek_to_beginning(*places)
        elif start == LATEST:
            consumer.seek_to_end(*places)
        else:
            for place in places:
                consumer.seek(place, start)
        try:
            return collect(lambda: poll_records(consumer), count, when_idle)
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp: int) -> int | None:
        consumer = KafkaConsumer(bootstrap_servers=self._address)
        place = TopicPartition(topic, 0)
        try:
            found = consumer.offsets_for_times({place: timestamp})[place]
        finally:
            consumer.close()
        return None if found is None else found.offset

    def join(self, group: str, topic: str) -> Member:
        return KafkaPythonMember(self._address, group, topic)
