"""aiokafka: the load of `client_load`, each worker on an event loop of its own."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    ProducerFenced,
)

from tests.cluster.loads.client_load import COPIED, COPIERS, PARTITIONS, READERS, SENT, Load
from tests.compatibility.faults.loads.load import Worker, name_of, value_of
from tests.compatibility.faults.loads.transactions import original
from tests.histories.history import Recorder

IN_FLIGHT_MAX = 300
FLUSH_TIMEOUT_S = 60
POLL_MS = 100
CLIENT: dict[str, Any] = {
    "request_timeout_ms": 5_000,
    "retry_backoff_ms": 50,
    "metadata_max_age_ms": 5_000,
}
MEMBER: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "isolation_level": "read_committed",
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 300,
}


class AiokafkaWorker(Worker):
    """A worker whose `work` is a coroutine."""

    def live(self) -> None:
        asyncio.run(self.work())

    async def work(self) -> None:
        """Work until `is_stopping`, or until the client must be replaced."""
        raise NotImplementedError

    def say_send(self, type_: str, place: tuple[str, int], name: str, **more: Any) -> None:
        """Record a send of one record."""
        what = {"topic": place[0], "partition": place[1], "values": [name]}
        self.record("send", type_, **what, delivery="idempotent", **more)


class Sender(AiokafkaWorker):
    """An idempotent producer: one client, and another one after it has given up a batch."""

    async def work(self) -> None:
        self._unacknowledged: set[asyncio.Task[None]] = set()
        self._has_given_up = False
        producer = AIOKafkaProducer(
            bootstrap_servers=self.address, enable_idempotence=True, linger_ms=2, **CLIENT
        )
        async with producer:
            while not (self.is_stopping or self._has_given_up):
                place = (SENT, self.random.randrange(PARTITIONS))
                for name in self.names(place, self.random.randint(1, 5)):
                    await self._send(producer, place, name)
                while len(self._unacknowledged) > IN_FLIGHT_MAX and not self.is_stopping:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.01)
            if self._unacknowledged:
                _, late = await asyncio.wait(self._unacknowledged, timeout=FLUSH_TIMEOUT_S)
                assert not late, "records are not acknowledged"

    async def _send(self, producer: AIOKafkaProducer, place: tuple[str, int], name: str) -> None:
        self.say_send("invoke", place, name)
        future = None
        while future is None:
            # The batch before is full, and refused for longer than one request may last, while the
            # leader has too few replicas: the record is in no batch yet.
            with suppress(KafkaTimeoutError):
                future = await producer.send(place[0], value_of(name), partition=place[1])
        task = asyncio.ensure_future(self._delivered(future, place, name))
        self._unacknowledged.add(task)
        task.add_done_callback(self._unacknowledged.discard)

    async def _delivered(self, future: Any, place: tuple[str, int], name: str) -> None:
        try:
            self.say_send("ok", place, name, offset=(await future).offset)
        except (LeaderNotAvailableError, NotLeaderForPartitionError):
            # All brokers were down for longer than a request may last: it may be stored or not.
            self._has_given_up = True
        except KafkaError as error:
            if self._has_given_up:
                return  # the sequence has a gap now
            self.failure = error
            self.ask_to_stop()


class Member(AiokafkaWorker):
    """A worker that reads a topic as a member of a group."""

    group = ""

    async def joined(self) -> AIOKafkaConsumer:
        """Return a new member, whose assignments are recorded."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.address, group_id=self.group, **MEMBER, **CLIENT
        )
        consumer.subscribe([SENT], listener=Assignments(self))
        await consumer.start()
        return consumer

    async def polled(self, consumer: AIOKafkaConsumer) -> dict[TopicPartition, list[Any]]:
        """Return the records of a poll."""
        found: dict[TopicPartition, list[Any]] = await consumer.getmany(timeout_ms=POLL_MS)
        return found

    def say_read(self, found: dict[TopicPartition, list[Any]], **more: str) -> None:
        """Record the records of a poll."""
        for place, records in found.items():
            read = [(each.offset, name_of(each.value)) for each in records]
            what = {"topic": place.topic, "partition": place.partition}
            self.record("poll", "ok", **what, records=read, **more)

    def say_commit(self, type_: str, places: dict[TopicPartition, int]) -> None:
        """Record a commit."""
        for place, offset in places.items():
            what = {"topic": place.topic, "partition": place.partition}
            self.record("commit", type_, group=self.group, **what, offset=offset)


class Assignments(ConsumerRebalanceListener):  # type: ignore[misc]
    """Records the assignments of a member."""

    def __init__(self, member: Member) -> None:
        self._member = member

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Record that the member reads these from their committed offsets."""
        for each in assigned:
            self._member.record("assign", "ok", topic=each.topic, partition=each.partition)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Do nothing."""


class Reader(Member):
    """A group member that commits what it has read."""

    group = READERS

    async def work(self) -> None:
        consumer = await self.joined()
        try:
            while not self.is_stopping:
                found = await self.polled(consumer)
                if found:
                    self.say_read(found)
                    await self._commit(consumer, ends(found))
        finally:
            await consumer.stop()

    async def _commit(self, consumer: AIOKafkaConsumer, places: dict[TopicPartition, int]) -> None:
        self.say_commit("invoke", places)
        try:
            await consumer.commit(places)
        except (CommitFailedError, IllegalStateError):
            return  # The partitions are another member's now.
        except KafkaError as error:
            if not error.retriable:
                raise
            return  # Not acknowledged: it may or may not be applied.
        self.say_commit("ok", places)


class Copier(Member):
    """Copies a topic to another, with the offsets of what it read, in transactions."""

    group = COPIERS

    async def work(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.address, transactional_id=self.name, **CLIENT
        )
        await producer.start()
        consumer = await self.joined()
        try:
            is_committed = True
            while is_committed and not self.is_stopping:
                found = await self.polled(consumer)
                if found:
                    is_committed = await self._copy(producer, found)
        except ProducerFenced:
            pass  # Another client of the same transactional id ends what this one has left open.
        finally:
            await consumer.stop()
            await producer.stop()

    async def _copy(
        self, producer: AIOKafkaProducer, found: dict[TopicPartition, list[Any]]
    ) -> bool:
        self._transactions = getattr(self, "_transactions", 0) + 1
        transaction = f"{self.name}#{self._transactions}"
        what = {"transaction": transaction, "commit": True}
        await producer.begin_transaction()
        self.record("begin", "ok", transaction=transaction, transactional_id=self.name)
        self.say_read(found, transaction=transaction)
        places = ends(found)
        try:
            futures = [
                await self._send(producer, source.partition, each, transaction)
                for source, records in found.items()
                for each in records
            ]
            for place, name, future in futures:
                offset = (await future).offset
                self.say_send("ok", place, name, transaction=transaction, offset=offset)
            self.say_commit("invoke", places)
            await producer.send_offsets_to_transaction(places, self.group)
            self.record("end", "invoke", **what)
            await producer.commit_transaction()
        except ProducerFenced:
            raise
        except KafkaError:
            await producer.abort_transaction()
            self.record("end", "fail", **what)
            return False
        self.record("end", "ok", **what)
        self.say_commit("ok", places)
        return True

    async def _send(
        self, producer: AIOKafkaProducer, partition: int, each: Any, transaction: str
    ) -> tuple[tuple[str, int], str, Any]:
        place = (COPIED, partition)
        self.numbers += 1
        name = f"{place[0]},{place[1]},{original(name_of(each.value))},{self.numbers}"
        self.say_send("invoke", place, name, transaction=transaction)
        return place, name, await producer.send(*place[:1], value_of(name), partition=partition)


def ends(found: dict[TopicPartition, list[Any]]) -> dict[TopicPartition, int]:
    """Return the offsets to continue at after the records of a poll."""
    return {place: records[-1].offset + 1 for place, records in found.items() if records}


def load(address: str, history: Recorder) -> Load:
    """Return the workers."""
    senders = [Sender("aiokafka-sender", address, history)]
    others: list[Worker] = [Reader(f"aiokafka-reader-{n}", address, history) for n in (1, 2)]
    others.append(Copier("aiokafka-copier", address, history))
    names = [each.name for each in (*senders, *others)]
    return Load(senders, others, names, copies=True)
