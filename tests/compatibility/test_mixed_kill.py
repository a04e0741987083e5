"""kill -9 while producers of every dialect write to one partition.

Every acknowledged record stands where it was told, once, for readers of every dialect. Kafka's
producer of today is idempotent and sends again what was not acknowledged; the others cannot know
whether it was written: they send nothing twice, so it is there or not, and never twice.
"""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker_process import POLL_INTERVAL_S, BrokerProcess
from tests.compatibility import load
from tests.compatibility.dialects import (
    DIALECTS,
    V1,
    Cursus,
    Door,
    MessageSets,
    NotReadyError,
    RustLog,
    RustLogJson,
    Writer,
)
from tests.compatibility.load import (
    Acknowledged,
    Ledger,
    Place,
    ProducerWorker,
    Worker,
    kill_again_and_again,
)
from tests.rustlog_client import ConnectionEndedError, RustLogClient

TOPIC = "ledger"
TODAYS = "todays"
# Who writes, and how many records at most in one request.
OTHERS: dict[str, tuple[Callable[[str], Writer], int]] = {
    "old": (MessageSets, 8),
    "v1": (V1, 1),
    "rustlog": (RustLog, 8),
    "json": (RustLogJson, 8),
    "cursus": (Cursus, 8),
}
BROKEN = (*load.BROKEN, ConnectionEndedError)
CYCLES_SHARE = 2  # of those that the option asks for: this is one of several such tests


def value(producer: str, number: int) -> bytes:
    """Return what a producer writes: known beforehand, and a line can carry it."""
    size = random.Random(number).randrange(300)
    return b"%s,%d,%s" % (producer.encode(), number, b"x,="[number % 3 :][:1] * size)


class OnceWorker(Worker):
    """Writes its numbers one after the other, and never one of them again."""

    def __init__(self, name: str, address: str, ledger: Ledger) -> None:
        super().__init__(name, address)
        self._connect, self._records_max = OTHERS[name]
        self._ledger = ledger
        self._random = random.Random(name)
        self._next = 0
        self.refused: set[bytes] = set()

    def live(self) -> None:
        try:
            client = self._connect(self.address)
        except OSError:
            time.sleep(POLL_INTERVAL_S)  # The broker is down.
            return
        try:
            while not self.is_stopping:
                self.work(client)
        except BROKEN:
            time.sleep(POLL_INTERVAL_S)
        finally:
            client.close()

    def work(self, client: Writer) -> None:
        """Send some records in one request; write down where they stand."""
        first, count = self._next, self._random.randint(1, self._records_max)
        self._next += count
        values = [value(self.name, number) for number in range(first, first + count)]
        try:
            offsets = client.write(TOPIC, values)
        except NotReadyError:
            self.refused.update(values)
            return
        assert offsets == list(range(offsets[0], offsets[0] + count))
        self._ledger.write(Acknowledged(self.name, 0, first, count, offsets[0]))


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_kill_dash_nine_loses_and_repeats_no_record_of_any_dialect(
    start_broker: Callable[..., BrokerProcess],
    tmp_path: Path,
    durability: str,
    request: pytest.FixtureRequest,
) -> None:
    cycles = max(1, request.config.getoption("--kill-cycles") // CYCLES_SHARE)
    broker = start_broker(f"polylog.durability={durability}", "log.segment.bytes=1048576")
    with RustLogClient(broker.address) as client:
        client.create(TOPIC)
    with Ledger(tmp_path / "ledger.txt") as ledger:
        place = Place(TOPIC, 0)
        once = [OnceWorker(name, broker.address, ledger) for name in OTHERS]
        workers: list[Worker] = [
            ProducerWorker(TODAYS, broker.address, place, ledger, idempotent=True),
            *once,
        ]
        for worker in workers:
            worker.start()
        kill_again_and_again(broker, ledger, workers, cycles)
        for worker in workers:
            worker.stop()
        acknowledged = list(ledger.read())

    log = read_through_every_door(broker.address)
    check_acknowledged(log, acknowledged)
    check_todays(log, acknowledged)
    for writer in once:
        check_once(log, writer)


def read_through_every_door(address: str) -> dict[int, bytes | None]:
    """Return the whole log, which is the same for everybody."""
    doors: dict[str, Door] = {name: connect(address) for name, connect in DIALECTS.items()}
    [last] = doors["V1"].write(TOPIC, [b"last"])
    logs = {name: door.read(TOPIC, last) for name, door in doors.items()}
    for door in doors.values():
        door.close()
    log = logs.pop("Kafka")
    assert sorted(log) == list(range(last + 1)), "offsets are dense"
    for name, other in logs.items():
        assert other == log, name
    return log


def check_acknowledged(log: dict[int, bytes | None], entries: list[Acknowledged]) -> None:
    """Every acknowledged record stands where it was told, with its bytes."""
    for entry in entries:
        make = load.value if entry.producer == TODAYS else value
        for place in range(entry.count):
            expected = make(entry.producer, entry.first_number + place)
            assert log[entry.base_offset + place] == expected, entry


def check_todays(log: dict[int, bytes | None], entries: list[Acknowledged]) -> None:
    """What is sent again until it is acknowledged is there once, in order, all of it."""
    mark = f"{TODAYS} ".encode()
    numbers = [int(v.split(b" ", 2)[1]) for v in log.values() if v and v.startswith(mark)]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) == sum(each.count for each in entries if each.producer == TODAYS)


def check_once(log: dict[int, bytes | None], writer: OnceWorker) -> None:
    """What was sent once is there at most once, in order; what was refused is not."""
    mark = f"{writer.name},".encode()
    values = [v for v in log.values() if v and v.startswith(mark)]
    numbers = [int(v.split(b",", 2)[1]) for v in values]
    assert numbers == sorted(set(numbers)), f"{writer.name}: in order, each at most once"
    assert not writer.refused & set(values), f"{writer.name}: refused, and written all the same"
