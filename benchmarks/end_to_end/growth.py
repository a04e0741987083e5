"""The growth of costs with the number of partitions: `make bench SUITE=growth`.

The same steps run with 10, 100, 1,000 and 10,000 partitions, ten per topic, one record in each. The
goal of a cost is constant or linear growth. The exponent is fitted over the three largest sizes, in
which fixed costs are small. The cost of requests is processor time of the broker, because the
machine is shared; that of starts and stops is wall time, because they wait for the disk.
"""

import math
import shutil
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.end_to_end import machine
from benchmarks.end_to_end import sizes as sizes_of
from benchmarks.end_to_end.blocking_client import Client, check, start, stop
from benchmarks.end_to_end.targets import Target
from broker import codec

SIZES = (10, 100, 1_000, 10_000)
PARTITIONS_PER_TOPIC = 10
TOPICS_PER_REQUEST = 100
REQUESTS = 200  # of each kind, for a mean
METADATA_OF_ALL_REQUESTS = 10
FITTED_SIZES = 3
TOLERANCE = 0.2  # of an exponent, for the noise of a shared machine
NOT_LEADER = 6
BACKOFF_SECONDS = 0.02  # before a retry for a partition that is not ready
VALUE = b"x" * 100


@dataclass(frozen=True)
class Cost:
    """A row of the table: a cost and its allowed growth."""

    name: str
    unit: str
    exponent: int  # 0: constant; 1: linear in the number of partitions


START_CLEAN = Cost("start after a clean stop, until all accept", "s", 1)
START_KILLED = Cost("start after kill -9, until all accept", "s", 1)
STOP = Cost("clean stop, a new record in each", "s", 1)
STOP_IDLE = Cost("clean stop, nothing changed", "s", 1)
MEMORY_NEW = Cost("private memory per partition, not used", "KB", 0)
MEMORY_USED = Cost("private memory per partition, a record in each", "KB", 0)
MEMORY_LOADED = Cost("private memory per partition, loaded and idle", "KB", 0)
METADATA_ALL = Cost("Metadata of all topics, CPU", "ms", 1)
METADATA_ONE = Cost("Metadata of one topic, CPU", "us", 0)
PRODUCE = Cost("one produce, CPU", "us", 0)
COSTS = (
    START_CLEAN,
    START_KILLED,
    STOP,
    STOP_IDLE,
    MEMORY_NEW,
    MEMORY_USED,
    MEMORY_LOADED,
    METADATA_ALL,
    METADATA_ONE,
    PRODUCE,
)
Measured = dict[Cost, float]


def topic_names(count: int) -> list[str]:
    """Return the names of the topics with this number of partitions."""
    return [f"topic-{number:05}" for number in range(count // PARTITIONS_PER_TOPIC)]


def create_all(client: Client, count: int) -> None:
    """Create the topics."""
    names = topic_names(count)
    for first in range(0, len(names), TOPICS_PER_REQUEST):
        topics = [
            {"name": name, "num_partitions": PARTITIONS_PER_TOPIC, "replication_factor": 1}
            for name in names[first : first + TOPICS_PER_REQUEST]
        ]
        answer = client.ask("CreateTopics", 5, {"topics": topics, "timeout_ms": 60_000})
        check(each["error_code"] for each in answer["topics"])


def produce(client: Client, topic: str, partitions: Iterable[int]) -> list[int]:
    """Write a record to each partition; return those that are not ready."""
    [batch] = codec.encode([(None, VALUE)], timestamp_ms=1_700_000_000_000)
    data = [{"index": number, "records": batch} for number in partitions]
    body = {
        "acks": -1,
        "timeout_ms": 60_000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }
    [answer] = client.ask("Produce", 9, body)["responses"]
    found = {each["index"]: each["error_code"] for each in answer["partition_responses"]}
    check(code for code in found.values() if code != NOT_LEADER)
    return [number for number, code in found.items() if code == NOT_LEADER]


def produce_to_all(client: Client, count: int) -> None:
    """Write a record to every partition; retry until each accepts it."""
    for topic in topic_names(count):
        waiting = list(range(PARTITIONS_PER_TOPIC))
        while waiting:
            waiting = produce(client, topic, waiting)
            if waiting:
                time.sleep(BACKOFF_SECONDS)


def wait_until_loaded(client: Client) -> None:
    """Wait until every partition has a leader epoch, which it has after recovery."""
    while any(
        partition["leader_epoch"] == -1
        for topic in client.ask("Metadata", 9, {"topics": None})["topics"]
        for partition in topic["partitions"]
    ):
        time.sleep(0.01)


def cpu_of(broker: Target, client: Client, requests: int, *, all_topics: bool) -> float:
    """Return the processor seconds of the broker for one Metadata request."""
    body = {"topics": None if all_topics else [{"name": topic_names(10)[0]}]}
    client.ask("Metadata", 9, body)
    before = machine.process_seconds(broker.pid)
    for _ in range(requests):
        client.ask("Metadata", 9, body)
    return (machine.process_seconds(broker.pid) - before) / requests


def cpu_of_produce(broker: Target, client: Client) -> float:
    """Return the processor seconds of the broker for one produce of one record."""
    topic = topic_names(10)[0]
    before = machine.process_seconds(broker.pid)
    for _ in range(REQUESTS):
        produce(client, topic, [0])
    return (machine.process_seconds(broker.pid) - before) / REQUESTS


def measure(count: int, folder: Path) -> Measured:
    """Measure all costs of a broker with a number of partitions."""
    found: Measured = {}
    broker, _ = start(folder)
    try:
        empty = machine.memory(broker.pid).rss_anon
        with Client(broker.port) as client:
            create_all(client, count)
            new = machine.memory(broker.pid).rss_anon
            produce_to_all(client, count)
            used = machine.memory(broker.pid).rss_anon
            all_s = cpu_of(broker, client, METADATA_OF_ALL_REQUESTS, all_topics=True)
            one_s = cpu_of(broker, client, REQUESTS, all_topics=False)
            produce_s = cpu_of_produce(broker, client)
        found |= {
            MEMORY_NEW: (new - empty) / 1e3 / count,
            MEMORY_USED: (used - empty) / 1e3 / count,
        }
        found |= {METADATA_ALL: all_s * 1e3, METADATA_ONE: one_s * 1e6, PRODUCE: produce_s * 1e6}
        found[STOP] = stop(broker)
        broker, since = start(folder)
        with Client(broker.port) as client:
            produce_to_all(client, count)
            found[START_CLEAN] = time.monotonic() - since
        broker.kill()
        broker, since = start(folder)
        with Client(broker.port) as client:
            produce_to_all(client, count)
            found[START_KILLED] = time.monotonic() - since
        stop(broker)
        broker, _ = start(folder)
        with Client(broker.port) as client:
            wait_until_loaded(client)
            loaded = machine.memory(broker.pid).rss_anon
        found[MEMORY_LOADED] = (loaded - empty) / 1e3 / count
        found[STOP_IDLE] = stop(broker)
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return found


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of the straight line through the logarithms; 0 for a single size."""
    if len(sizes) == 1:
        return 0.0
    x = [math.log(size) for size in sizes[-FITTED_SIZES:]]
    y = [math.log(max(value, 1e-9)) for value in values[-FITTED_SIZES:]]
    return statistics.linear_regression(x, y).slope


def table(sizes: Sequence[int], found: Sequence[Measured]) -> tuple[str, bool]:
    """Return the table, and whether all goals are met."""
    lines = [["cost", "unit", *(f"{size:,}" for size in sizes), "exponent", "allowed", "met"]]
    are_all_met = True
    for cost in COSTS:
        values = [each[cost] for each in found]
        cells = [cost.name, cost.unit, *(f"{value:,.3g}" for value in values)]
        slope = exponent(sizes, values)
        is_met = slope <= cost.exponent + TOLERANCE
        are_all_met = are_all_met and is_met
        cells += [f"{slope:.2f}", str(cost.exponent), "yes" if is_met else "NO"]
        lines.append(cells)
    return sizes_of.aligned(lines), are_all_met


def main(arguments: Sequence[str]) -> int:
    """Measure and print the table; return 1 if a cost grows too fast."""
    return sizes_of.run(
        arguments,
        name="growth",
        description=__doc__,
        unit="partitions",
        sizes=SIZES,
        measure=measure,
        table=table,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
