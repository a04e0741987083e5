"""Streams whose partition moves to another directory of the broker while they are used."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.compatibility.cursus.event_stores import EventStore
from tests.compatibility.cursus.test_event_streams_kill import FILE, append
from tests.compatibility.operation.test_log_dirs import (
    NONE,
    directories,
    futures,
    move,
    on_two_disks,
    throttle,
)
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import WireClient

TOPIC = "t"
KEYS = [f"key{number}" for number in range(16)]
MOVES = 2
KILLS = 3


class Clients:
    """One that appends to all streams, and one that reads them: no request may fail."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.acknowledged = dict.fromkeys(KEYS, 0)
        self.sent = dict.fromkeys(KEYS, 0)
        self.reads = 0
        self.is_done = threading.Event()
        self.failures: list[str] = []

    def fill(self, count: int) -> None:
        """Append events to each stream."""
        with EventStore(self.address, TOPIC) as store:
            for _ in range(count):
                for key in KEYS:
                    self.sent[key] += 1
                append(store.connection, store, [*self.sent.items()])
                for key in KEYS:
                    answer = store.connection.frame() or b""
                    assert answer.startswith(b"OK version=%d " % self.sent[key])
            self.acknowledged = dict(self.sent)

    def append(self) -> None:
        """Append until it is done."""
        with EventStore(self.address, TOPIC) as store:
            while not self.is_done.is_set():
                for key in KEYS:
                    version = self.sent[key] = self.acknowledged[key] + 1
                    store.append(key, version, f"{key}-{version}")
                    self.acknowledged[key] = version

    def read(self) -> None:
        """Read until it is done."""
        with EventStore(self.address, TOPIC) as store:
            while not self.is_done.is_set():
                self.read_each(store)

    def read_each(self, store: EventStore) -> None:
        """Check that each stream has all events, once and in order."""
        for key in KEYS:
            least = self.acknowledged[key]
            versions = [each.aggregate_version for each in store.read(key).events]
            assert versions == [*range(1, len(versions) + 1)], (key, versions)
            assert least <= len(versions) <= self.sent[key], (key, least, len(versions))
            assert len(versions) <= store.version(key) <= self.sent[key], key
            self.reads += 1

    def until_further(self, reads: int, appended: int) -> None:
        """Wait until there are more reads and more events, or a client has failed."""

        def is_further() -> bool:
            return self.reads > reads and sum(self.acknowledged.values()) > appended

        wait_until(lambda: is_further() or bool(self.failures), "the clients go on")

    def watched(self, work: Callable[[], None]) -> threading.Thread:
        """Start a client whose failure is kept; once it is done, its broker may have gone."""

        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 (the test raises it)
                if not self.is_done.is_set():
                    self.failures.append(repr(error))

        thread = threading.Thread(target=run)
        thread.start()
        return thread


def started(tmp_path: Path, durability: str = "group-commit") -> tuple[BrokerProcess, list[Path]]:
    """Start a broker with two directories, and a topic; that of its partition is the first."""
    broker, more = on_two_disks(BrokerProcess(tmp_path))
    broker.settings = (f"polylog.durability={durability}",)
    broker.start()
    with EventStore(broker.address, TOPIC) as store:
        store.create(1)
    with WireClient(broker.address) as client:
        is_there = bool(directories(client)["more"][1])
    return broker, [more, broker.data_dir] if is_there else [broker.data_dir, more]


def assert_alone_in(place: Path, other: Path) -> None:
    """Check that nothing of the partition is left elsewhere."""
    wait_until(
        lambda: (
            {each.name for each in place.glob(f"{TOPIC}-*")} == {f"{TOPIC}-0"}
            and not list(other.glob(f"{TOPIC}-*"))
        ),
        "the old folder is removed",
    )
    assert (place / f"{TOPIC}-0" / FILE).exists()


def test_streams_are_appended_to_and_read_while_they_move(tmp_path: Path) -> None:
    broker, places = started(tmp_path)
    clients = Clients(broker.address)
    clients.fill(40)
    running = [clients.watched(clients.append), clients.watched(clients.read)]
    try:
        with WireClient(broker.address) as client:
            for _ in range(MOVES):
                read, sent = clients.reads, sum(clients.acknowledged.values())
                here, there = places
                assert move(client, 0, there) == NONE

                def has_moved(there: Path = there) -> bool:
                    return directories(client)[there.name] == (NONE, {0}) and not futures(client)

                wait_until(has_moved, "it has moved")
                assert_alone_in(there, here)
                clients.until_further(read + len(KEYS), sent)
                assert clients.failures == []
                places.reverse()
    finally:
        clients.is_done.set()
        for each in running:
            each.join()
    assert clients.failures == []

    broker.kill()
    broker.start()
    with EventStore(broker.address, TOPIC) as store:
        clients.read_each(store)
    clients.fill(1)
    broker.stop()
    broker.check()


@pytest.mark.parametrize("durability", ["group-commit", "os"])
def test_a_kill_at_any_time_of_a_move_leaves_all_events(tmp_path: Path, durability: str) -> None:
    rng = random.Random(durability)
    broker, places = started(tmp_path, durability)
    clients = Clients(broker.address)
    clients.fill(20)
    for _ in range(KILLS):
        clients.is_done.clear()
        running = [clients.watched(clients.append), clients.watched(clients.read)]
        with WireClient(broker.address) as client:
            throttle(client, rng.choice(("20000", "9223372036854775807")))
            here = next(each for each in places if directories(client)[each.name][1])
            [there] = {*places} - {here}
            with suppress(ConnectionError):
                assert move(client, 0, there) == NONE
            time.sleep(rng.random() * 0.05)
            clients.is_done.set()
            broker.kill()
        for each in running:
            each.join()
        assert clients.failures == []

        broker.start()

        with EventStore(broker.address, TOPIC) as store:
            clients.read_each(store)
            for key in KEYS:
                clients.acknowledged[key] = clients.sent[key] = store.version(key)
        clients.fill(1)
    with WireClient(broker.address) as client:
        throttle(client, "9223372036854775807")
        wait_until(lambda: not futures(client), "the last move ends")
        here = next(each for each in places if directories(client)[each.name][1])
    [there] = {*places} - {here}
    assert_alone_in(here, there)
    with EventStore(broker.address, TOPIC) as store:
        clients.read_each(store)
    broker.stop()
    broker.check()
