"""Two workers on two cores, compared with one broker on one core: cost per GB, and throughput.

    one broker      on core 0, with a load generator on the same core
    two workers     the same on core 0 and on core 1: each has the load of the partitions it leads

A load generator takes a part of its broker's core, the same part on both sides: on a machine of two
cores none is left for it. It could not be on another one for one side only, because a request
across cores costs the broker up to twice as much. So the gain shows how the throughput grows with
the cores, not its limit; `busy` is how many cores the workers themselves had.
"""

import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.cluster.brokers import METADATA_VERSION, topic_on, until
from benchmarks.end_to_end import machine
from benchmarks.end_to_end.blocking_client import Client, check
from benchmarks.end_to_end.rows import GB, PIPELINED, Options
from benchmarks.end_to_end.targets import (
    ADDRESS,
    BenchmarkError,
    Target,
    free_port,
    launch,
    polylog_command,
    start_polylog,
    wait_for_line,
)
from benchmarks.end_to_end.trials import Facts, Programs, run_load, scaled

WORKERS = 2
PARTITIONS = 8  # of each topic
STORED: Options = {**PIPELINED, "batch-bytes": 64 << 10, "bytes": 0.1 * GB}
LOADS: dict[str, tuple[str, Options]] = {
    "produce": ("produce", {**PIPELINED, "batch-bytes": 64 << 10, "bytes": 0.3 * GB}),
    "fetch": ("fetch", {"connections": 4, "fetch-bytes": 64 << 10, "bytes": 0.6 * GB}),
}
PAIRS = 4  # of runs, first one side and then the other, in turn


@dataclass
class Side:
    """One broker, or two workers; each leads a topic."""

    target: Target
    pids: Sequence[int]
    ports: Sequence[int]
    cores: Sequence[int]  # of each broker, and of its load generator


def measure(programs: Programs, folder: Path, scale: float) -> Facts:
    """Return the cost and the throughput of two workers, as ratios to those of one broker."""
    cores = sorted(os.sched_getaffinity(0))[:WORKERS]
    if len(cores) < WORKERS:
        raise BenchmarkError(f"workers are measured on {WORKERS} cores")
    folder.mkdir(parents=True)
    one = start_polylog(folder / "one")
    sides = {"one": Side(one, [one.pid], [one.port], cores[:1])}
    try:
        target, pids, ports = _start_workers(folder / "two")
        sides["two"] = Side(target, pids, ports, cores)
        return _compare(programs, sides, scale)
    finally:
        for side in sides.values():
            side.target.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _start_workers(folder: Path) -> tuple[Target, list[int], list[int]]:
    """Start workers; return the supervisor, the workers' processes and their own ports."""
    log = folder.with_suffix(".log")
    command = [*polylog_command(folder, free_port()), "--workers", str(WORKERS)]
    process = launch(command, log)
    port = int(wait_for_line(process, log, ADDRESS))
    target = Target("workers", process, port, log)

    def ports() -> list[int]:
        body = {"topics": [], "allow_auto_topic_creation": False}
        with Client(port) as client:
            brokers = client.ask("Metadata", METADATA_VERSION, body)["brokers"]
        return [each["port"] for each in sorted(brokers, key=lambda each: int(each["node_id"]))]

    until(lambda: len(ports()) == WORKERS)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return target, sorted(map(int, children)), ports()


def _compare(programs: Programs, sides: dict[str, Side], scale: float) -> Facts:
    found: Facts = {"wrong": 0.0}
    for name, (command, options) in LOADS.items():
        for side in sides.values():
            _create(side)
            _run(programs, side, "produce", STORED)
        runs: dict[str, list[tuple[float, float, float]]] = {each: [] for each in sides}
        for pair in range(-1, PAIRS):  # the first one warms up
            for each in sorted(sides, reverse=pair % 2 == 0):
                machine.drain()
                run = _run(programs, sides[each], command, scaled(options, scale))
                if pair >= 0:
                    runs[each].append(run)
        pairs = list(zip(runs["two"], runs["one"], strict=True))
        found[f"{name}_cost_ratio"] = median(two[0] / one[0] for two, one in pairs)
        found[f"{name}_gain"] = median(two[1] / one[1] for two, one in pairs)
        found[f"{name}_busy"] = median(two[2] for two, _ in pairs)
        for side in sides.values():
            _delete(side)
    return found


def _topics(side: Side) -> list[str]:
    return [f"topic-{place}" for place in range(len(side.ports))]


def _create(side: Side) -> None:
    topics = [
        topic_on(name, PARTITIONS, _node_id(port))
        for name, port in zip(_topics(side), side.ports, strict=True)
    ]
    with Client(side.ports[0]) as client:
        answer = client.ask("CreateTopics", 5, {"topics": topics, "timeout_ms": 60_000})
        check(each["error_code"] for each in answer["topics"])
    until(lambda: all(_has_leaders(port, _topics(side)) for port in side.ports))


def _delete(side: Side) -> None:
    for name in _topics(side):
        with Client(side.ports[0]) as client:
            answer = client.ask("DeleteTopics", 3, {"topic_names": [name], "timeout_ms": 60_000})
            check(each["error_code"] for each in answer["responses"])


def _node_id(port: int) -> int:
    """Return the id of the broker at a port."""
    body = {"topics": [], "allow_auto_topic_creation": False}
    with Client(port) as client:
        brokers = client.ask("Metadata", METADATA_VERSION, body)["brokers"]
    return next(int(each["node_id"]) for each in brokers if each["port"] == port)


def _has_leaders(port: int, topics: Sequence[str]) -> bool:
    named = [{"name": each} for each in topics]
    with Client(port) as client:
        body = {"topics": named, "allow_auto_topic_creation": False}
        shown = client.ask("Metadata", METADATA_VERSION, body)["topics"]
    partitions = [each for topic in shown for each in topic["partitions"]]
    return len(partitions) == PARTITIONS * len(topics) and all(
        each["leader_id"] >= 0 for each in partitions
    )


def _run(
    programs: Programs, side: Side, command: str, options: Options
) -> tuple[float, float, float]:
    """Return processor seconds per GB of the brokers, GB per second, and how many cores they had.

    All load generators run at the same time.
    """
    for pid, core in zip(side.pids, side.cores, strict=True):
        machine.allow_cores(pid, {core})
    before, since = _used(side), time.monotonic()
    with ThreadPoolExecutor(len(side.ports)) as threads:
        loads = [
            partial(_load, programs, port, core, command, {**options, "topic": topic})
            for port, core, topic in zip(side.ports, side.cores, _topics(side), strict=True)
        ]
        running = [threads.submit(each) for each in loads]
        bytes_moved = sum(each.result()["bytes"] for each in running)
    seconds, used = time.monotonic() - since, _used(side) - before
    return used / bytes_moved * GB, bytes_moved / GB / seconds, used / seconds


def _load(programs: Programs, port: int, core: int, command: str, options: Options) -> Facts:
    os.sched_setaffinity(0, {core})  # of this thread, and of the program that it starts
    facts = run_load(programs, port, command, {"partitions": PARTITIONS, **options})
    if facts["wrong"]:
        raise BenchmarkError("records are missing or misplaced")
    return facts


def _used(side: Side) -> float:
    return sum(map(machine.process_seconds, side.pids))
