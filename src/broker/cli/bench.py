"""`broker bench`: what one client and a broker do in a few seconds, as a check of a machine.

One connection with one request in flight, so the figures are neither the most that a broker can do
nor comparable with those of other tools: they are comparable with those of this command, on another
machine, another disk, with other settings. `make bench` in the repository measures the broker.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from broker.cli.frame import Session, verb
from broker.cli.times import Seconds
from broker.model.errors import Unreachable

if TYPE_CHECKING:
    from broker.client.metadata import Cluster, Topic

_CPU: Final = re.compile(rb"^process_cpu_seconds_total ([\d.e+-]+)$", re.MULTILINE)


class Measured(NamedTuple):
    """One phase.

    Attributes:
        phase: `produce`: requests with acks=all; `fetch`: the same records read again.
        records: that were sent or received.
        size_bytes: of their batches.
        seconds: that it took.
        records_per_second: the rate.
        bytes_per_second: the rate.
        requests: that were answered.
        p50_ms: the latency of a request that half of them had at most.
        p99_ms: the same for 99 of 100.
        max_ms: the longest one.
        client_cpu_seconds: processor time of this command.
        broker_cpu_seconds: of the broker; null if it does not tell, or there are several.
    """

    phase: str
    records: int
    size_bytes: int
    seconds: float
    records_per_second: float
    bytes_per_second: int
    requests: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    client_cpu_seconds: float
    broker_cpu_seconds: float | None


@verb(
    Measured,
    name="bench",
    columns=(
        "phase",
        "records",
        "records_per_second",
        "bytes_per_second",
        "p50_ms",
        "p99_ms",
        "max_ms",
        "broker_cpu_seconds",
    ),
    examples=("broker bench", "broker bench --seconds 10 --record-bytes 100 -o json"),
)
@click.option(
    "--seconds",
    type=Seconds(0.1, 600),
    default=5.0,
    metavar="SECONDS",
    help="How long records are produced (default: 5).",
)
@click.option(
    "--record-bytes",
    type=click.IntRange(1, 1 << 20),
    default=1000,
    metavar="N",
    help="Size of a value (default: 1000).",
)
@click.option(
    "--batch-records",
    type=click.IntRange(1, 100_000),
    default=64,
    metavar="N",
    help="Records of a request (default: 64).",
)
def command(session: Session, seconds: float, record_bytes: int, batch_records: int) -> None:
    """Measure producing and fetching with one connection, in a topic of its own that is deleted."""
    from broker.client.admin import create_topic  # noqa: PLC0415 - not needed by `--help`
    from broker.client.topics import delete_topics  # noqa: PLC0415

    cluster, name = session.cluster, f"bench-{os.urandom(4).hex()}"
    create_topic(cluster, name, 1)
    try:
        with _phase(session, cluster, "produce") as phase:
            _produce(
                cluster, name, phase, seconds, [(None, os.urandom(record_bytes))] * batch_records
            )
        with _phase(session, cluster, "fetch") as phase:
            _fetch(cluster, cluster.existing_topics([name])[name], phase)
    finally:
        delete_topics(cluster, [name])


class _Phase:
    """What is counted while a phase runs."""

    def __init__(self) -> None:
        self.records = 0
        self.size_bytes = 0
        self.latencies: list[float] = []


@contextmanager
def _phase(session: Session, cluster: "Cluster", name: str) -> Iterator[_Phase]:
    """Measure what is done in the block, and print it."""
    counted = _Phase()
    cpu, broker_cpu, begun = time.process_time(), _cpu_of_broker(cluster), time.perf_counter()
    yield counted
    seconds = time.perf_counter() - begun
    own, after = time.process_time() - cpu, _cpu_of_broker(cluster)
    theirs = None if after is None or broker_cpu is None else round(after - broker_cpu, 3)
    sorted_ms = sorted(1000 * each for each in counted.latencies)
    session.write(
        Measured(
            name,
            counted.records,
            counted.size_bytes,
            round(seconds, 3),
            round(counted.records / seconds, 1),
            round(counted.size_bytes / seconds),
            len(sorted_ms),
            round(_quantile(sorted_ms, 0.5), 3),
            round(_quantile(sorted_ms, 0.99), 3),
            round(_quantile(sorted_ms, 1.0), 3),
            round(own, 3),
            theirs,
        )
    )


def _produce(
    cluster: "Cluster",
    name: str,
    phase: _Phase,
    seconds: float,
    records: list[tuple[bytes | None, bytes | None]],
) -> None:
    from broker.client.produce import Producer  # noqa: PLC0415 - not needed by `--help`
    from broker.client.transactions import new_producer_id  # noqa: PLC0415

    producer, place = Producer(cluster, new_producer_id(cluster)), (name, 0)
    until = time.perf_counter() + seconds
    while (now := time.perf_counter()) < until:
        batches = producer.encode(place, records)
        producer.send({place: batches})
        phase.latencies.append(time.perf_counter() - now)
        phase.records += len(records)
        phase.size_bytes += sum(map(len, batches))


def _fetch(cluster: "Cluster", topic: "Topic", phase: _Phase) -> None:
    from broker.client.fetch import Range, fetch  # noqa: PLC0415 - not needed by `--help`
    from broker.client.offsets import LATEST, list_offsets  # noqa: PLC0415

    end = list_offsets(cluster, {(topic.name, 0): LATEST})[topic.name, 0].offset
    now = time.perf_counter()
    for chunk in fetch(cluster, Range(topic.name, topic.topic_id, 0, 0, end)):
        phase.latencies.append(time.perf_counter() - now)
        phase.records += chunk.next_offset - chunk.start
        phase.size_bytes += len(chunk.data)
        now = time.perf_counter()


def _cpu_of_broker(cluster: "Cluster") -> float | None:
    """Return the processor time of the only broker, as its metrics have it."""
    from broker.cli.http_pages import page_of  # noqa: PLC0415 - not needed by `--help`

    brokers = cluster.metadata([])["brokers"]
    if len(brokers) != 1:
        return None
    try:
        answer = page_of(cluster, cluster.bootstrap[0], "/metrics")
    except Unreachable:
        return None
    found = _CPU.search(answer.text)
    return None if found is None else float(found[1])


def _quantile(values: Sequence[float], share: float) -> float:
    return values[min(int(share * len(values)), len(values) - 1)] if values else 0.0


NOUN: Final = command
