"""Measures the metadata stores of a cluster: `make bench SUITE=metadata`.

For each store another process writes, and this one has a watch:

    transaction   from the call to its result, in the writer
    event         from the writer's call to the event at the watch in this process
    CPU           of both processes and of etcd, per transaction and event; user and system time

    python -m benchmarks.metadata.bench [--transactions N] [--members N]

Both clocks are CLOCK_MONOTONIC. The disk is that of the temporary folder (TMPDIR). The stores take
turns, round after round, because the machine is shared; a row is the median of its rounds.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from broker.core.scheduling.io_thread import IoThread
from broker.model.address import parse_addresses
from broker.model.clock import monotonic_ns
from broker.storage.metadata import MetaStore, Put
from broker.storage.metadata.etcd.gateway import Gateway
from broker.storage.metadata.etcd.store import EtcdMetaStore
from broker.storage.metadata.sqlite.shared import SharedSqliteMetaStore
from broker.storage.metadata.sqlite.store import AsyncSqliteMetaStore
from tests.support.etcd import PROGRAM, Etcd

ROUNDS = 5
PAUSE_SECONDS = 0.002  # between transactions, so that each event finds the watch waiting
VALUE_BYTES = 120
KEY = b"part/AAECAwQFBgcICQoLDA0ODw/0"
WARM_UP = 20


class Round(NamedTuple):
    """One round, in microseconds."""

    transaction_p50: float
    transaction_p99: float
    event_p50: float
    event_p99: float
    cpu_writer: float
    cpu_watcher: float
    cpu_server: float


def open_store(place: str, thread: IoThread) -> MetaStore:
    """Open a store by its file, or by etcd's addresses, separated by commas."""
    if "/" in place:
        return AsyncSqliteMetaStore(SharedSqliteMetaStore(Path(place)), thread)
    return EtcdMetaStore(Gateway(parse_addresses(place)), b"/bench/")


def cpu_us() -> float:
    """Return the processor time of this process."""
    return time.process_time_ns() / 1e3


async def write(place: str, transactions: int) -> None:
    """Write with the time as the value, and print the times and the CPU time."""
    thread = IoThread()
    store = open_store(place, thread)
    took = []
    begun_cpu = 0.0
    for number in range(WARM_UP + transactions):
        if number == WARM_UP:
            begun_cpu = cpu_us()
        await asyncio.sleep(PAUSE_SECONDS)
        begun = monotonic_ns()
        await store.transact([], [Put(KEY, b"%d" % begun + bytes(VALUE_BYTES - 20))])
        took.append((monotonic_ns() - begun) / 1e3)
    used = cpu_us() - begun_cpu
    sys.stdout.write(json.dumps({"took": took[WARM_UP:], "cpu": used / transactions}))
    await store.close()
    thread.stop()


async def measure(place: str, transactions: int, servers: Sequence[int]) -> Round:
    """Watch what another process writes."""
    thread = IoThread()
    store = open_store(place, thread)
    _, revision = await store.scan(KEY)
    command = [sys.executable, "-m", "benchmarks.metadata.bench", "--write", place]
    latencies: list[float] = []
    begun_cpu = begun_server = 0.0
    async with aclosing(store.watch(KEY, revision + 1)) as watch:
        writer = await asyncio.create_subprocess_exec(
            *command, "--transactions", str(transactions), stdout=asyncio.subprocess.PIPE
        )
        async for changes in watch:
            now = monotonic_ns()
            for event in changes.events:
                assert event.entry is not None
                begun = int(event.entry.value.rstrip(b"\0"))
                latencies.append((now - begun) / 1e3)
            if len(latencies) >= WARM_UP and not begun_cpu:
                begun_cpu, begun_server = cpu_us(), sum(map(process_cpu_us, servers))
            if len(latencies) >= WARM_UP + transactions:
                break
    own = (cpu_us() - begun_cpu) / transactions
    server = (sum(map(process_cpu_us, servers)) - begun_server) / transactions
    written = json.loads((await writer.communicate())[0])
    await store.close()
    thread.stop()
    took = quantiles(written["took"], n=100)
    events = quantiles(latencies[WARM_UP:], n=100)
    return Round(took[49], took[98], events[49], events[98], written["cpu"], own, server)


def process_cpu_us(pid: int) -> float:
    """Return the processor time of another process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def report(name: str, rounds: Sequence[Round]) -> None:
    """Print a row of medians."""
    row = Round(*(median(each) for each in zip(*rounds, strict=True)))
    cells = "".join(f"{each:>10.0f}" for each in row)
    sys.stdout.write(f"{name:<16}{cells}\n")


def main() -> None:
    """Measure all stores, or be the writer of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=300, help="in each round")
    parser.add_argument("--members", type=int, default=3, help="of the larger etcd cluster")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        asyncio.run(write(options.write, options.transactions))
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), options.transactions, options.members)


def compare(folder: Path, transactions: int, members: int) -> None:
    """Measure all stores in turn, and print a table."""
    places: dict[str, tuple[str, list[int]]] = {"SQLite, shared": (str(folder / "metadata.db"), [])}
    clusters: list[Etcd] = []
    if PROGRAM is None:
        sys.stdout.write("etcd is not installed\n")
    else:
        for count in dict.fromkeys((1, members)):
            cluster = Etcd(folder / f"etcd{count}", count)
            clusters.append(cluster)
            addresses = ",".join(map(str, cluster.endpoints))
            places[f"etcd, {count} member{'s' * (count > 1)}"] = (addresses, cluster.pids)
    try:
        found: dict[str, list[Round]] = {name: [] for name in places}
        for _ in range(ROUNDS):
            for name, (place, servers) in places.items():
                found[name].append(asyncio.run(measure(place, transactions, servers)))
    finally:
        for cluster in clusters:
            cluster.close()
    sys.stdout.write(
        f"{'microseconds':<16}{'transaction':>20}{'event':>20}{'CPU, for each':>30}\n"
        f"{'':<16}{'p50':>10}{'p99':>10}{'p50':>10}{'p99':>10}"
        f"{'writer':>10}{'watcher':>10}{'etcd':>10}\n"
    )
    for name, rounds in found.items():
        report(name, rounds)


if __name__ == "__main__":
    main()
