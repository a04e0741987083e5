"""The rows of a cluster, their goals, and how each is measured."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster import changes, failover, failures, partitions, replicas, requests, workers
from benchmarks.end_to_end.rows import Figure, Goal, LifecycleRow
from benchmarks.end_to_end.trials import Facts, Programs


@dataclass(frozen=True)
class ClusterRow(LifecycleRow):
    """A row with a cluster of its own."""

    measure: Callable[[Programs, Path, float], Facts]
    rounds_max: int
    needs_etcd: bool = True
    needs_kafka: bool = False


CLUSTER_ROWS = (
    ClusterRow(
        "cluster-requests",
        (
            Figure("produce_us", "CPU-us/produce"),
            Figure("produce_ratio", "x standalone", (Goal(1.03),)),
            Figure("fetch_us", "CPU-us/fetch 64k"),
            Figure("fetch_ratio", "x standalone", (Goal(1.03),)),
        ),
        requests.measure,
        3,
    ),
    ClusterRow(
        "cluster-changes",
        (
            Figure("create_p50_ms", "ms create, p50", (Goal(5),)),
            Figure("create_p99_ms", "ms create, p99"),
            Figure("alter_p50_ms", "ms alter, p50", (Goal(5),)),
            Figure("alter_p99_ms", "ms alter, p99"),
            Figure("floor_p50_ms", "ms floor, p50"),
            Figure("cpu_ms", "CPU-ms/change"),
        ),
        changes.measure,
        3,
    ),
    ClusterRow(
        "cluster-failover",
        (
            Figure("lease_s", "s until missed"),
            Figure("work_ms", "ms from then on"),
            Figure("planned_ms", "ms planned"),
        ),
        failover.measure,
        1,
    ),
    ClusterRow(
        "cluster-10000",
        (
            Figure("create_s", "s to create all"),
            Figure("memory_kb", "KB/partition"),
            Figure("metadata_ms", "CPU-ms/Metadata"),
            Figure("start_s", "s to start 1/3"),
            Figure("unled_s", "s without leader", (Goal(1.5),)),
            Figure("controller_ms", "CPU-ms controller"),
            Figure("led_s", "s to lead all", (Goal(1.5),)),
            Figure("served_s", "s to serve all"),
        ),
        partitions.measure,
        1,
    ),
    ClusterRow(
        "replica-cost",
        (
            Figure("16k_s_per_gb", "CPU-s/GB, 16 KiB"),
            Figure("16k_ratio", "x one replica", (Goal(3.5),)),
            Figure("256k_s_per_gb", "CPU-s/GB, 256 KiB"),
            Figure("256k_ratio", "x one replica", (Goal(3.3),)),
        ),
        replicas.measure_cost,
        1,
    ),
    ClusterRow(
        "replica-cost-kafka",
        (
            Figure("16k_s_per_gb", "CPU-s/GB, 16 KiB"),
            Figure("16k_synced_s_per_gb", "CPU-s/GB, synced"),
            Figure("16k_kafka_s_per_gb", "CPU-s/GB of Kafka"),
            Figure("16k_ratio", "x Kafka", (Goal(0.2),)),
            Figure("16k_synced_ratio", "x Kafka, synced"),
            Figure("256k_s_per_gb", "CPU-s/GB, 256 KiB"),
            Figure("256k_synced_s_per_gb", "CPU-s/GB, synced"),
            Figure("256k_kafka_s_per_gb", "CPU-s/GB of Kafka"),
            Figure("256k_ratio", "x Kafka", (Goal(0.2),)),
            Figure("256k_synced_ratio", "x Kafka, synced"),
        ),
        replicas.measure_beside_kafka,
        1,
        needs_kafka=True,
    ),
    ClusterRow(
        "replica-latency",
        (
            Figure("p50_us", "us, p50"),
            Figure("p50_ratio", "x one replica", (Goal(3),)),
        ),
        replicas.measure_latency,
        1,
    ),
    ClusterRow(
        "replica-catch-up",
        (
            Figure("gb_per_cpu_s", "GB/CPU-s, leader", (Goal(0.5, at_least=True),)),
            Figure("seconds", "s until in sync"),
        ),
        replicas.measure_catch_up,
        1,
    ),
    ClusterRow(
        "replica-neighbours",
        (
            Figure("quiet_p99_us", "us, p99"),
            Figure("busy_p99_us", "us, p99 at catch-up"),
            Figure("p99_ratio", "x", (Goal(2),)),
        ),
        replicas.measure_neighbours,
        1,
    ),
    ClusterRow(
        "replica-failover",
        (
            Figure("killed_s", "s, killed", (Goal(1),)),
            Figure("paused_s", "s, host gone", (Goal(3.5),)),
            Figure("gap_ms", "ms gap, planned", (Goal(100),)),
            Figure("gap_max_ms", "ms, longest gap"),
            Figure("exit_s", "s, exit", (Goal(1),)),
            Figure("isr_s", "s, back in sync", (Goal(1),)),
        ),
        failures.measure_leader,
        1,
    ),
    ClusterRow(
        "replica-failover-1000",
        (
            Figure("paused_s", "s, host gone", (Goal(4),)),
            Figure("killed_s", "s, killed", (Goal(1),)),
            Figure("killed_count", "partitions then"),
        ),
        failures.measure_many,
        1,
    ),
    ClusterRow(
        "replica-coordinator",
        (
            Figure("heartbeat_s", "s to a heartbeat", (Goal(1),)),
            Figure("ended_s", "s to end a transaction", (Goal(1),)),
        ),
        failures.measure_coordinators,
        1,
    ),
    ClusterRow(
        "replica-store",
        (
            Figure("asleep_ms", "ms gap, asleep 1 s", (Goal(100),)),
            Figure("restarted_ms", "ms gap, restarted", (Goal(100),)),
        ),
        failures.measure_store,
        1,
    ),
    ClusterRow(
        "replica-idle",
        (
            Figure("brokers_s", "CPU-s/10 s, brokers"),
            Figure("store_s", "CPU-s/10 s, etcd"),
            Figure("memory_mb", "MB, brokers", (Goal(200),)),
            Figure("many_percent", "% of a core/broker, 10000 partitions", (Goal(2),)),
        ),
        replicas.measure_idle,
        1,
    ),
    ClusterRow(
        "workers",
        (
            Figure("produce_cost_ratio", "x CPU/GB produced", (Goal(1.1),)),
            Figure("fetch_cost_ratio", "x CPU/GB fetched", (Goal(1.1),)),
            Figure("produce_gain", "x GB/s produced"),
            Figure("produce_busy", "cores busy"),
            Figure("fetch_gain", "x GB/s fetched"),
            Figure("fetch_busy", "cores busy"),
        ),
        workers.measure,
        3,
        needs_etcd=False,
    ),
)
