"""From the end of the controller's broker until another broker is the controller and has elected.

A killed broker is missed when its lease ends: that time is a setting (broker.session.timeout.ms).
The work is the time from then until another broker holds the office and has written the next state
of every partition that the broker has led. With one replica, that state has no leader: its leader
epoch shows it. A broker that is stopped gives its lease back.
"""

from pathlib import Path
from statistics import median

from benchmarks.cluster.brokers import Cluster, new_topic, until
from benchmarks.end_to_end.trials import Facts, Programs

BROKERS = 3
PARTITIONS = 30
TOPIC = "failover"
ENDS = 3  # of each kind


def measure(_programs: Programs, folder: Path, _scale: float) -> Facts:
    """Return the median times of a crash and of a planned stop, in seconds and milliseconds."""
    leases: list[float] = []
    works: list[float] = []
    planned: list[float] = []
    with Cluster(folder / "cluster", BROKERS) as cluster:
        cluster.create(1, [new_topic(TOPIC, PARTITIONS)])
        for number in range(2 * ENDS):
            is_planned = number % 2 == 1
            since, missed, elected = _end_controller(cluster, is_planned=is_planned)
            if is_planned:
                planned.append(elected - since)
            else:
                leases.append(missed - since)
                works.append(elected - missed)
    return {
        "lease_s": median(leases),
        "work_ms": median(works) * 1e3,
        "planned_ms": median(planned) * 1e3,
        "wrong": 0.0,
    }


def _end_controller(cluster: Cluster, *, is_planned: bool) -> tuple[float, float, float]:
    """Return when the broker ended, when another missed it, and when its work was taken over."""
    victim = cluster.controller(1)
    witness = next(each for each in cluster.clients if each != victim)
    before = {
        each["partition_index"]: each["leader_epoch"]
        for each in cluster.partitions(witness, [TOPIC])
        if each["leader_id"] == victim
    }

    def is_elected() -> bool:
        shown = {
            each["partition_index"]: each["leader_epoch"]
            for each in cluster.partitions(witness, [TOPIC])
        }
        return cluster.controller(witness) not in (-1, victim) and all(
            shown[number] > epoch for number, epoch in before.items()
        )

    since = cluster.end(victim, is_planned=is_planned)
    missed = until(lambda: victim not in cluster.registered(witness))
    elected = until(is_elected)
    cluster.brokers[victim].process.wait()
    cluster.start(victim)
    until(lambda: all(each["leader_id"] >= 0 for each in cluster.partitions(witness, [TOPIC])))
    until(lambda: all(cluster.registered(each) == set(cluster.brokers) for each in cluster.clients))
    until(lambda: cluster.controller(1) in cluster.brokers)
    return since, missed, elected
