"""Kafka's load at the wire level: producers with and without sequences, offsets, topics."""

from collections import deque
from dataclasses import dataclass
from typing import ClassVar

from tests.compatibility.faults.loads.load import ConnectedWorker, Exceptions, value_of
from tests.histories.facts import Place
from tests.histories.history import Recorder
from tests.support import wire_requests
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import Batch, encode_records

IN_FLIGHT = 5
BATCH_RECORDS_MAX = 12
RETRIABLE = {3, 5, 6, 7, 14, 15, 16}  # Errors that a broker that has just started may return.
TOPICS_MAX = 5  # that exist at once


class WireWorker(ConnectedWorker[WireClient]):
    """Works on a connection of the test's wire client."""

    BROKEN: ClassVar[Exceptions] = (ConnectionClosedError, OSError)

    def connect(self) -> WireClient:
        return WireClient(self.address)


@dataclass
class Sent:
    """A batch that was not acknowledged yet."""

    names: list[str]
    keys: list[str] | None
    records: bytes


class ProducerWorker(WireWorker):
    """Keeps several batches in flight, and sends those again that were not acknowledged, in order.

    An idempotent one repeats the sequence numbers, so that each record must be stored once; a plain
    one has none, so that a record may be stored twice but never be missing.
    """

    def __init__(
        self,
        name: str,
        address: str,
        history: Recorder,
        place: Place,
        *,
        idempotent: bool,
        keys: int = 0,
    ) -> None:
        super().__init__(name, address, history)
        self._place = place
        self._is_idempotent = idempotent
        self._keys = keys
        self._identity: tuple[int, int] | None = None
        self._unacknowledged: deque[Sent] = deque()

    def work(self, client: WireClient) -> None:
        if self._is_idempotent and self._identity is None:
            self._identity = wire_requests.init_producer_id(client)
            self.record("init_producer", "ok", producer_id=self._identity[0])
        # Only one until the partition is served: it may become ready between two batches in flight,
        # and refuse only the first of them.
        if not self._unacknowledged:
            self._unacknowledged.append(self._next_batch())
        self._send(client, self._unacknowledged[0])
        self._receive(client)
        for sent in self._unacknowledged:
            self._send(client, sent)
        while self._unacknowledged or not self.is_stopping:
            while len(self._unacknowledged) < IN_FLIGHT and not self.is_stopping:
                self._unacknowledged.append(self._next_batch())
                self._send(client, self._unacknowledged[-1])
            self._receive(client)
            self.pause()

    def _next_batch(self) -> Sent:
        first, count = self.numbers, self.random.randint(1, BATCH_RECORDS_MAX)
        names = self.names(self._place, count)
        keys = None
        if self._keys:
            keys = [f"key-{self.random.randrange(self._keys)}" for _ in names]
        values = [value_of(each) for each in names]
        producer_id, epoch = self._identity or (-1, -1)
        batch = Batch(
            values=values,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=first if self._is_idempotent else -1,
            payload=encode_records(values, [each.encode() for each in keys] if keys else None),
        )
        return Sent(names, keys, batch.encode())

    def _send(self, client: WireClient, sent: Sent) -> None:
        body = wire_requests.produce_body(self._place[0], [(self._place[1], sent.records)])
        self._say("invoke", sent)
        client.send("Produce", wire_requests.PRODUCE_VERSION, body)

    def _receive(self, client: WireClient) -> None:
        code, base_offset = wire_requests.produced(client.receive())
        if code in RETRIABLE:
            # The batches in flight after it may fail as well: start again from the oldest.
            raise ConnectionClosedError
        assert code == 0, f"{self.name} got error {code}"
        self._say("ok", self._unacknowledged.popleft(), offset=base_offset)

    def _say(self, type_: str, sent: Sent, **more: int) -> None:
        keys = {"keys": sent.keys} if sent.keys else {}
        self.record(
            "send",
            type_,
            topic=self._place[0],
            partition=self._place[1],
            values=sent.names,
            delivery="idempotent" if self._is_idempotent else "again",
            **keys,
            **more,
        )


class CommitWorker(WireWorker):
    """Commits increasing offsets of one group, and fetches them after each start."""

    def __init__(self, name: str, address: str, history: Recorder, group: str, topic: str) -> None:
        super().__init__(name, address, history)
        self._what = {"group": group, "topic": topic, "partition": 0}
        self._next = 0

    def work(self, client: WireClient) -> None:
        group, topic = str(self._what["group"]), str(self._what["topic"])
        if wire_requests.find_coordinator(client, group) in RETRIABLE:
            raise ConnectionClosedError
        self.record("fetch_committed", "invoke", **self._what)
        code, found = wire_requests.committed_offset(client, group, topic)
        self._check(code)
        self.record("fetch_committed", "ok", **self._what, offset=found)
        while not self.is_stopping:
            self._next += 1
            self.record("commit", "invoke", **self._what, offset=self._next)
            self._check(wire_requests.commit_offset(client, group, topic, self._next))
            self.record("commit", "ok", **self._what, offset=self._next)
            self.pause()

    def _check(self, code: int) -> None:
        if code in RETRIABLE:
            raise ConnectionClosedError
        assert code == 0, f"{self.name} got error {code}"


class TopicWorker(WireWorker):
    """Creates topics, writes a record to each, reads all of them, and deletes the oldest."""

    def __init__(self, name: str, address: str, history: Recorder) -> None:
        super().__init__(name, address, history)
        self._there: deque[str] = deque()
        self._made = 0

    def work(self, client: WireClient) -> None:
        if len(self._there) < TOPICS_MAX:
            self._create_another(client)
        else:
            self._delete_oldest(client)
        self.record("list_topics", "invoke")
        answer = client.request("Metadata", 5, {"topics": None, "allow_auto_topic_creation": False})
        listed = [each["name"] for each in answer["topics"] if not each["is_internal"]]
        self.record("list_topics", "ok", topics=listed)

    def _create_another(self, client: WireClient) -> None:
        self._made += 1
        topic = f"made-{self._made}"  # Unique: a lost response leaves no doubt.
        self.record("create", "invoke", topic=topic)
        wire_requests.create_topic(client, topic)
        self.record("create", "ok", topic=topic)
        self._there.append(topic)
        [name] = self.names((topic, 0), 1)
        what = {"topic": topic, "partition": 0, "values": [name], "delivery": "once"}
        self.record("send", "invoke", **what)
        code, offset = wire_requests.produce(client, topic, Batch([value_of(name)]).encode())
        assert code == 0, f"a new topic answers {code}"
        self.record("send", "ok", **what, offset=offset)

    def _delete_oldest(self, client: WireClient) -> None:
        topic = self._there.popleft()
        self.record("delete", "invoke", topic=topic)
        body = {"topic_names": [topic], "timeout_ms": 10_000}
        [answer] = client.request("DeleteTopics", 1, body)["responses"]
        if answer["error_code"] in RETRIABLE:
            raise ConnectionClosedError
        assert answer["error_code"] == 0, answer
        self.record("delete", "ok", topic=topic)


class EndsWorker(WireWorker):
    """Lists both ends of partitions repeatedly."""

    def __init__(self, name: str, address: str, history: Recorder, places: list[Place]) -> None:
        super().__init__(name, address, history)
        self._places = places

    def work(self, client: WireClient) -> None:
        topic, partition = self.random.choice(self._places)
        self.record("list_offsets", "invoke", topic=topic, partition=partition)
        answers = [wire_requests.list_offset(client, topic, partition, at) for at in (-2, -1)]
        if any(each["error_code"] in RETRIABLE for each in answers):
            raise ConnectionClosedError
        assert not any(each["error_code"] for each in answers), answers
        earliest, latest = (each["offset"] for each in answers)
        self.record(
            "list_offsets",
            "ok",
            topic=topic,
            partition=partition,
            earliest=earliest,
            latest=latest,
        )
