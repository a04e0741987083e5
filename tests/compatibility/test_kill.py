"""kill -9 under load, over and over: what was acknowledged is there, in order, with its bytes.

The page cache outlives the process, so this proves recovery and acknowledgements, for both
durability words; what a power cut takes away is another test's subject.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests import wire_requests
from tests.broker_process import BrokerProcess, wait_until
from tests.compatibility.load import (
    Acknowledged,
    CommitWorker,
    Ledger,
    Place,
    ProducerWorker,
    value,
)
from tests.wire_client import WireClient
from tests.wire_records import ReadBatch, read_batches

TOPIC = "ledger"
GROUP = "committed"
PARTITIONS = 4
# Each partition has its own mix, so that idempotent and plain batches meet in one log.
PRODUCERS = {"once-0": 0, "plain-0": 0, "once-1": 1, "plain-2": 2, "once-3": 3}
ACKNOWLEDGED_PER_CYCLE = (5, 150)  # Batches; the kill comes at a random place between.
LIFE_TIMEOUT_S = 120.0

StartBroker = Callable[..., BrokerProcess]


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_kill_dash_nine_loses_and_repeats_nothing(
    start_broker: StartBroker,
    tmp_path: Path,
    durability: str,
    request: pytest.FixtureRequest,
) -> None:
    cycles: int = request.config.getoption("--kill-cycles")
    # The smallest segments there are: rolls happen under fire too.
    broker = start_broker(f"polylog.durability={durability}", "log.segment.bytes=1048576")
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, TOPIC, PARTITIONS)
    committer = CommitWorker(broker.address, GROUP, TOPIC)
    with Ledger(tmp_path / "ledger.txt") as ledger:
        producers = [
            ProducerWorker(
                name, broker.address, Place(TOPIC, partition), ledger, idempotent="once" in name
            )
            for name, partition in PRODUCERS.items()
        ]
        workers: list[ProducerWorker | CommitWorker] = [committer, *producers]
        for worker in workers:
            worker.start()
        producer_ids = kill_again_and_again(broker, ledger, workers, cycles)
        for worker in workers:
            worker.stop()
        acknowledged = list(ledger.read())

    assert len(set(producer_ids)) == cycles, "a producer id was issued twice"
    assert len(committer.commits.lives) >= cycles, "commits were looked at in each life"
    assert committer.commits.acknowledged >= cycles
    with WireClient(broker.address) as client:
        committer.check(client)
        logs = {partition: read_log(client, partition) for partition in range(PARTITIONS)}
    for name, partition in PRODUCERS.items():
        of_producer = [entry for entry in acknowledged if entry.producer == name]
        check_producer(logs[partition], of_producer, once="once" in name)


def _has_gone_on(
    ledger: Ledger, target: int, looks: int, workers: Sequence[ProducerWorker | CommitWorker]
) -> bool:
    """Whether enough was acknowledged and the commits were looked at once more, or all is over."""
    has_looked = all(
        len(worker.commits.lives) > looks for worker in workers if isinstance(worker, CommitWorker)
    )
    return (ledger.lines >= target and has_looked) or any(worker.failure for worker in workers)


def kill_again_and_again(
    broker: BrokerProcess,
    ledger: Ledger,
    workers: Sequence[ProducerWorker | CommitWorker],
    cycles: int,
) -> list[int]:
    """Kill and restart under load; return a producer id that each life issued."""
    moments = random.Random(cycles)
    producer_ids = []
    [committer] = [worker for worker in workers if isinstance(worker, CommitWorker)]
    looks = 0
    for cycle in range(cycles):
        with WireClient(broker.address) as client:
            producer_ids.append(wire_requests.init_producer_id(client)[0])
        target = ledger.lines + moments.randint(*ACKNOWLEDGED_PER_CYCLE)
        wait_until(
            partial(_has_gone_on, ledger, target, looks, workers),
            f"load goes on after kill {cycle}",
            LIFE_TIMEOUT_S,
        )
        broker.kill()
        looks = len(committer.commits.lives)
        broker.restart()
        assert not any(worker.failure for worker in workers), [w.failure for w in workers]
    return producer_ids


def read_log(client: WireClient, partition: int) -> list[bytes | None]:
    """Return every value of a partition, which has no holes."""
    values: list[bytes | None] = []
    for batch in batches_of(client, partition):
        assert batch.base_offset == len(values), "offsets are dense"
        values += batch.values
    return values


def batches_of(client: WireClient, partition: int) -> Iterator[ReadBatch]:
    """Yield every batch of a partition."""
    end = wire_requests.end_offset(client, TOPIC, partition)
    offset = 0
    while offset < end:
        batches = list(read_batches(wire_requests.fetch(client, TOPIC, partition, offset)))
        assert batches, f"nothing at {offset} of {end}"
        yield from batches
        offset = batches[-1].base_offset + len(batches[-1].values)


def check_producer(log: list[bytes | None], entries: list[Acknowledged], *, once: bool) -> None:
    """Compare a producer's part of a log with its part of the ledger."""
    name = entries[0].producer
    for entry in entries:
        expected = [value(name, entry.first_number + place) for place in range(entry.count)]
        found = log[entry.base_offset : entry.base_offset + entry.count]
        assert found == expected, f"{entry} is not what stands there"

    mark = f"{name} ".encode()
    numbers = [int(v.split(b" ", 2)[1]) for v in log if v is not None and v.startswith(mark)]
    if once:
        assert numbers == list(range(len(numbers))), f"{name}: each record once, in order"
    else:
        first_seen = list(dict.fromkeys(numbers))
        assert first_seen == sorted(first_seen), f"{name}: records in order, repeated or not"
    acknowledged_count = sum(entry.count for entry in entries)
    assert len(set(numbers)) >= acknowledged_count
