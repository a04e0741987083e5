"""The native leader and the native follower of partitions, each with its own logs and poller."""

import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.log.partition_log import PartitionLog
from broker._native.replication.fetcher import ReplicaEvent, ReplicaFetcher
from tests.support.native_log import TOPIC_ID, appended, records
from tests.support.replica_side import Side

LEADER, FOLLOWER = 1, 2
FOLLOWER_EPOCH = 70
EPOCH = 3
DEADLINE_SECONDS = 30


class Pair:
    """A leader and a follower of as many partitions as a test wants."""

    def __init__(self, path: Path) -> None:
        self.leader = Side(path / "leader")
        self.follower = Side(path / "follower")
        self.lost: list[str] = []
        self.fetcher = ReplicaFetcher(
            self.follower.logs.turn,
            FOLLOWER,
            FOLLOWER_EPOCH,
            None,
            self.lost.append,
            wait_ms=500,
            bytes_min=1,
            bytes_max=10 << 20,
            partition_bytes_max=1 << 20,
            timeout_ms=30_000,
        )
        self.leader.wire.table.brokers = {LEADER: 10, FOLLOWER: FOLLOWER_EPOCH}

    def begin(self, count: int = 1) -> None:
        """Copy this many partitions."""
        for side in (self.leader, self.follower):
            side.create(count)
        self.leader.wire.serve(*self.leader.found)
        for log in self.leader.found:
            log.lead(EPOCH, LEADER, [LEADER, FOLLOWER], [LEADER, FOLLOWER])
        for number in range(count):
            self.copy(number)
        self.connect()

    def copy(self, number: int, epoch: int = EPOCH) -> None:
        log = self.follower.found[number]
        log.follow(epoch)
        self.fetcher.add(log, TOPIC_ID, number, epoch)

    def connect(self) -> None:
        near, far = socket.socketpair()
        for each in (near, far):
            each.setblocking(False)
        self.leader.wire.poller.add(near.detach(), "follower", None)
        self.fetcher.connect(self.follower.wire.poller, far.detach(), "leader")

    def run_until(self, *logs: PartitionLog) -> None:
        """Run both until everything is copied, and known to the leader."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while any(log.high_watermark < log.log_end_offset for log in logs or self.leader.found):
            assert time.monotonic() < deadline, "not copied in time"
            self.run()

    def run(self) -> None:
        self.leader.wire.run()
        self.follower.wire.run()
        time.sleep(0)

    def events(self) -> list[tuple[ReplicaEvent, int, int, int, int]]:
        return [
            (kind, log.partition, epoch, first, second)
            for kind, log, epoch, first, second in self.fetcher.take_events()
            if log is not None
        ]

    def close(self) -> None:
        self.fetcher.close("the test is over")
        self.follower.close()
        self.leader.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


def same(pair: Pair) -> bool:
    """Whether the logs have the same bytes; those of the follower up to where they are visible."""
    for mine, theirs in zip(pair.leader.found, pair.follower.found, strict=True):
        if theirs.log_end_offset != mine.log_end_offset:
            return False
        folders = [Path(each.folder) for each in (mine, theirs)]
        if len({b"".join(_segments(each)) for each in folders}) != 1:
            return False
    return True


def _segments(folder: Path) -> list[bytes]:
    return [each.read_bytes().rstrip(b"\0") for each in sorted(folder.glob("*.log"))]


def test_what_the_leader_appends_is_acknowledged_by_its_follower(pair: Pair) -> None:
    pair.begin()
    (log,) = pair.leader.found

    for _ in range(3):
        appended(log, records(2))
        assert log.high_watermark < log.log_end_offset
        pair.run_until()

    assert same(pair)
    assert pair.follower.found[0].durable_end == 6
    assert pair.events() == []


def test_a_follower_learns_the_high_watermark_with_the_next_records(pair: Pair) -> None:
    pair.begin()
    appended(pair.leader.found[0], records())
    pair.run_until()
    assert pair.follower.found[0].high_watermark == 0

    appended(pair.leader.found[0], records())
    pair.run_until()

    assert pair.follower.found[0].high_watermark == 1


def test_a_follower_deletes_what_its_leader_does_and_tells_it(pair: Pair) -> None:
    pair.begin(2)
    for log in pair.leader.found:
        appended(log, records(3))
        appended(log, records(3))
    pair.run_until()
    called: list[bool] = []

    for number in (0, 1):
        pair.leader.found[number].move_log_start(2 + number)
        pair.leader.found[number].when_start_copied(2 + number, called.append)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(called) < 2:
        assert time.monotonic() < deadline
        pair.run()

    assert called == [True, True]
    assert [each.log_start_offset for each in pair.follower.found] == [2, 3]
    assert pair.events() == []


def test_a_partition_that_is_added_while_a_request_is_parked_is_copied_at_once(
    pair: Pair,
) -> None:
    pair.begin(2)
    pair.fetcher.remove(TOPIC_ID, 1)
    appended(pair.leader.found[0], records())
    pair.run_until(pair.leader.found[0])
    appended(pair.leader.found[1], records())
    pair.run()
    began = time.monotonic()

    pair.copy(1)
    pair.run_until()

    assert time.monotonic() - began < 0.4
    assert same(pair)


def test_many_partitions_are_all_copied_however_little_an_answer_holds(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.fetcher = ReplicaFetcher(
        pair.follower.logs.turn,
        FOLLOWER,
        FOLLOWER_EPOCH,
        None,
        None,
        wait_ms=500,
        bytes_min=1,
        bytes_max=1_000,
        partition_bytes_max=1_000,
        timeout_ms=30_000,
    )
    pair.begin(20)
    for _ in range(10):
        for log in pair.leader.found:
            appended(log, records(size=400))
    pair.run_until()

    assert same(pair)
    pair.close()


def test_a_follower_with_another_history_is_told_where_it_diverges(pair: Pair) -> None:
    pair.begin()
    (log,) = pair.leader.found
    appended(log, records(3))
    pair.run_until()
    pair.fetcher.remove(TOPIC_ID, 0)
    (copy,) = pair.follower.found
    copy.lead(EPOCH + 1, FOLLOWER, [FOLLOWER], [FOLLOWER])
    appended(copy, records(2))
    pair.follower.logs.sync(copy)
    log.lead(EPOCH + 2, LEADER, [LEADER, FOLLOWER], [LEADER])
    appended(log, records(4))
    pair.run()

    pair.copy(0, EPOCH + 2)
    deadline = time.monotonic() + DEADLINE_SECONDS
    events = pair.events()
    while not events and time.monotonic() < deadline:
        pair.run()
        events = pair.events()

    assert events == [(ReplicaEvent.DIVERGING, 0, EPOCH + 2, EPOCH, 3)]


def test_a_follower_of_an_old_epoch_is_refused(pair: Pair) -> None:
    pair.begin()
    pair.leader.found[0].lead(EPOCH + 1, LEADER, [LEADER, FOLLOWER], [LEADER, FOLLOWER])
    deadline = time.monotonic() + DEADLINE_SECONDS
    events = pair.events()
    while not events and time.monotonic() < deadline:
        pair.run()
        events = pair.events()

    assert events == [(ReplicaEvent.ERROR, 0, EPOCH, 74, 0)]
    pair.copy(0, EPOCH + 1)
    appended(pair.leader.found[0], records())
    pair.run_until()
    assert same(pair)


@pytest.mark.parametrize("seed", range(5))
def test_logs_are_the_same_whatever_happens_to_connections_and_partitions(
    pair: Pair, seed: int
) -> None:
    chance = random.Random(seed)
    pair.begin(8)
    for _ in range(300):
        number = chance.randrange(8)
        kind = chance.random()
        if kind < 0.6:
            appended(pair.leader.found[number], records(chance.randrange(1, 5), size=300))
        elif kind < 0.7:
            pair.fetcher.remove(TOPIC_ID, number)
        elif kind < 0.85:
            pair.copy(number)
        elif kind < 0.9:
            pair.fetcher.close("planted")
            pair.connect()
        elif kind < 0.93:
            large = records(size=200_000)
            appended(pair.leader.found[number], large)
        for _ in range(chance.randrange(3)):
            pair.run()
    for number in range(8):
        pair.copy(number)
    pair.run_until()

    assert same(pair)
    assert pair.events() == []
