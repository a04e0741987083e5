"""Load of transactions and group members that survive their broker, and what they were told.

Each worker makes its client anew whenever that one says that it cannot go on: a new producer of the
same transactional id ends what the last one left open.
"""

import random
from collections import defaultdict
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.compatibility.load import Worker

PARTITIONS = 3
RECORDS_MAX = 9
ABORTED_SHARE = 0.3
CALL_TIMEOUT_S = 5.0
CLIENT: dict[str, str | int] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "socket.timeout.ms": 5_000,
    # When it starts over from its bootstrap servers, requests for the coordinator of a group wait
    # for ever for a connection that it has given up (librdkafka 2.16).
    "metadata.recovery.strategy": "none",
    "log_level": 0,  # It would say each time that nobody answers.
}
MEMBER: dict[str, str | int | bool] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
}
PROTOCOLS: dict[str, dict[str, str | int]] = {
    "classic": {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300},
    "consumer": {"group.protocol": "consumer"},  # the broker says how often
}


class Transactions(Worker):
    """A worker with a transactional producer."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name, address)
        self.commits = 0

    def live(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self.address, "transactional.id": self.name, **CLIENT}
        )
        try:
            self.until_done(producer.init_transactions)
            self.work(producer)
        except KafkaException:
            producer.purge()  # What it holds belongs to a transaction that is over.

    def work(self, producer: Producer) -> None:
        """Make transactions until `is_stopping`."""
        raise NotImplementedError

    def commit(self, producer: Producer) -> bool:
        """Commit, or abort if the client asks for that; return whether it is committed."""
        try:
            self.until_done(producer.commit_transaction)
        except KafkaException as error:
            if not error_of(error).txn_requires_abort():
                raise
            self.until_done(producer.abort_transaction)
            return False
        self.commits += 1
        return True

    def until_done(self, call: Any) -> None:
        """Repeat a call of the transaction API as long as it may be repeated."""
        while True:
            try:
                return call(CALL_TIMEOUT_S)
            except KafkaException as error:
                if not error_of(error).retriable():
                    raise


class Writer(Transactions):
    """Writes numbered transactions, of which it aborts some on purpose."""

    def __init__(self, name: str, address: str, topic: str) -> None:
        super().__init__(name, address)
        self._topic = topic
        self._random = random.Random(name)
        self.number = 0
        self.attempted: dict[int, set[str]] = {}
        self.committed: set[int] = set()

    def work(self, producer: Producer) -> None:
        while not self.is_stopping:
            self.number += 1
            count = self._random.randint(1, RECORDS_MAX)
            values = [f"{self.name} {self.number} {place}" for place in range(count)]
            producer.begin_transaction()
            for place, value in enumerate(values):
                producer.produce(self._topic, value, partition=place % PARTITIONS)
            if self._random.random() < ABORTED_SHARE:
                producer.flush(CALL_TIMEOUT_S)  # What was never sent could never be read.
                self.until_done(producer.abort_transaction)
                continue
            self.attempted[self.number] = set(values)
            if self.commit(producer):
                self.committed.add(self.number)
            else:
                del self.attempted[self.number]

    def check(self, values: list[str]) -> None:
        """Compare what committed reads see with what this producer was told."""
        seen: dict[int, list[str]] = defaultdict(list)
        for value in values:
            name, number, _ = value.split()
            if name == self.name:
                seen[int(number)].append(value)
        for transaction, found in seen.items():
            assert transaction in self.attempted, f"{self.name} {transaction}: aborted, and read"
            assert sorted(found) == sorted(self.attempted[transaction]), "whole, and once"
        assert self.committed <= seen.keys(), "a committed transaction is lost"


class Copier(Transactions):
    """Copies a topic to another, with the offsets of what it read, in transactions."""

    def __init__(self, name: str, address: str, protocol: str, source: str, target: str) -> None:
        super().__init__(name, address)
        self._protocol = protocol
        self._source = source
        self._target = target

    def work(self, producer: Producer) -> None:
        group = f"{self._target}-copiers"
        with closing(member(self.address, self._protocol, group, self._source)) as consumer:
            while not self.is_stopping:
                messages = polled(consumer)
                if messages and not self._copy(producer, consumer, messages):
                    return  # Another consumer begins where the committed ones ended.

    def _copy(self, producer: Producer, consumer: Consumer, messages: list[Message]) -> bool:
        producer.begin_transaction()
        for message in messages:
            producer.produce(self._target, message.value(), partition=message.partition() or 0)
        try:
            producer.send_offsets_to_transaction(
                ends(messages), consumer.consumer_group_metadata(), CALL_TIMEOUT_S
            )
        except KafkaException as error:
            if error_of(error).fatal():
                raise
            self.until_done(producer.abort_transaction)
            return False
        return self.commit(producer)


class Reader(Worker):
    """A member of a group that commits what it has read, and remembers what it was told."""

    def __init__(self, name: str, address: str, protocol: str, group: str, topic: str) -> None:
        super().__init__(name, address)
        self._protocol = protocol
        self._group = group
        self._topic = topic
        self.commits = 0
        self.acknowledged: dict[int, int] = {}

    def live(self) -> None:
        with closing(member(self.address, self._protocol, self._group, self._topic)) as consumer:
            while not self.is_stopping:
                messages = polled(consumer)
                if messages:
                    self._commit(consumer, ends(messages))

    def _commit(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        try:
            done = consumer.commit(offsets=places, asynchronous=False)
        except KafkaException:
            return  # Not acknowledged: it may stand or not.
        for place in done or []:
            if place.error is None:
                self.acknowledged[place.partition] = place.offset
                self.commits += 1


def member(address: str, protocol: str, group: str, topic: str) -> Consumer:
    """Join a group of one of the PROTOCOLS."""
    place: dict[str, str | int] = {"bootstrap.servers": address, "group.id": group}
    consumer = Consumer(place | MEMBER | PROTOCOLS[protocol] | CLIENT)
    consumer.subscribe([topic])
    return consumer


def polled(consumer: Consumer) -> list[Message]:
    """Poll for messages; a broker that is away sends none."""
    return [message for message in consumer.consume(200, 0.1) if message.error() is None]


def ends(messages: list[Message]) -> list[TopicPartition]:
    """Return where to go on after messages of one topic."""
    offsets = {message.partition() or 0: (message.offset() or 0) + 1 for message in messages}
    topic = messages[0].topic() or ""
    return [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]


def committed_offsets(address: str, group: str, topic: str) -> dict[int, int]:
    """Return the committed offsets of a group as anybody may ask for them."""
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    with closing(Consumer({"bootstrap.servers": address, "group.id": group, **CLIENT})) as asker:
        return {place.partition: place.offset for place in asker.committed(places, 20)}


def error_of(error: KafkaException) -> KafkaError:
    """Return what librdkafka says of an error."""
    found: KafkaError = error.args[0]
    return found
