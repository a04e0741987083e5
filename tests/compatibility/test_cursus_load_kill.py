"""kill -9 under Cursus's load: what was acknowledged is there once, and committed offsets stay.

Batches and PUBLISH of a plain topic are sent once: each record is there or not, never twice. In an
idempotent topic they are sent again until they are acknowledged, batches out of their order too:
every record is there exactly once. A group reads the plain topic meanwhile; its members commit,
leave and join again.
"""

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker_process import POLL_INTERVAL_S, BrokerProcess
from tests.compatibility.cursus_members import JavaMember
from tests.compatibility.dialects import NotReadyError
from tests.compatibility.load import Acknowledged, Ledger, Worker, kill_again_and_again
from tests.cursus_client import CursusClient, Message, batch, read_batch

PLAIN, CHECKED = "plain", "checked"
BATCHES, TEXTS = 0, 1  # partitions of both topics: who sends batches, who sends PUBLISH
GROUP = "readers"
EPOCH = 7
IN_FLIGHT = 5
RECORDS_MAX = 9
LEAVES_ONE_IN = 20
CYCLES_SHARE = 2  # of those that the option asks for: this is one of several such tests
NOT_READY = (b"ERROR: NOT_LEADER ", b"ERROR: coordinator_not_available")


def value(producer: str, number: int) -> bytes:
    """Return what a producer writes: known beforehand, and a text can carry it."""
    size = random.Random(number).randrange(300)
    return b"%s,%d,%s" % (producer.encode(), number, b"x=m"[number % 3 :][:1] * size)


class CursusWorker(Worker):
    """Works on a connection of its own; when it breaks, on another one."""

    def __init__(self, name: str, address: str, ledger: Ledger) -> None:
        super().__init__(name, address)
        self.ledger = ledger
        self.random = random.Random(name)
        self.next = 1

    def live(self) -> None:
        try:
            with CursusClient(self.address) as client:
                while not self.is_stopping:
                    self.work(client)
        except (OSError, NotReadyError):
            time.sleep(POLL_INTERVAL_S)  # The broker is down, or not ready.

    def work(self, client: CursusClient) -> None:
        """Do some of it."""
        raise NotImplementedError

    def take_numbers(self, records_max: int) -> range:
        """The numbers of the next records."""
        first = self.next
        self.next += self.random.randint(1, records_max)
        return range(first, self.next)

    def acknowledged(self, numbers: range, answer: bytes | None, partition: int) -> None:
        """Write down where records stand; who is refused must not be."""
        if answer is None:
            raise ConnectionError("the broker is gone")
        if answer.startswith(NOT_READY):
            raise NotReadyError(answer)
        told = json.loads(answer)
        assert told["status"] == "OK", told
        first = told["last_offset"] - len(numbers) + 1
        self.ledger.write(Acknowledged(self.name, partition, numbers.start, len(numbers), first))


def batch_of(name: str, topic: str, numbers: range) -> bytes:
    messages = [
        Message(value(name, each), each, name.encode(), epoch=EPOCH, key=b"k") for each in numbers
    ]
    return batch(topic, BATCHES, messages)


def publish_of(name: str, topic: str, number: int) -> bytes:
    return b"PUBLISH topic=%s partition=%d producerId=%s seqNum=%d epoch=%d message=%s" % (
        topic.encode(),
        TEXTS,
        name.encode(),
        number,
        EPOCH,
        value(name, number),
    )


class OnceBatches(CursusWorker):
    """Some batches at once, and never one of them again."""

    def work(self, client: CursusClient) -> None:
        sent = [self.take_numbers(RECORDS_MAX) for _ in range(IN_FLIGHT)]
        for numbers in sent:
            client.send(batch_of(self.name, PLAIN, numbers))
        # All of them before it may leave for another connection, whose batches would overtake them.
        answers = [client.frame() for _ in sent]
        for numbers, answer in zip(sent, answers, strict=True):
            self.acknowledged(numbers, answer, BATCHES)


class OnceTexts(CursusWorker):
    """One PUBLISH after the other, and never one of them again."""

    def work(self, client: CursusClient) -> None:
        numbers = self.take_numbers(1)
        client.send(publish_of(self.name, PLAIN, numbers.start))
        self.acknowledged(numbers, client.frame(), TEXTS)


class AgainBatches(CursusWorker):
    """Some batches at once, which overtake each other, again until all are acknowledged."""

    unacknowledged: tuple[range, ...] = ()

    def work(self, client: CursusClient) -> None:
        if not self.unacknowledged:
            self.unacknowledged = tuple(self.take_numbers(RECORDS_MAX) for _ in range(IN_FLIGHT))
        sent = self.random.sample(self.unacknowledged, len(self.unacknowledged))
        for numbers in sent:
            client.send(batch_of(self.name, CHECKED, numbers))
        for numbers in sent:
            self.acknowledged(numbers, client.frame(), BATCHES)
            self.unacknowledged = tuple(each for each in self.unacknowledged if each != numbers)


class AgainTexts(CursusWorker):
    """One PUBLISH after the other, each again until it is acknowledged."""

    unacknowledged: range | None = None

    def work(self, client: CursusClient) -> None:
        numbers = self.unacknowledged = self.unacknowledged or self.take_numbers(1)
        client.send(publish_of(self.name, CHECKED, numbers.start))
        self.acknowledged(numbers, client.frame(), TEXTS)
        self.unacknowledged = None


# ---- the group -----------------------------------------------------------------------------------


class Commits:
    """The highest offset of each partition whose commit was acknowledged, to whomever."""

    def __init__(self) -> None:
        self._offsets = {BATCHES: 0, TEXTS: 0}
        self._lock = threading.Lock()

    def acknowledged(self, partition: int, offset: int) -> None:
        with self._lock:
            self._offsets[partition] = max(self._offsets[partition], offset)

    def of(self, partition: int) -> int:
        with self._lock:
            return self._offsets[partition]


class ReadingMember(JavaMember):
    """A member that says what the broker is not ready for."""

    def _ask(self, command: str) -> str:
        answer = super()._ask(command)
        if answer.encode().startswith(NOT_READY):
            raise NotReadyError(answer)
        return answer

    def leave(self) -> None:
        """Leave; who was taken for dead has left already."""
        answer = self._ask(f"LEAVE_GROUP {self._place} member={self.member_id}")
        assert answer.startswith("OK ") or self.must_rejoin(answer), answer

    def fetched(self, partition: int) -> int:
        """Return how far the group has read."""
        answer = self._ask(f"FETCH_OFFSET topic={PLAIN} partition={partition} group={GROUP}")
        return int(answer.removeprefix("OK offset="))

    def commit_at(self, partition: int, offset: int) -> bool:
        """Commit the next offset; False when others are further, or it had to join again."""
        answer = self._ask(f"BATCH_COMMIT {self._here} P{partition}:{offset}")
        if answer.startswith("OK"):
            return True
        if "offset_regression" not in answer:
            assert self.must_rejoin(answer), answer
            self.join()
        return False


class Reader(CursusWorker):
    """Reads what its member has been assigned, commits, and now and then leaves and joins again."""

    def __init__(self, name: str, address: str, ledger: Ledger, commits: Commits) -> None:
        super().__init__(name, address, ledger)
        self._commits = commits
        self._member = ReadingMember(address, PLAIN, GROUP, name)
        self._positions: dict[int, int] = {}
        self.read: dict[tuple[int, int], bytes] = {}

    def _join(self) -> None:
        self._member.join()
        self._begin()

    def _begin(self) -> None:
        """Go on where the group is."""
        self._positions = {}
        for partition in self._member.partitions:
            at_least = self._commits.of(partition)
            self._positions[partition] = self._member.fetched(partition)
            assert self._positions[partition] >= at_least, "an acknowledged commit is gone"

    def work(self, client: CursusClient) -> None:
        if not self._member.member_id:
            self._join()
        elif self.random.randrange(LEAVES_ONE_IN) == 0:
            self._member.leave()
            self._join()
        elif not self._member.beat():
            self._begin()  # it has joined again
        for partition, position in list(self._positions.items()):
            client.send(f"CONSUME topic={PLAIN} partition={partition} offset={position}")
            answer = client.frame()
            if answer is None or answer.startswith(NOT_READY):
                raise ConnectionError("the broker is gone, or not ready")
            messages = read_batch(answer).messages
            self.read |= {(partition, each.offset): each.payload for each in messages}
            if messages:
                self._commit(partition, messages[-1].offset + 1)

    def _commit(self, partition: int, offset: int) -> None:
        if self._member.commit_at(partition, offset):
            self._commits.acknowledged(partition, offset)
            self._positions[partition] = offset
            self.ledger.write(Acknowledged(self.name, partition, 0, 0, offset))
        else:
            self._begin()


# ---- the test ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_kill_dash_nine_loses_and_repeats_nothing_and_undoes_no_commit(
    start_broker: Callable[..., BrokerProcess],
    tmp_path: Path,
    durability: str,
    request: pytest.FixtureRequest,
) -> None:
    cycles = max(1, request.config.getoption("--kill-cycles") // CYCLES_SHARE)
    broker = start_broker(f"polylog.durability={durability}", "log.segment.bytes=262144")
    with CursusClient(broker.address) as client:
        for topic, idempotent in ((PLAIN, "false"), (CHECKED, "true")):
            created = client.ask(f"CREATE topic={topic} partitions=2 idempotent={idempotent}")
            assert created.startswith("OK "), created
    commits = Commits()
    with Ledger(tmp_path / "ledger.txt") as ledger:
        once = [
            OnceBatches("once-batches", broker.address, ledger),
            OnceTexts("once-texts", broker.address, ledger),
        ]
        again = [
            AgainBatches("again-batches-1", broker.address, ledger),
            AgainBatches("again-batches-2", broker.address, ledger),
            AgainTexts("again-texts", broker.address, ledger),
        ]
        readers = [Reader(f"reader-{n}", broker.address, ledger, commits) for n in (1, 2)]
        workers: list[Worker] = [*once, *again, *readers]
        for worker in workers:
            worker.start()
        kill_again_and_again(broker, ledger, workers, cycles)
        for worker in workers:
            worker.stop()
        acknowledged = list(ledger.read())

    check_once(broker.address, acknowledged, once)
    check_again(broker.address, acknowledged, again)
    check_group(broker.address, commits, readers)


def log_of(address: str, topic: str, partition: int) -> dict[int, bytes]:
    """Return a partition, whose offsets are dense."""

    def pages() -> Iterator[tuple[int, bytes]]:
        offset = 0
        with CursusClient(address) as client:
            while True:
                command = f"CONSUME topic={topic} partition={partition} offset={offset}"
                found = client.consume(command).messages
                if not found:
                    return
                yield from ((each.offset, each.payload) for each in found)
                offset = found[-1].offset + 1

    log = list(pages())
    assert [offset for offset, _ in log] == list(range(len(log)))
    return dict(log)


def numbers_of(log: dict[int, bytes], producer: str) -> list[int]:
    """Return the numbers of a producer's records, whose bytes are as it sent them."""
    found = []
    for each in log.values():
        if each.startswith(f"{producer},".encode()):
            number = int(re.split(b",", each, maxsplit=2)[1])
            assert each == value(producer, number)
            found.append(number)
    return found


def check_once(address: str, entries: list[Acknowledged], writers: list[CursusWorker]) -> None:
    """What was sent once is there at most once, in order; where it was told, if it was."""
    for partition, writer in zip((BATCHES, TEXTS), writers, strict=True):
        log = log_of(address, PLAIN, partition)
        numbers = numbers_of(log, writer.name)
        assert numbers == sorted(set(numbers)), f"{writer.name}: in order, each at most once"
        for entry in entries:
            if entry.producer == writer.name:
                for place in range(entry.count):
                    expected = value(writer.name, entry.first_number + place)
                    assert log[entry.base_offset + place] == expected, entry


def check_again(address: str, entries: list[Acknowledged], writers: list[CursusWorker]) -> None:
    """What was sent until it was acknowledged is there exactly once."""
    logs = {each: log_of(address, CHECKED, each) for each in (BATCHES, TEXTS)}
    for writer in writers:
        told = [entry for entry in entries if entry.producer == writer.name]
        count = sum(entry.count for entry in told)
        numbers = numbers_of(logs[told[0].partition], writer.name)
        acknowledged = {n for e in told for n in range(e.first_number, e.first_number + e.count)}
        assert len(numbers) == len(set(numbers)), f"{writer.name}: none twice"
        assert acknowledged <= set(numbers), f"{writer.name}: none missing"
        assert count == len(acknowledged)


def check_group(address: str, commits: Commits, readers: list[Reader]) -> None:
    """No acknowledged commit is undone, and what was read is what is there."""
    logs = {each: log_of(address, PLAIN, each) for each in (BATCHES, TEXTS)}
    member = ReadingMember(address, PLAIN, GROUP, "observer")
    for partition, log in logs.items():
        assert commits.of(partition) <= member.fetched(partition) <= len(log)
    for reader in readers:
        for (partition, offset), payload in reader.read.items():
            assert logs[partition][offset] == payload, f"{reader.name} read something else"
