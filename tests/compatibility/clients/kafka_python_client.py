"""kafka-python: a client in pure Python, with its own encoder and decoder."""

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from tests.compatibility.clients.client import (
    REQUEST_TIMEOUT_S,
    Client,
    Member,
    Producing,
    Reader,
    Record,
)
from tests.compatibility.clients.python_clients import (
    POLL_TIMEOUT_MS,
    addresses,
    member_options,
    polled,
    producer_options,
    reader_options,
    sent,
)


def connect(address: str) -> Client:
    """Return a client of the broker at that address."""
    return KafkaPythonClient(address)


class KafkaPythonReader(Reader):
    """A consumer with assigned partitions."""

    def poll(self) -> list[Record]:
        return polled(self._consumer.poll(timeout_ms=POLL_TIMEOUT_MS, max_records=1_000))

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class KafkaPythonMember(KafkaPythonReader, Member):
    """A consumer of a group."""

    def commit(self) -> None:
        self._consumer.commit()


class KafkaPythonClient(Client):
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
        return addresses(self._admin.describe_cluster())

    def write(self, topic: str, records: list[Record], how: Producing) -> list[int]:
        producer = KafkaProducer(**producer_options(self._address, how))
        futures = [producer.send(topic, **sent(record)) for record in records]
        producer.flush(timeout=REQUEST_TIMEOUT_S)
        offsets = [future.get(REQUEST_TIMEOUT_S).offset for future in futures]
        producer.close()
        return offsets

    def reader(self, topic: str, partitions: range, start: int | str) -> Reader:
        consumer = KafkaConsumer(**reader_options(self._address, start))
        places = [TopicPartition(topic, partition) for partition in partitions]
        consumer.assign(places)
        if isinstance(start, int):
            for place in places:
                consumer.seek(place, start)
        return KafkaPythonReader(consumer)

    def offset_for_time(self, topic: str, timestamp: int) -> int | None:
        consumer = KafkaConsumer(bootstrap_servers=self._address)
        place = TopicPartition(topic, 0)
        try:
            found = consumer.offsets_for_times({place: timestamp})[place]
        finally:
            consumer.close()
        return None if found is None else found.offset

    def join(self, group: str, topic: str) -> Member:
        consumer = KafkaConsumer(topic, **member_options(self._address, group))
        # A leader that assigns before it knows the topic's partitions joins again when it does. If
        # a poll ends between that JoinGroup and its SyncGroup, kafka-python 3.0.12 forgets the
        # join: it sends no heartbeat and never joins again.
        assert consumer.partitions_for_topic(topic), "the topic is not there"
        return KafkaPythonMember(consumer)
