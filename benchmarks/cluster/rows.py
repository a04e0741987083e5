"""The rows of a cluster, their goals, and how each is measured."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster import changes, failover, partitions, requests, workers
from benchmarks.end_to_end.rows import Figure, Goal, LifecycleRow
from benchmarks.end_to_end.trials import Facts, Programs


@dataclass(frozen=True)
class ClusterRow(LifecycleRow):
    """A row with a cluster of its own."""

    measure: Callable[[Programs, Path, float], Facts]
    rounds_max: int
    needs_etcd: bool = True


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
