"""The processor time of a request of one broker in a cluster, compared with a standalone broker."""

import shutil
from pathlib import Path
from statistics import median

from benchmarks.cluster.brokers import Cluster
from benchmarks.end_to_end import machine
from benchmarks.end_to_end.rows import GB, PIPELINED, Options
from benchmarks.end_to_end.targets import BenchmarkError, Target, start_polylog
from benchmarks.end_to_end.trials import Facts, Programs, run_load, scaled

TOPIC: Options = {"topic": "requests", "partitions": 8}
STORED: Options = {**PIPELINED, "batch-bytes": 16 << 10, "bytes": 0.1 * GB}
LOADS: dict[str, tuple[str, Options]] = {
    "produce": ("produce", {**PIPELINED, "records": 1, "requests": 100_000}),
    "fetch": ("fetch", {"connections": 4, "fetch-bytes": 64 << 10, "bytes": 0.6 * GB}),
}
PAIRS = 6  # of runs, first one broker and then the other, in turn


def measure(programs: Programs, folder: Path, scale: float) -> Facts:
    """Return the cost of a produce and of a fetch, and the ratio to a standalone broker."""
    folder.mkdir(parents=True, exist_ok=True)
    alone = start_polylog(folder / "alone")
    try:
        with Cluster(folder / "cluster", 1) as cluster:
            return _compare(programs, {"alone": alone, "cluster": cluster.brokers[1]}, scale)
    finally:
        alone.stop()
        shutil.rmtree(folder / "alone", ignore_errors=True)


def _compare(programs: Programs, targets: dict[str, Target], scale: float) -> Facts:
    found: Facts = {"wrong": 0.0}
    for name, (command, options) in LOADS.items():
        for target in targets.values():
            run_load(programs, target.port, "create", TOPIC)
            run_load(programs, target.port, "produce", {**TOPIC, **STORED})
        costs: dict[str, list[float]] = {each: [] for each in targets}
        for pair in range(-1, PAIRS):  # the first one warms up
            for each in sorted(targets, reverse=pair % 2 == 0):
                cost = _cost(programs, targets[each], command, scaled(options, scale))
                if pair >= 0:
                    costs[each].append(cost)
        pairs = zip(costs["cluster"], costs["alone"], strict=True)
        found[f"{name}_us"] = median(costs["cluster"])
        found[f"{name}_ratio"] = median(ours / theirs for ours, theirs in pairs)
        for target in targets.values():
            run_load(programs, target.port, "delete", {"topic": TOPIC["topic"]})
    return found


def _cost(programs: Programs, target: Target, command: str, options: Options) -> float:
    """Return the processor microseconds of the broker per request."""
    machine.drain()
    with machine.separate_cores(target.pid, pinned=True):
        before = machine.process_seconds(target.pid)
        facts = run_load(programs, target.port, command, {**TOPIC, **options})
        used = machine.process_seconds(target.pid) - before
    if facts["wrong"]:
        raise BenchmarkError(f"{target.name}: records are missing or misplaced")
    return used / facts["requests"] * 1e6
