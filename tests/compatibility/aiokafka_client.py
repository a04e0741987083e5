"""aiokafka: an asyncio client that stays at low versions of most requests.

Its event loop runs in a thread of its own, so that heartbeats go on while a test does other things.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

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

Result = TypeVar("Result")

POLL_TIMEOUT_MS = int(POLL_TIMEOUT_S * 1_000)
ACKS = {"0": 0, "1": 1, "all": "all"}


def connect(address: str) -> Client:
    """Return a client of the broker at that address."""
    return AiokafkaClient(address)


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


async def poll_records(consumer: AIOKafkaConsumer) -> list[Record]:
    """Return what has arrived, in our words."""
    batches = await consumer.getmany(timeout_ms=POLL_TIMEOUT_MS)
    return [read_record(record) for batch in batches.values() for record in batch]


class LoopThread:
    """An event loop that runs until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[object, object, Result]) -> Result:
        """Run a coroutine on the loop and wait for its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(2 * REQUEST_TIMEOUT_S)

    def close(self) -> None:
        """Stop the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(REQUEST_TIMEOUT_S)
        self._loop.close()


class AiokafkaMember:
    """A consumer of a group."""

    def __init__(self, loop: LoopThread, address: str, group: str, topic: str) -> None:
        self._loop = loop
        self._consumer = self._loop.run(self._start(address, group, topic))

    @staticmethod
    async def _start(address: str, group: str, topic: str) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        )
        await consumer.start()
        return consumer

    def poll(self) -> list[Record]:
        return self._loop.run(poll_records(self._consumer))

    def assignment(self) -> list[int]:
        return sorted(place.partition for place in self._consumer.assignment())

    def commit(self) -> None:
        self._loop.run(self._consumer.commit())

    def close(self) -> None:
        self._loop.run(self._consumer.stop())


class AiokafkaClient:
    """The asyncio client."""

    name = "aiokafka"

    def __init__(self, address: str) -> None:
        self._address = address
        self._loop = LoopThread()
        self._admin = self._loop.run(self._start_admin())

    async def _start_admin(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._address)
        await admin.start()
        return admin

    def close(self) -> None:
        self._loop.run(self._admin.close())
        self._loop.close()

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        response = self._loop.run(self._admin.create_topics([NewTopic(topic, partitions, 1)]))
        assert response.topic_errors[0][1] == 0, response

    def delete_topic(self, topic: str) -> None:
        response = self._loop.run(self._admin.delete_topics([topic]))
        assert response.topic_error_codes == [(topic, 0)], response

    def topics(self) -> dict[str, int]:
        described = self._loop.run(self._admin.describe_topics())
        return {topic["topic"]: len(topic["partitions"]) for topic in described}

    def brokers(self) -> list[str]:
        cluster = self._loop.run(self._admin.describe_cluster())
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
        async def work() -> list[int]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._address,
                compression_type=None if compression == "none" else compression,
                acks=ACKS[acks],
                enable_idempotence=idempotent,
                max_request_size=2_000_000,
            )
            async with producer:
                futures = [
                    await producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers),
                        partition=record.partition,
                        timestamp_ms=record.timestamp,
                    )
                    for record in records
                ]
                # With acks=0 nothing is known of a record but that it was sent.
                return [getattr(await future, "offset", -1) for future in futures]

        return self._loop.run(work())

    def consume(
        self,
        topic: str,
        start: int | str,
        count: int,
        *,
        partitions: int = 1,
        when_idle: Callable[[], object] | None = None,
    ) -> list[Record]:
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer = self._loop.run(self._assigned(places, start))
        try:
            return collect(lambda: self._loop.run(poll_records(consumer)), count, when_idle)
        finally:
            self._loop.run(consumer.stop())

    async def _assigned(self, places: list[TopicPartition], start: int | str) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(bootstrap_servers=self._address)
        await consumer.start()
        consumer.assign(places)
        if start == EARLIEST:
            await consumer.seek_to_beginning(*places)
        elif start == LATEST:
            await consumer.seek_to_end(*places)
        else:
            for place in places:
                consumer.seek(place, start)
        return consumer

    def offset_for_time(self, topic: str, timestamp: int) -> int | None:
        async def work() -> int | None:
            place = TopicPartition(topic, 0)
            async with AIOKafkaConsumer(bootstrap_servers=self._address) as consumer:
                found = (await consumer.offsets_for_times({place: timestamp}))[place]
            return None if found is None else found.offset

        return self._loop.run(work())

    def join(self, group: str, topic: str) -> Member:
        return AiokafkaMember(self._loop, self._address, group, topic)
