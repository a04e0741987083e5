"""Replicated partitions: their cost, their latency, and the times of failures and returns.

Three brokers and etcd share the machine, so wall times include the contention between them. The
cost of a replicated topic is compared with that of a topic with one replica on the same brokers, in
turn. A failure is timed as a client sees it: from the signal until the first acknowledgement of
acks=all by any broker.
"""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cluster.brokers import Cluster, topic_on, until
from benchmarks.end_to_end import machine
from benchmarks.end_to_end.blocking_client import Client
from benchmarks.end_to_end.rows import GB, PIPELINED, Options
from benchmarks.end_to_end.targets import BenchmarkError
from benchmarks.end_to_end.trials import Facts, Programs, run_load, scaled
from broker.codec import encode

BROKERS = 3
ROUNDS = 3
FAILURES = 3
TOPIC = "replicated"
ALONE = "one-replica"
DURABLE = ("polylog.durability=group-commit",)
SIZES = {"16k": 16 << 10, "256k": 256 << 10}
PRODUCED_BYTES = 0.5 * GB
CATCH_UP_BYTES = 1.0 * GB
LATENCY: Options = {"rate": 1_000, "seconds": 10, "acks": -1}
IDLE_SECONDS = 10.0
MANY = 10_000
MANY_TOPICS = 100
ACKNOWLEDGED_SECONDS_MAX = 30.0
STREAM_SECONDS = 4.0


@contextmanager
def _cluster(folder: Path) -> Iterator[Cluster]:
    with Cluster(folder / "cluster", BROKERS, DURABLE) as cluster:
        yield cluster


def _others(leader: int) -> list[int]:
    return [leader, *(each for each in range(1, BROKERS + 1) if each != leader)]


def _create(cluster: Cluster, name: str, partitions: int, replicas: list[int]) -> None:
    cluster.create(1, [topic_on(name, partitions, *replicas)])
    until(
        lambda: all(len(each["isr_nodes"]) == len(replicas) for each in _shown(cluster, name)), 0.02
    )


def _shown(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    witness = next(iter(cluster.clients))
    return cluster.partitions(witness, [name])


def _cpu_seconds(cluster: Cluster) -> float:
    return sum(machine.process_seconds(each.pid) for each in cluster.brokers.values())


# ---- cost and latency
# -------------------------------------------------------------------------------------------------


def measure_cost(programs: Programs, folder: Path, scale: float) -> Facts:
    """Return the processor seconds of all brokers per GB, and the ratio to one replica."""
    found: Facts = {"wrong": 0.0}
    with _cluster(folder) as cluster:
        for name, size in SIZES.items():
            options = scaled(
                {**PIPELINED, "batch-bytes": size, "bytes": PRODUCED_BYTES, "acks": -1}, scale
            )
            costs: dict[str, list[float]] = {TOPIC: [], ALONE: []}
            for turn, topic in itertools.product(range(-1, ROUNDS), (TOPIC, ALONE)):
                _create(cluster, topic, 4, _others(1) if topic == TOPIC else [1])
                cost = _cost(programs, cluster, topic, options)
                if turn >= 0:
                    costs[topic].append(cost)
                run_load(programs, cluster.brokers[1].port, "delete", {"topic": topic})
            pairs = zip(costs[TOPIC], costs[ALONE], strict=True)
            found[f"{name}_s_per_gb"] = median(costs[TOPIC])
            found[f"{name}_ratio"] = median(ours / alone for ours, alone in pairs)
    return found


def _cost(programs: Programs, cluster: Cluster, topic: str, options: Options) -> float:
    machine.drain()
    before = _cpu_seconds(cluster)
    facts = run_load(
        programs,
        cluster.brokers[1].port,
        "produce",
        {**options, "topic": topic, "partitions": 4},
    )
    time.sleep(0.2)  # the followers have the rest
    return (_cpu_seconds(cluster) - before) / facts["bytes"] * GB


def measure_latency(programs: Programs, folder: Path, scale: float) -> Facts:
    """Return the median latency of acks=all at a fixed rate, and the ratio to one replica."""
    latencies: dict[str, list[float]] = {TOPIC: [], ALONE: []}
    with _cluster(folder) as cluster:
        _create(cluster, TOPIC, 1, _others(1))
        _create(cluster, ALONE, 1, [1])
        for turn, topic in itertools.product(range(-1, ROUNDS), (TOPIC, ALONE)):
            options = {**scaled(LATENCY, scale), "topic": topic, "partitions": 1}
            facts = run_load(programs, cluster.brokers[1].port, "latency", options)
            if turn >= 0:
                latencies[topic].append(facts["acknowledged_p50_us"])
    pairs = zip(latencies[TOPIC], latencies[ALONE], strict=True)
    return {
        "p50_us": median(latencies[TOPIC]),
        "p50_ratio": median(ours / alone for ours, alone in pairs),
        "wrong": 0.0,
    }


def measure_catch_up(programs: Programs, folder: Path, scale: float) -> Facts:
    """Return what a leader sends a returning follower, in GB per processor second of the leader."""
    size = CATCH_UP_BYTES * scale
    with _cluster(folder) as cluster:
        _create(cluster, TOPIC, 1, _others(1))
        cluster.end(BROKERS)
        cluster.brokers[BROKERS].process.wait()
        until(lambda: len(_shown(cluster, TOPIC)[0]["isr_nodes"]) == BROKERS - 1)
        options: Options = {**PIPELINED, "batch-bytes": 64 << 10, "bytes": size, "acks": -1}
        port = cluster.brokers[1].port
        run_load(programs, port, "produce", {**options, "topic": TOPIC, "partitions": 1})
        machine.drain()
        before = machine.process_seconds(cluster.brokers[1].pid)
        since = cluster.start(BROKERS)
        until(lambda: len(_shown(cluster, TOPIC)[0]["isr_nodes"]) == BROKERS)
        seconds = time.monotonic() - since
        used = machine.process_seconds(cluster.brokers[1].pid) - before
    return {"gb_per_cpu_s": size / GB / used, "seconds": seconds, "wrong": 0.0}


# ---- failures
# -------------------------------------------------------------------------------------------------


class _Writer:
    """Writes one record after another with acks=all to whoever leads the partition."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connections: dict[int, Client] = {}
        [self._batch] = encode([b"x" * 100], timestamp_ms=time.time_ns() // 1_000_000)
        self.leader = 1

    def write(self) -> float:
        """Write until a broker acknowledges; return the time of the acknowledgement."""
        give_up = time.monotonic() + ACKNOWLEDGED_SECONDS_MAX
        while time.monotonic() < give_up:
            for broker_id in (self.leader, *(each for each in _others(1) if each != self.leader)):
                if self._is_acknowledged(broker_id):
                    self.leader = broker_id
                    return time.monotonic()
            time.sleep(0.002)
        raise BenchmarkError(f"no acknowledgement within {ACKNOWLEDGED_SECONDS_MAX:.0f} s")

    def _is_acknowledged(self, broker_id: int) -> bool:
        body = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [
                {"name": TOPIC, "partition_data": [{"index": 0, "records": self._batch}]}
            ],
        }
        try:
            if self._cluster.brokers[broker_id].process.poll() is not None:
                return False
            if broker_id not in self._connections:
                self._connections[broker_id] = Client(self._cluster.brokers[broker_id].port)
            answer = self._connections[broker_id].ask("Produce", 9, body)
        except (OSError, BenchmarkError):
            connection = self._connections.pop(broker_id, None)
            if connection is not None:
                connection.close()
            return False
        error: int = answer["responses"][0]["partition_responses"][0]["error_code"]
        return error == 0


def measure_failover(_programs: Programs, folder: Path, _scale: float) -> Facts:
    """Return the times of kills, planned stops and returns of a leader, as a writer sees them."""
    killed: list[float] = []
    gaps: list[float] = []
    exits: list[float] = []
    returns: list[float] = []
    with _cluster(folder) as cluster:
        _create(cluster, TOPIC, 1, _others(1))
        writer = _Writer(cluster)
        for number in range(2 * FAILURES):
            writer.write()
            victim = writer.leader
            if number % 2 == 0:
                since = cluster.end(victim)
                killed.append(writer.write() - since)
            else:
                gap, seconds = _planned(cluster, writer, victim)
                gaps.append(gap)
                exits.append(seconds)
            cluster.brokers[victim].process.wait()
            since = cluster.start(victim)
            until(lambda: len(_shown(cluster, TOPIC)[0]["isr_nodes"]) == BROKERS)
            returns.append(time.monotonic() - since)
    return {
        "killed_s": median(killed),
        "gap_ms": median(gaps) * 1e3,
        "gap_max_ms": max(gaps) * 1e3,
        "exit_s": median(exits),
        "isr_s": median(returns),
        "wrong": 0.0,
    }


def _planned(cluster: Cluster, writer: _Writer, victim: int) -> tuple[float, float]:
    """Stop a leader; return the longest gap between acknowledgements, and the time of its exit."""
    since = cluster.end(victim, is_planned=True)
    last, longest, exited = since, 0.0, 0.0
    while time.monotonic() < since + STREAM_SECONDS:
        now = writer.write()
        longest, last = max(longest, now - last), now
        if not exited and cluster.brokers[victim].process.poll() is not None:
            exited = now - since
    return longest, exited


# ---- idle
# -------------------------------------------------------------------------------------------------


def measure_idle(_programs: Programs, folder: Path, scale: float) -> Facts:
    """Return the processor time and the memory of a cluster that nobody writes to."""
    with _cluster(folder) as cluster:
        _create(cluster, TOPIC, 10, _others(1))
        time.sleep(5)
        before, etcd = _cpu_seconds(cluster), sum(map(machine.process_seconds, cluster.etcd.pids))
        time.sleep(IDLE_SECONDS)
        brokers = _cpu_seconds(cluster) - before
        store = sum(map(machine.process_seconds, cluster.etcd.pids)) - etcd
        memory = sum(machine.memory(each.pid).pss for each in cluster.brokers.values())
        many = round(MANY * scale / MANY_TOPICS)
        for number in range(MANY_TOPICS):
            leader = 1 + number % BROKERS
            cluster.create(1, [topic_on(f"many-{number}", many, *_others(leader))])
        time.sleep(15)
        before = _cpu_seconds(cluster)
        time.sleep(IDLE_SECONDS)
        loaded = _cpu_seconds(cluster) - before
    return {
        "brokers_s": brokers,
        "store_s": store,
        "memory_mb": memory / 1e6,
        "many_percent": 100 * loaded / IDLE_SECONDS / BROKERS,
        "wrong": 0.0,
    }
