"""A leader and the replica of its partitions, after any past: the copy is what the leader has."""

from random import Random
from typing import NamedTuple

import pytest

from tests.support.batches import header
from tests.support.native_log import Logs, batches, records
from tests.support.native_replica import (
    LEADER,
    REPLICA,
    REPLICA_EPOCH,
    WAIT_MS,
    Replica,
    answered,
    lead,
    wanted,
)
from tests.support.native_wire import Fields, Wire, produce
from tests.support.run_seed import seeds_of_run

PARTITIONS = 4
ANSWER_BYTES_MAX = 60_000  # two answers are within the buffer of a socket
STEPS = 150
RUNS = 20


class Copied(NamedTuple):
    """A batch that the replica has."""

    end_offset: int
    epoch: int
    data: bytes


class Past:
    """Random events of a leader and its replica; what each answer says is checked at once."""

    def __init__(self, logs: Logs, random: Random) -> None:
        """Begin with empty partitions, led by broker 1 in epoch 0."""
        self.random = random
        self.wire = Wire(logs)
        self.logs = [logs.create(number, is_group_commit=False) for number in range(PARTITIONS)]
        self.wire.serve(*self.logs)
        self.wire.table.brokers = {LEADER: 10, REPLICA: REPLICA_EPOCH}
        self.epochs = [0] * PARTITIONS
        for log in self.logs:
            lead(log)
        self.producer = self.wire.connect()
        self.written = 0
        self.copies: list[list[Copied]] = [[] for _ in range(PARTITIONS)]
        self.connect()

    def connect(self) -> None:
        """Begin a connection and a session, in which every partition has to be named."""
        self.replica = Replica(self.wire)
        self.unnamed = set(range(PARTITIONS))
        self.waiting = 0

    def end(self, number: int) -> int:
        """Return the end of a copy."""
        return self.copies[number][-1].end_offset if self.copies[number] else 0

    def position(self, number: int) -> Fields:
        """Return how the replica names a partition."""
        copy = self.copies[number]
        last = copy[-1].epoch if copy else -1
        return wanted(number, self.end(number), epoch=self.epochs[number], last=last)

    def step(self) -> None:
        """Let one thing happen."""
        number = self.random.randrange(PARTITIONS)
        match self.random.choice(["write", "write", "fetch", "fetch", "elect", "lose", "break"]):
            case "write":
                batch = records(self.random.randint(1, 3), size=self.random.choice([8, 9_000]))
                self.producer.send(produce(9, (number, batch)))
                self.written += 1
            case "fetch":
                self.fetch()
            case "elect":
                self.epochs[number] += 1
                lead(self.logs[number], epoch=self.epochs[number])
                self.wire.run()
                self.unnamed.add(number)
            case "lose" if self.copies[number]:
                # It has not reported its last batch, which its disk does not have yet.
                if self.end(number) > self.logs[number].high_watermark:
                    self.copies[number].pop()
                    self.unnamed.add(number)
            case "break" if self.random.random() < 0.2:
                self.replica.client.close()
                self.connect()
        self.take()

    def fetch(self) -> None:
        """Report positions, after the copies of the last answer, or poke the request that waits."""
        named = sorted(self.unnamed)
        self.unnamed.clear()
        self.replica.send(
            *(self.position(number) for number in named),
            max_wait_ms=self.random.choice([0, WAIT_MS]),
            max_bytes=self.random.choice([1, 20_000, ANSWER_BYTES_MAX]),
        )
        self.waiting += 1

    def take(self) -> None:
        """Append what has arrived; the partitions with records have to be named again."""
        for frame in self.replica.client.frames():
            self.waiting -= 1
            body = self.replica.take(frame)
            assert body["error_code"] == 0
            for number, found in answered(body).items():
                if found["error_code"] == 74:
                    continue  # asked for in an earlier epoch: it has been named again since
                assert found["error_code"] == 0
                assert found["diverging_epoch"]["epoch"] == -1
                self.append(number, found["records"])
        assert self.waiting <= 1
        for number, log in enumerate(self.logs):
            assert log.high_watermark <= self.end(number)

    def append(self, number: int, data: bytes) -> None:
        """Append the batches after the end of the copy: an answer may repeat what it has."""
        for batch in batches(data):
            told = header(batch)
            if told.base_offset < self.end(number):
                continue
            assert told.base_offset == self.end(number)
            epoch = int.from_bytes(batch[12:16])
            self.copies[number].append(Copied(told.last_offset + 1, epoch, batch))
            self.unnamed.add(number)

    def finish(self) -> None:
        """Copy until nothing is left to copy, and report that."""
        for _ in range(10 * STEPS):
            self.fetch()
            self.take()
            if not self.unnamed and all(
                self.end(number) == log.log_end_offset == log.high_watermark
                for number, log in enumerate(self.logs)
            ):
                break


@pytest.mark.parametrize("run", range(RUNS))
def test_after_any_past_a_replica_has_the_bytes_of_its_leader(
    logs: Logs, pytestconfig: pytest.Config, run: int
) -> None:
    past = Past(logs, Random(seeds_of_run(pytestconfig, "replica pasts") + run))
    for _ in range(STEPS):
        past.step()

    past.finish()

    for log, copy in zip(past.logs, past.copies, strict=True):
        assert b"".join(each.data for each in copy) == log.read_for_replica(0, 1 << 30)
        assert log.high_watermark == log.log_end_offset
    assert len(past.producer.frames()) == past.written
    past.wire.close()
