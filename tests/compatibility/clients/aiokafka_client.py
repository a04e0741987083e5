"""aiokafka: an asyncio client that stays at low versions of most requests.

Its event loop runs in its own thread, so that heartbeats continue while a test does other things.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

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

Result = TypeVar("Result")


def connect(address: str) -> Client:
    """Return a client of the broker at that address."""
    return AiokafkaClient(address)


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


class AiokafkaReader(Reader):
    """A consumer with assigned partitions."""

    def __init__(self, loop: LoopThread, consumer: AIOKafkaConsumer) -> None:
        super().__init__(consumer)
        self._loop = loop

    def poll(self) -> list[Record]:
        return polled(self._loop.run(self._consumer.getmany(timeout_ms=POLL_TIMEOUT_MS)))

    def close(self) -> None:
        self._loop.run(self._consumer.stop())


class AiokafkaMember(AiokafkaReader, Member):
    """A consumer of a group."""

    def commit(self) -> None:
        self._loop.run(self._consumer.commit())


class AiokafkaClient(Client):
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
        return addresses(self._loop.run(self._admin.describe_cluster()))

    def write(self, topic: str, records: list[Record], how: Producing) -> list[int]:
        async def work() -> list[int]:
            async with AIOKafkaProducer(**producer_options(self._address, how)) as producer:
                futures = [await producer.send(topic, **sent(record)) for record in records]
                # With acks=0 only the sending of a record is known.
                return [getattr(await future, "offset", -1) for future in futures]

        return self._loop.run(work())

    def reader(self, topic: str, partitions: range, start: int | str) -> Reader:
        async def work() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(**reader_options(self._address, start))
            await consumer.start()
            places = [TopicPartition(topic, partition) for partition in partitions]
            consumer.assign(places)
            if isinstance(start, int):
                for place in places:
                    consumer.seek(place, start)
            return consumer

        return AiokafkaReader(self._loop, self._loop.run(work()))

    def offset_for_time(self, topic: str, timestamp: int) -> int | None:
        async def work() -> int | None:
            place = TopicPartition(topic, 0)
            async with AIOKafkaConsumer(bootstrap_servers=self._address) as consumer:
                found = (await consumer.offsets_for_times({place: timestamp}))[place]
            return None if found is None else found.offset

        return self._loop.run(work())

    def join(self, group: str, topic: str) -> Member:
        async def work() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(topic, **member_options(self._address, group))
            await consumer.start()
            return consumer

        return AiokafkaMember(self._loop, self._loop.run(work()))
