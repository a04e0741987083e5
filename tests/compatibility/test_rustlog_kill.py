"""kill -9 under RustLog's load, over and over: every acknowledged record is where it was told."""

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.broker_process import POLL_INTERVAL_S, BrokerProcess, wait_until
from tests.rustlog_client import ConnectionEndedError, RefusedError, RustLogClient

TOPIC = "ledger"
PARTITIONS = 2
CYCLES_MAX = 5
ACKNOWLEDGED_PER_CYCLE = (20, 300)
LIFE_TIMEOUT_S = 120.0
BROKEN = (ConnectionEndedError, OSError)

StartBroker = Callable[..., BrokerProcess]


class Writer(threading.Thread):
    """Writes numbered records to one partition, and remembers what was acknowledged."""

    def __init__(self, name: str, address: str, partition: int, *, is_json: bool) -> None:
        """Write through any number of broker lives, until it is told to stop."""
        super().__init__(name=name, daemon=True)
        self.address = address
        self.partition = partition
        self.is_json = is_json
        self.told: dict[int, bytes] = {}
        self.batches = 0
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self._number = 0
        self._random = random.Random(name)

    def run(self) -> None:
        """Live, and keep what ends it."""
        try:
            while not self.stopping.is_set():
                try:
                    with RustLogClient(self.address) as client:
                        self._write(client)
                except BROKEN:
                    time.sleep(POLL_INTERVAL_S)
                except RefusedError as error:
                    if "still loading" not in error.text:
                        raise
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            self.failure = error

    def _write(self, client: RustLogClient) -> None:
        while not self.stopping.is_set():
            count = self._random.randint(1, 20)
            values = [
                b"%s %d %s" % (self.name.encode(), self._number + i, b"." * (self._number % 500))
                for i in range(count)
            ]
            self._number += count
            first = self._produce(client, values)
            if first is not None:
                self.told.update(enumerate(values, first))
                self.batches += 1

    def _produce(self, client: RustLogClient, values: list[bytes]) -> int | None:
        if not self.is_json:
            return client.produce(TOPIC, values, self.partition)
        records = [list(each) for each in values]
        fields = {"topic": TOPIC, "partition": self.partition, "records": records}
        answer: Any = client.ask_json({"Produce": fields})
        if "Error" in answer:
            assert "still loading" in answer["Error"]["message"]
            return None
        offsets = answer["Produce"]["offsets"]
        assert offsets == list(range(offsets[0], offsets[0] + len(values)))
        return int(offsets[0])


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_kill_dash_nine_loses_and_moves_nothing(
    start_broker: StartBroker, durability: str, request: pytest.FixtureRequest
) -> None:
    cycles = min(CYCLES_MAX, request.config.getoption("--kill-cycles"))
    broker = start_broker(f"polylog.durability={durability}", "log.segment.bytes=11534336")
    with RustLogClient(broker.address) as client:
        client.create(TOPIC, PARTITIONS)
    writers = [
        Writer(f"writer-{i}", broker.address, i % PARTITIONS, is_json=i == 3) for i in range(4)
    ]
    for writer in writers:
        writer.start()
    moments = random.Random(cycles)
    for _ in range(cycles):
        target = sum(each.batches for each in writers) + moments.randint(*ACKNOWLEDGED_PER_CYCLE)
        wait_until(
            lambda target=target: (  # type: ignore[misc]
                sum(each.batches for each in writers) >= target
                or any(each.failure for each in writers)
            ),
            "load goes on",
            LIFE_TIMEOUT_S,
        )
        broker.kill()
        broker.restart()
    for writer in writers:
        writer.stopping.set()
        writer.join(LIFE_TIMEOUT_S)
    assert not any(each.failure for each in writers), [each.failure for each in writers]

    with RustLogClient(broker.address) as client:
        for writer in writers:
            found = client.read_all(TOPIC, partition=writer.partition)
            assert {offset: found.get(offset) for offset in writer.told} == writer.told
            mark = writer.name.encode() + b" "
            numbers = [int(v.split(b" ")[1]) for v in found.values() if v.startswith(mark)]
            assert numbers == sorted(set(numbers)), "each record once, in order"
            assert len(writer.told) > 0
