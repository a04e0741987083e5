"""kill -9 under V1's load: what was acknowledged stands where it was said, once, with its bytes.

V1 has no sequence numbers: a record whose answer was lost may be there or not. So nothing is sent
again, and each record is there at most once.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.broker_process import POLL_INTERVAL_S, BrokerProcess, wait_until
from tests.compatibility.load import Acknowledged, Ledger, Worker
from tests.compatibility.v1_sdks import SdkError, python_sdk, restored
from tests.line_client import LineClient

TOPIC = "ledger"
PIPELINED = 8  # Requests in flight.
PRODUCERS = ("alone", "together-1", "together-2", "all")
LIFE_TIMEOUT_S = 120.0
ACKNOWLEDGED_PER_CYCLE = (20, 400)


def value(producer: str, number: int) -> str:
    """Return what a producer writes: known beforehand, different each time."""
    size = random.Random(number).randrange(1_000)
    return f"{producer},{number}," + "x=,"[number % 3] * size


class LineProducer(Worker):
    """Writes its numbers one after the other, some at once, and never one of them again."""

    def __init__(self, name: str, address: str, ledger: Ledger, in_flight: int) -> None:
        """Write under this name, which is also the key."""
        super().__init__(name, address)
        self._ledger = ledger
        self._in_flight = in_flight
        self._acks = "all" if name == "all" else "1"
        self._next = 0

    def live(self) -> None:
        try:
            with LineClient(self.address) as client:
                while not self.is_stopping:
                    self.work(client)
        except OSError:
            time.sleep(POLL_INTERVAL_S)  # The broker is down.

    def work(self, client: LineClient) -> None:
        """Send some records; write down those that are acknowledged."""
        numbers = range(self._next, self._next + self._in_flight)
        self._next = numbers.stop
        client.send(
            "".join(
                f"V1|{each}|PRODUCE|{TOPIC} {self.name}:{value(self.name, each)}"
                f" acks={self._acks}\n"
                for each in numbers
            ).encode()
        )
        for each in numbers:
            line = client.line().decode()
            if not line.endswith("\n"):
                raise ConnectionResetError
            _, correlation_id, status, payload = line.split("|", 3)
            assert correlation_id == str(each)
            if status == "OK":
                partition, offset, _ = (int(word.partition("=")[2]) for word in payload.split())
                self._ledger.write(Acknowledged(self.name, partition, each, 1, offset))
            else:
                assert payload.startswith("NOT_LEADER|"), payload  # It still loads.


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_kill_dash_nine_loses_and_repeats_no_line(
    start_broker: Callable[..., BrokerProcess],
    tmp_path: Path,
    durability: str,
    request: pytest.FixtureRequest,
) -> None:
    cycles: int = request.config.getoption("--kill-cycles")
    broker = start_broker(f"polylog.durability={durability}", "log.segment.bytes=1048576")
    with Ledger(tmp_path / "ledger.txt") as ledger:
        producers = [
            LineProducer(name, broker.address, ledger, PIPELINED if "together" in name else 1)
            for name in PRODUCERS
        ]
        for producer in producers:
            producer.start()
        moments = random.Random(cycles)
        for cycle in range(cycles):
            target = ledger.lines + moments.randint(*ACKNOWLEDGED_PER_CYCLE)
            wait_until(
                partial(_has_gone_on, ledger, target, producers),
                f"load goes on after kill {cycle}",
                LIFE_TIMEOUT_S,
            )
            broker.kill()
            broker.restart()
        for producer in producers:
            producer.stop()
        acknowledged = list(ledger.read())

    logs = {partition: read_log(broker.address, partition) for partition in range(3)}
    for entry in acknowledged:
        found = logs[entry.partition].get(entry.base_offset)
        assert found == value(entry.producer, entry.first_number).encode(), entry
    for name in PRODUCERS:
        mark = f"{name},".encode()
        numbers = [
            int(each.split(b",", 2)[1])
            for log in logs.values()
            for each in log.values()
            if each.startswith(mark)
        ]
        assert numbers == sorted(set(numbers)), f"{name}: in order, each at most once"


def _has_gone_on(ledger: Ledger, target: int, producers: list[LineProducer]) -> bool:
    return ledger.lines >= target or any(each.failure for each in producers)


def read_log(address: str, partition: int) -> dict[int, bytes]:
    """Return every value of a partition, which has no holes."""
    values: dict[int, bytes] = {}
    with python_sdk(address) as sdk:
        wait_until(lambda: _is_loaded(sdk.consume, partition), "it has loaded")
        while found := restored(sdk.send("CONSUME", f"{TOPIC} {partition} {len(values)}")):
            values |= found
            assert list(values) == list(range(len(values))), "offsets are dense"
    return values


def _is_loaded(consume: Callable[[str, int, int], object], partition: int) -> bool:
    try:
        consume(TOPIC, partition, 0)
    except SdkError as error:
        if error.code != "NOT_LEADER":
            raise
        return False
    return True
