"""Load of transactions and group members that outlive their broker, and the history of it.

Each worker makes a new client whenever the old one cannot continue: a new producer of the same
transactional id ends what the last one left open.
"""

from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.compatibility.faults.loads.load import Worker, name_of, value_of
from tests.histories.facts import Place
from tests.histories.history import Recorder

PARTITIONS = 3
RECORDS_MAX = 9
ABORTED_SHARE = 0.3
CALL_TIMEOUT_S = 5.0
CLIENT: dict[str, str | int] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "socket.timeout.ms": 5_000,
    # If it starts over from its bootstrap servers, requests for a group coordinator wait forever
    # for a connection that it has given up (librdkafka 2.16).
    "metadata.recovery.strategy": "none",
    # Therefore it must not only know brokers that are gone: it forgets those that the last answer
    # to Metadata did not name, and asks again when a connection fails, or after this time.
    "topic.metadata.refresh.interval.ms": 200,
    "log_level": 0,  # It would log each failed connection.
}
MEMBER: dict[str, str | int | bool] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
}
PROTOCOLS: dict[str, dict[str, str | int]] = {
    "classic": {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300},
    "consumer": {"group.protocol": "consumer"},  # the broker limits how often
}


class Transactions(Worker):
    """A worker with a transactional producer."""

    def __init__(self, name: str, address: str, history: Recorder) -> None:
        super().__init__(name, address, history)
        self._transactions = 0

    def live(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self.address, "transactional.id": self.name, **CLIENT}
        )
        try:
            self.until_done(producer.init_transactions)
            self.work(producer)
        except KafkaException:
            producer.purge()  # Its state belongs to a transaction that is over.

    def work(self, producer: Producer) -> None:
        """Run transactions until `is_stopping`."""
        raise NotImplementedError

    def begin(self, producer: Producer) -> str:
        """Begin a transaction and return its name."""
        self._transactions += 1
        name = f"{self.name}#{self._transactions}"
        producer.begin_transaction()
        self.record("begin", "ok", transaction=name, transactional_id=self.name)
        return name

    def send(self, producer: Producer, place: Place, name: str, transaction: str) -> None:
        """Send a record of a transaction."""
        what = {
            "topic": place[0],
            "partition": place[1],
            "values": [name],
            "delivery": "idempotent",
            "transaction": transaction,
        }

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.record("send", "ok", **what, offset=message.offset())

        self.record("send", "invoke", **what)
        producer.produce(place[0], value_of(name), partition=place[1], on_delivery=delivered)

    def commit(self, producer: Producer, transaction: str) -> bool:
        """Commit, or abort if the client asks for that; return whether it is committed."""
        what = {"transaction": transaction, "commit": True}
        self.record("end", "invoke", **what)
        try:
            self.until_done(producer.commit_transaction)
        except KafkaException as error:
            if not error_of(error).txn_requires_abort():
                self.record("end", "info", **what)
                raise
            self.until_done(producer.abort_transaction)
            self.record("end", "fail", **what)
            return False
        self.record("end", "ok", **what)
        return True

    def abort(self, producer: Producer, transaction: str) -> None:
        """Abort."""
        what = {"transaction": transaction, "commit": False}
        self.record("end", "invoke", **what)
        self.until_done(producer.abort_transaction)
        self.record("end", "ok", **what)

    def until_done(self, call: Any) -> None:
        """Repeat a call of the transaction API as long as its error is retriable."""
        while True:
            try:
                return call(CALL_TIMEOUT_S)
            except KafkaException as error:
                if not error_of(error).retriable():
                    raise


class Writer(Transactions):
    """Writes transactions, some of which it aborts on purpose."""

    def __init__(self, name: str, address: str, history: Recorder, topic: str) -> None:
        super().__init__(name, address, history)
        self._topic = topic

    def work(self, producer: Producer) -> None:
        while not self.is_stopping:
            self.pause()
            transaction = self.begin(producer)
            for each in range(self.random.randint(1, RECORDS_MAX)):
                place = (self._topic, each % PARTITIONS)
                self.send(producer, place, self.names(place, 1)[0], transaction)
            if self.random.random() < ABORTED_SHARE:
                producer.flush(CALL_TIMEOUT_S)  # Unsent records can never be read.
                self.abort(producer, transaction)
            else:
                self.commit(producer, transaction)


class Member(Worker):
    """A worker that reads a topic as a member of a group."""

    group = ""
    protocol = "classic"

    def joined(self, topic: str) -> Consumer:
        """Return a new member whose assignments are recorded."""
        place: dict[str, str | int] = {"bootstrap.servers": self.address, "group.id": self.group}
        consumer = Consumer(place | MEMBER | PROTOCOLS[self.protocol] | CLIENT)

        def assigned(_: Consumer, places: list[TopicPartition]) -> None:
            for each in places:
                self.record("assign", "ok", topic=each.topic, partition=each.partition)

        consumer.subscribe([topic], on_assign=assigned)
        return consumer

    def say_read(self, messages: list[Message], **more: str) -> None:
        """Record the polled messages."""
        records: dict[Place, list[tuple[int, str | None]]] = {}
        for each in messages:
            place = (each.topic() or "", each.partition() or 0)
            records.setdefault(place, []).append((each.offset() or 0, name_of(each.value())))
        for (topic, partition), read in records.items():
            self.record("poll", "ok", topic=topic, partition=partition, records=read, **more)

    def say_commit(self, type_: str, places: list[TopicPartition]) -> None:
        """Record a commit."""
        for each in places:
            self.record(
                "commit",
                type_,
                group=self.group,
                topic=each.topic,
                partition=each.partition,
                offset=each.offset,
            )


class Copier(Transactions, Member):
    """Copies a topic to another, with the offsets of what it read, in transactions."""

    def __init__(
        self, name: str, address: str, history: Recorder, protocol: str, places: tuple[str, str]
    ) -> None:
        super().__init__(name, address, history)
        self._source, self._target = places
        self.protocol = protocol
        self.group = f"{self._target}-copiers"

    def work(self, producer: Producer) -> None:
        with closing(self.joined(self._source)) as consumer:
            while not self.is_stopping:
                messages = polled(consumer)
                if messages and not self._copy(producer, consumer, messages):
                    return  # Another consumer begins at the committed offsets.

    def _copy(self, producer: Producer, consumer: Consumer, messages: list[Message]) -> bool:
        transaction = self.begin(producer)
        self.say_read(messages, transaction=transaction)
        for message in messages:
            place = (self._target, message.partition() or 0)
            self.send(producer, place, self._copied(message, place), transaction)
        places = ends(messages)
        self.say_commit("invoke", places)
        try:
            producer.send_offsets_to_transaction(
                places, consumer.consumer_group_metadata(), CALL_TIMEOUT_S
            )
        except KafkaException as error:
            if error_of(error).fatal():
                raise
            self.abort(producer, transaction)
            return False
        if not self.commit(producer, transaction):
            return False
        self.say_commit("ok", places)
        return True

    def _copied(self, message: Message, place: Place) -> str:
        """Return the name of a copy: it names the original, and every attempt is different."""
        self.numbers += 1
        return f"{place[0]},{place[1]},{original(name_of(message.value()))},{self.numbers}"


class Reader(Member):
    """A group member that commits what it has read."""

    def __init__(
        self, name: str, address: str, history: Recorder, protocol: str, place: tuple[str, str]
    ) -> None:
        super().__init__(name, address, history)
        self.group, self._topic = place
        self.protocol = protocol

    def live(self) -> None:
        with closing(self.joined(self._topic)) as consumer:
            while not self.is_stopping:
                messages = polled(consumer)
                if messages:
                    self.say_read(messages)
                    self._commit(consumer, ends(messages))

    def _commit(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self.say_commit("invoke", places)
        try:
            done = consumer.commit(offsets=places, asynchronous=False)
        except KafkaException:
            return  # Not acknowledged: it may or may not be applied.
        self.say_commit("ok", [each for each in done or [] if each.error is None])


def original(name: str | None) -> str:
    """Return the sender and number of a record, as its copy has it."""
    _, _, worker, number = (name or "").split(",")
    return f"{worker}:{number}"


def polled(consumer: Consumer) -> list[Message]:
    """Poll for messages; an unreachable broker returns none."""
    return [message for message in consumer.consume(200, 0.1) if message.error() is None]


def ends(messages: list[Message]) -> list[TopicPartition]:
    """Return the offset to continue at after messages of one topic."""
    offsets = {message.partition() or 0: (message.offset() or 0) + 1 for message in messages}
    topic = messages[0].topic() or ""
    return [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]


def error_of(error: KafkaException) -> KafkaError:
    """Return librdkafka's name for an error."""
    found: KafkaError = error.args[0]
    return found
