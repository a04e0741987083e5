"""Three brokers with replicated topics, and what the measurements of them have in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster.brokers import Brokers, Cluster, topic_on, until
from benchmarks.end_to_end import machine

BROKERS = 3
OS = ("polylog.durability=os",)
GROUP_COMMIT = ("polylog.durability=group-commit",)


def replicated(folder: Path, settings: Sequence[str] = GROUP_COMMIT) -> Cluster:
    """Start three brokers; an acknowledgement is durable on all in-sync replicas."""
    return Cluster(folder / "cluster", BROKERS, settings)


def leading(leader: int) -> list[int]:
    """Return all brokers as the replicas of a partition, its preferred leader first."""
    return [leader, *(each for each in range(1, BROKERS + 1) if each != leader)]


def create(cluster: Brokers, name: str, partitions: int, replicas: Sequence[int]) -> None:
    """Create a topic on these brokers; return when all replicas are in sync."""
    cluster.create(1, [topic_on(name, partitions, *replicas)])
    until(lambda: is_in_sync(cluster, name, len(replicas)), 0.02)


def is_in_sync(cluster: Brokers, name: str, replicas: int = BROKERS) -> bool:
    """Whether each partition of a topic has so many replicas in sync."""
    return all(len(each["isr_nodes"]) == replicas for each in shown(cluster, name))


def shown(cluster: Brokers, name: str) -> list[dict[str, Any]]:
    """Return the partitions of a topic as any broker shows them."""
    witness = next(iter(cluster.clients))
    return cluster.partitions(witness, [name])


def cpu_seconds(cluster: Brokers) -> float:
    """Return the processor time of all brokers."""
    return sum(machine.process_seconds(each.pid) for each in cluster.brokers.values())
