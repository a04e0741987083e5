"""Replicated partitions: their cost, their latency, their catch-up, and their cost when idle.

Three brokers and etcd share the machine, so wall times include the contention between them. The
cost of a replicated topic is compared with that of a topic with one replica on the same brokers, in
turn, and with that of a replicated topic on three brokers of Apache Kafka.
"""

import itertools
import time
from pathlib import Path
from statistics import median

from benchmarks.cluster.brokers import Brokers, KafkaCluster, topic_on, until
from benchmarks.cluster.replicated import (
    BROKERS,
    OS,
    cpu_seconds,
    create,
    is_in_sync,
    leading,
    replicated,
    shown,
)
from benchmarks.end_to_end import machine
from benchmarks.end_to_end.rows import GB, PIPELINED, Options
from benchmarks.end_to_end.targets import BenchmarkError
from benchmarks.end_to_end.trials import Facts, Programs, run_load, scaled

ROUNDS = 3
JIT_ROUNDS = 3  # until a JVM has compiled its code
TOPIC = "replicated"
ALONE = "one-replica"
SIZES = {"16k": 16 << 10, "256k": 256 << 10}
PRODUCED_BYTES = 0.5 * GB
CATCH_UP_BYTES = 1.0 * GB
CATCH_UP_SECONDS = 2  # that a follower takes for twice as much, at least
LATENCY: Options = {"rate": 1_000, "seconds": 10, "acks": -1}
IDLE_SECONDS = 10.0
MANY = 10_000
MANY_TOPICS = 100


# ---- cost and latency
# -------------------------------------------------------------------------------------------------


def measure_cost(programs: Programs, folder: Path, scale: float) -> Facts:
    """Return the processor seconds of all brokers per GB, and the ratio to one replica."""
    found: Facts = {"wrong": 0.0}
    with replicated(folder) as cluster:
        for name, size in SIZES.items():
            options = scaled(
                {**PIPELINED, "batch-bytes": size, "bytes": PRODUCED_BYTES, "acks": -1}, scale
            )
            costs: dict[str, list[float]] = {TOPIC: [], ALONE: []}
            for turn, topic in itertools.product(range(-1, ROUNDS), (TOPIC, ALONE)):
                create(cluster, topic, 4, leading(1) if topic == TOPIC else [1])
                cost = _cost(programs, cluster, topic, options)
                if turn >= 0:
                    costs[topic].append(cost)
                run_load(programs, cluster.brokers[1].port, "delete", {"topic": topic})
            pairs = zip(costs[TOPIC], costs[ALONE], strict=True)
            found[f"{name}_s_per_gb"] = median(costs[TOPIC])
            found[f"{name}_ratio"] = median(ours / alone for ours, alone in pairs)
    return found


def measure_beside_kafka(programs: Programs, folder: Path, scale: float) -> Facts:
    """Return the processor seconds per GB of three brokers, ours and Apache Kafka's, in turn.

    Ours are measured twice: without a sync per batch, as Apache Kafka, and as by default with it.
    """
    jars = programs.kafka_jars
    if jars is None:
        raise BenchmarkError("KAFKA_LIBS names no folder of Apache Kafka's jars")
    found: Facts = {"wrong": 0.0}
    with (
        replicated(folder / "os", OS) as unsynced,
        replicated(folder / "group-commit") as synced,
        KafkaCluster(jars, folder / "kafka", BROKERS) as theirs,
    ):
        for name, size in SIZES.items():
            options = scaled(
                {**PIPELINED, "batch-bytes": size, "bytes": PRODUCED_BYTES, "acks": -1}, scale
            )
            clusters = (unsynced, synced, theirs)
            costs: dict[Brokers, list[float]] = {each: [] for each in clusters}
            for turn, cluster in itertools.product(range(-JIT_ROUNDS, ROUNDS), clusters):
                create(cluster, TOPIC, 4, leading(1))
                cost = _cost(programs, cluster, TOPIC, options)
                if turn >= 0:
                    costs[cluster].append(cost)
                run_load(programs, cluster.brokers[1].port, "delete", {"topic": TOPIC})
            found[f"{name}_kafka_s_per_gb"] = median(costs[theirs])
            for ours, prefix in ((unsynced, name), (synced, f"{name}_synced")):
                pairs = zip(costs[ours], costs[theirs], strict=True)
                found[f"{prefix}_s_per_gb"] = median(costs[ours])
                found[f"{prefix}_ratio"] = median(our / their for our, their in pairs)
    return found


def _cost(programs: Programs, cluster: Brokers, topic: str, options: Options) -> float:
    machine.drain()
    before = cpu_seconds(cluster)
    facts = run_load(
        programs,
        cluster.brokers[1].port,
        "produce",
        {**options, "topic": topic, "partitions": 4},
    )
    time.sleep(0.2)  # the followers have the rest
    return (cpu_seconds(cluster) - before) / facts["bytes"] * GB


def measure_latency(programs: Programs, folder: Path, scale: float) -> Facts:
    """Return the median latency of acks=all at a fixed rate, and the ratio to one replica."""
    latencies: dict[str, list[float]] = {TOPIC: [], ALONE: []}
    with replicated(folder) as cluster:
        create(cluster, TOPIC, 1, leading(1))
        create(cluster, ALONE, 1, [1])
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
    with replicated(folder) as cluster:
        create(cluster, TOPIC, 1, leading(1))
        cluster.end(BROKERS)
        cluster.brokers[BROKERS].process.wait()
        until(lambda: len(shown(cluster, TOPIC)[0]["isr_nodes"]) == BROKERS - 1)
        options: Options = {**PIPELINED, "batch-bytes": 64 << 10, "bytes": size, "acks": -1}
        port = cluster.brokers[1].port
        run_load(programs, port, "produce", {**options, "topic": TOPIC, "partitions": 1})
        machine.drain()
        before = machine.process_seconds(cluster.brokers[1].pid)
        since = cluster.start(BROKERS)
        until(lambda: len(shown(cluster, TOPIC)[0]["isr_nodes"]) == BROKERS)
        seconds = time.monotonic() - since
        used = machine.process_seconds(cluster.brokers[1].pid) - before
    return {"gb_per_cpu_s": size / GB / used, "seconds": seconds, "wrong": 0.0}


def measure_neighbours(programs: Programs, folder: Path, scale: float) -> Facts:
    """Return the latency of a leader's clients while a follower of another topic catches up."""
    waiting: Options = {**LATENCY, "seconds": CATCH_UP_SECONDS, "topic": ALONE, "partitions": 1}
    quiet: list[float] = []
    busy: list[float] = []
    with replicated(folder) as cluster:
        create(cluster, TOPIC, 1, leading(1))
        create(cluster, ALONE, 1, [1])
        port = cluster.brokers[1].port
        run_load(programs, port, "latency", waiting)
        for _ in range(ROUNDS):
            cluster.end(BROKERS)
            cluster.brokers[BROKERS].process.wait()
            until(lambda: not is_in_sync(cluster, TOPIC))
            size = 2 * CATCH_UP_BYTES * scale
            options: Options = {**PIPELINED, "batch-bytes": 64 << 10, "bytes": size, "acks": -1}
            run_load(programs, port, "produce", {**options, "topic": TOPIC, "partitions": 1})
            machine.drain()
            quiet.append(run_load(programs, port, "latency", waiting)["acknowledged_p99_us"])
            cluster.start(BROKERS)
            busy.append(run_load(programs, port, "latency", waiting)["acknowledged_p99_us"])
            until(lambda: is_in_sync(cluster, TOPIC))
    return {
        "quiet_p99_us": median(quiet),
        "busy_p99_us": median(busy),
        "p99_ratio": median(busy) / median(quiet),
        "wrong": 0.0,
    }


# ---- idle
# -------------------------------------------------------------------------------------------------


def measure_idle(_programs: Programs, folder: Path, scale: float) -> Facts:
    """Return the processor time and the memory of a cluster that nobody writes to."""
    with replicated(folder) as cluster:
        create(cluster, TOPIC, 10, leading(1))
        time.sleep(5)
        before, etcd = cpu_seconds(cluster), sum(map(machine.process_seconds, cluster.etcd.pids))
        time.sleep(IDLE_SECONDS)
        brokers = cpu_seconds(cluster) - before
        store = sum(map(machine.process_seconds, cluster.etcd.pids)) - etcd
        memory = sum(machine.memory(each.pid).pss for each in cluster.brokers.values())
        many = round(MANY * scale / MANY_TOPICS)
        for number in range(MANY_TOPICS):
            leader = 1 + number % BROKERS
            cluster.create(1, [topic_on(f"many-{number}", many, *leading(leader))])
        time.sleep(15)
        before = cpu_seconds(cluster)
        time.sleep(IDLE_SECONDS)
        loaded = cpu_seconds(cluster) - before
    return {
        "brokers_s": brokers,
        "store_s": store,
        "memory_mb": memory / 1e6,
        "many_percent": 100 * loaded / IDLE_SECONDS / BROKERS,
        "wrong": 0.0,
    }
