"""Load for the kill -9 loop: producers and a committer that survive their broker, and a ledger.

A producer keeps up to `IN_FLIGHT` batches on the wire. When its connection breaks it sends what was
not acknowledged again, in order: an idempotent one under the same sequence numbers, so that each
record must be stored exactly once; a plain one without, so that a record may be there again, but
never missing. What was acknowledged goes into a ledger file outside the broker, after the answer.
"""

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from tests import wire_requests
from tests.broker_process import POLL_INTERVAL_S, BrokerProcess, wait_until
from tests.wire_client import ConnectionClosedError, WireClient
from tests.wire_records import Batch

IN_FLIGHT = 5
BATCH_RECORDS_MAX = 12
VALUE_BYTES_MAX = 2_000
RETRIABLE = {3, 5, 6, 7, 14, 15, 16}  # What a broker that has just started may answer.
BROKEN = (ConnectionClosedError, OSError)
LIFE_TIMEOUT_S = 120.0
ACKNOWLEDGED_PER_CYCLE = (20, 150)  # Requests; the kill comes at a random place between.


def value(producer: str, number: int) -> bytes:
    """Return the bytes of a producer's record: known beforehand, different each time."""
    size = random.Random(number).randrange(VALUE_BYTES_MAX)
    head = b"%s %d " % (producer.encode(), number)
    return head + head[-8:] * (size // 8)


@dataclass(frozen=True)
class Acknowledged:
    """A line of the ledger: these records of that producer stand from that offset on."""

    producer: str
    partition: int
    first_number: int
    count: int
    base_offset: int


class Ledger:
    """A file with a line per acknowledged batch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()
        self.lines = 0

    def write(self, entry: Acknowledged) -> None:
        """Add a line."""
        line = (
            f"{entry.producer} {entry.partition} {entry.first_number} {entry.count} "
            f"{entry.base_offset}\n"
        )
        with self._lock:
            self._file.write(line)
            self.lines += 1

    def read(self) -> Iterator[Acknowledged]:
        """Yield every line."""
        self._file.flush()
        for line in self._path.read_text().splitlines():
            producer, *numbers = line.split()
            yield Acknowledged(producer, *map(int, numbers))

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()


@dataclass
class Sent:
    """A batch that was not acknowledged yet."""

    first_number: int
    count: int
    records: bytes


class Worker(threading.Thread):
    """Something that goes on until it is told to stop, through any number of broker lives."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name=name, daemon=True)
        self.address = address
        self.failure: BaseException | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        """Live, and keep what ends it."""
        try:
            while not self._stopping.is_set():
                self.live()
        except BaseException as error:  # noqa: BLE001 - given to the test's own thread by `stop`
            self.failure = error

    def live(self) -> None:
        """Work until `is_stopping`, or until one must begin anew."""
        raise NotImplementedError

    @property
    def is_stopping(self) -> bool:
        """True once `stop` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Stop, wait, and raise what went wrong."""
        self._stopping.set()
        self.join(60)
        assert not self.is_alive(), f"{self.name} hangs"
        if self.failure is not None:
            raise self.failure


class WireWorker(Worker):
    """Works on a connection of the test's own; when it breaks, on another one."""

    def live(self) -> None:
        try:
            with WireClient(self.address) as client:
                self.work(client)
        except BROKEN:
            time.sleep(POLL_INTERVAL_S)  # The broker is down: ask again soon.

    def work(self, client: WireClient) -> None:
        """Use one connection until it breaks or `is_stopping`."""
        raise NotImplementedError


@dataclass
class Place:
    """Where a producer writes."""

    topic: str
    partition: int


class ProducerWorker(WireWorker):
    """Writes numbered records to one partition."""

    def __init__(
        self, name: str, address: str, place: Place, ledger: Ledger, *, idempotent: bool
    ) -> None:
        super().__init__(name, address)
        self._place = place
        self._ledger = ledger
        self._is_idempotent = idempotent
        self._identity: tuple[int, int] | None = None
        self._random = random.Random(name)
        self._next_number = 0
        self._unacknowledged: deque[Sent] = deque()

    def work(self, client: WireClient) -> None:
        if self._is_idempotent and self._identity is None:
            self._identity = wire_requests.init_producer_id(client)
        # One alone until the partition is served: it may become ready between two of the batches on
        # the wire, and refuse the first of them only.
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

    def _next_batch(self) -> Sent:
        first, count = self._next_number, self._random.randint(1, BATCH_RECORDS_MAX)
        self._next_number += count
        producer_id, epoch = self._identity or (-1, -1)
        batch = Batch(
            values=[value(self.name, number) for number in range(first, first + count)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=first if self._is_idempotent else -1,
        )
        return Sent(first, count, batch.encode())

    def _send(self, client: WireClient, sent: Sent) -> None:
        body = wire_requests.produce_body(
            self._place.topic, [(self._place.partition, sent.records)]
        )
        client.send("Produce", wire_requests.PRODUCE_VERSION, body)

    def _receive(self, client: WireClient) -> None:
        code, base_offset = wire_requests.produced(client.receive())
        if code in RETRIABLE:
            # What is behind it on the wire may fail as well: begin again from the oldest.
            raise ConnectionClosedError
        assert code == 0, f"{self.name} got error {code}"
        sent = self._unacknowledged.popleft()
        self._ledger.write(
            Acknowledged(
                self.name, self._place.partition, sent.first_number, sent.count, base_offset
            )
        )


@dataclass
class Commits:
    """What the broker has said about a group's offset so far."""

    attempted: int = 0
    acknowledged: int = 0
    lives: list[int] = field(default_factory=list)


class CommitWorker(WireWorker):
    """Commits ever higher offsets of one group, and looks at each new start whether one fell."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        super().__init__("committer", address)
        self._group = group
        self._topic = topic
        self.commits = Commits()

    def work(self, client: WireClient) -> None:
        if wire_requests.find_coordinator(client, self._group) in RETRIABLE:
            raise ConnectionClosedError
        self.check(client)
        while not self.is_stopping:
            self.commits.attempted += 1
            code = wire_requests.commit_offset(
                client, self._group, self._topic, self.commits.attempted
            )
            if code in RETRIABLE:
                raise ConnectionClosedError
            assert code == 0, f"commit got error {code}"
            self.commits.acknowledged = self.commits.attempted

    def check(self, client: WireClient) -> None:
        """Fail if the broker forgot an acknowledged commit or knows one that nobody made."""
        code, found = wire_requests.committed_offset(client, self._group, self._topic)
        if code in RETRIABLE:
            raise ConnectionClosedError
        assert code == 0, f"offset fetch got error {code}"
        found = max(found, 0)  # -1: nothing was ever committed.
        assert self.commits.acknowledged <= found <= self.commits.attempted
        self.commits.lives.append(found)


# ---- the loop ------------------------------------------------------------------------------------


def kill_again_and_again(
    broker: BrokerProcess, ledger: Ledger, workers: list[Worker], cycles: int
) -> None:
    """Kill and restart; in every life, the last one too, each dialect is acknowledged something."""
    moments = random.Random(cycles)
    for life in range(cycles + 1):
        before = Counter(each.producer for each in ledger.read())
        target = ledger.lines + moments.randint(*ACKNOWLEDGED_PER_CYCLE)
        wait_until(
            partial(_has_gone_on, ledger, target, before, workers),
            f"load goes on in life {life}",
            LIFE_TIMEOUT_S,
        )
        if life < cycles:
            broker.kill()
            broker.restart()
        assert not any(worker.failure for worker in workers), [w.failure for w in workers]


def _has_gone_on(ledger: Ledger, target: int, before: Counter[str], workers: list[Worker]) -> bool:
    if any(worker.failure for worker in workers):
        return True
    if ledger.lines < target:
        return False
    now = Counter(each.producer for each in ledger.read())
    return all(now[worker.name] > before[worker.name] for worker in workers)
