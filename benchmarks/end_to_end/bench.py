"""Measure the broker and compare it with a minimal server: `make bench`.

A real broker process and the floor program run at the same time; each workload runs against one and
then the other, round after round, in a rotating order. Costs are processor time per GB and per
request. The relevant figure is the ratio to the floor in the same round, because the speed of a
shared machine changes from minute to minute.
"""

import argparse
import datetime as dt
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.cluster.rows import CLUSTER_ROWS
from benchmarks.end_to_end import lifecycle, machine, report
from benchmarks.end_to_end.report import Results
from benchmarks.end_to_end.rows import (
    IDLE,
    LIFECYCLE_ROWS,
    RECOVERY,
    ROWS,
    START,
    Floor,
    LifecycleRow,
    Row,
)
from benchmarks.end_to_end.targets import (
    BEFORE,
    OURS,
    BenchmarkError,
    Target,
    start_before,
    start_floor,
    start_kafka,
    start_polylog,
)
from benchmarks.end_to_end.trials import Facts, Programs, Workload
from tests.support import etcd

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"

ROUNDS, QUICK_ROUNDS = 5, 2
QUICK_SCALE = 0.25
JIT_ROWS = ("produce-16k", "produce-1rec", "fetch-64k", "latency-10000")  # loads that warm up a JVM
JIT_ROUNDS = 3
RECOVERY_ROUNDS_MAX = 3  # each writes and reads a GB


@dataclass(frozen=True)
class Settings:
    """The options of the command line."""

    rounds: int
    scale: float
    patterns: Sequence[str]
    programs: Programs
    recycled: bool
    before: Path | None

    def wants(self, row: str) -> bool:
        """Return whether a row is selected."""
        return any(fnmatch(row, pattern) for pattern in self.patterns)


def say(text: str) -> None:
    """Print progress to stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def parse(arguments: Sequence[str]) -> Settings:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("rows", nargs="*", default=["*"], help="names or patterns of rows")
    parser.add_argument("--rounds", type=int, help=f"rounds of each row ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and less data")
    parser.add_argument("--programs", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--recycled", action="store_true", help="the floor writes over old files")
    parser.add_argument("--kafka-jars", type=Path, help="run Apache Kafka beside, from its jars")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="PYTHON",
        help="run another commit beside: the interpreter of a venv that has it installed",
    )
    given = parser.parse_args(arguments)
    return Settings(
        rounds=given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS),
        scale=QUICK_SCALE if given.quick else 1.0,
        patterns=given.rows,
        programs=Programs(
            given.programs / "load",
            given.programs / "floor",
            given.kafka_jars or _jars_of_environment(),
        ),
        recycled=given.recycled,
        before=given.before,
    )


def _jars_of_environment() -> Path | None:
    named = os.environ.get("KAFKA_LIBS")
    return Path(named) if named else None


# ---- workloads ----------------------------------------------------------------------------------


@contextmanager
def started(settings: Settings, folder: Path) -> Iterator[list[Target]]:
    """Start all targets, and stop them at the end."""
    with ExitStack() as stack:
        targets: list[Target] = []

        def add(target: Target) -> None:
            targets.append(target)
            stack.callback(target.stop)

        add(start_polylog(folder / "polylog"))
        if settings.before:
            add(start_before(settings.before, folder / BEFORE))
        add(start_floor(settings.programs.floor, folder / "floor", recycled=settings.recycled))
        if settings.programs.kafka_jars:
            say("starting and warming up Apache Kafka")
            add(start_kafka(settings.programs.kafka_jars, folder / "kafka"))
            warm_up(targets[-1], settings, folder)
        yield targets


def warm_up(target: Target, settings: Settings, folder: Path) -> None:
    """Run loads until the JVM has compiled their code."""
    for row in ROWS:
        if row.name not in JIT_ROWS:
            continue
        workload = Workload(row, settings.programs, folder, 1.0)
        workload.prepare(target)
        for _ in range(JIT_ROUNDS):
            workload.run(target)
        workload.finish(target)


def run_row(
    row: Row, targets: Sequence[Target], settings: Settings, folder: Path, results: Results
) -> None:
    """Run a workload against all targets, once to warm up and then in rounds."""
    workload = Workload(row, settings.programs, folder, settings.scale)
    if row.is_limited:  # the commit before may have no quotas
        targets = [target for target in targets if target.name == OURS]
    if row.is_ours:
        targets = [target for target in targets if target.name in (OURS, BEFORE)]
    served = [target for target in targets if _is_served(row, target)]
    try:
        for target in served:
            workload.prepare(target)
            workload.run(target)
        for number in range(settings.rounds):
            turn = number % len(served)
            for target in [*served[turn:], *served[:turn]]:
                facts = workload.run(target)
                results.add(row.name, target.name, facts)
                say(f"  {number + 1}/{settings.rounds} {target.name} {_brief(row, facts)}")
    finally:
        for target in served:
            workload.finish(target)


def _is_served(row: Row, target: Target) -> bool:
    if row.background is not None:  # the floor program has no API for background loads
        return target.name != "floor"
    if row.floor is Floor.NONE:
        return target.name in (OURS, BEFORE)
    return target.name != "floor" or row.floor is Floor.SERVER


def _brief(row: Row | LifecycleRow, facts: Facts) -> str:
    text = (f"{facts.get(figure.fact, 0):.2f} {figure.unit}" for figure in row.figures)
    return ", ".join(text) + (" WRONG" if facts["wrong"] else "")


def run_workloads(settings: Settings, folder: Path, results: Results) -> None:
    """Run all rows that share one broker process."""
    rows = [row for row in ROWS if settings.wants(row.name)]
    if not rows:
        return
    with started(settings, folder) as targets:
        for row in rows:
            say(f"{row.name}: {row.command}")
            try:
                run_row(row, targets, settings, folder, results)
            except BenchmarkError as error:
                results.failures[row.name] = str(error)
                say(f"  failed: {error}")
            for target in targets:
                target.check()


# ---- rows with a process of their own -----------------------------------------------------------


def run_lifecycle(settings: Settings, folder: Path, results: Results) -> None:
    """Run the rows with a broker process of their own."""
    programs = settings.programs
    measures: dict[str, tuple[int, Callable[[], Facts]]] = {
        START.name: (settings.rounds, lambda: lifecycle.measure_start(programs, folder)),
        IDLE.name: (1, lambda: lifecycle.measure_idle(programs, folder)),
        RECOVERY.name: (
            min(settings.rounds, RECOVERY_ROUNDS_MAX),
            lambda: lifecycle.measure_recovery(programs, folder, settings.scale),
        ),
    }
    for row in LIFECYCLE_ROWS:
        if not settings.wants(row.name):
            continue
        rounds, measure = measures[row.name]
        try:
            if row is START:
                measure()  # reads the program's files: the goal is for a warm cache
            for number in range(rounds):
                facts = measure()
                results.add(row.name, OURS, facts)
                figures = (f"{facts[figure.fact]:.3f} {figure.unit}" for figure in row.figures)
                say(f"{row.name} {number + 1}/{rounds} {', '.join(figures)}")
        except BenchmarkError as error:
            results.failures[row.name] = str(error)
            say(f"  failed: {error}")


def run_cluster(settings: Settings, folder: Path, results: Results) -> None:
    """Run the rows of a cluster, those on etcd if it is installed."""
    for row in CLUSTER_ROWS:
        if not settings.wants(row.name):
            continue
        if row.needs_etcd and etcd.PROGRAM is None:
            results.skipped[row.name] = etcd.REASON
            continue
        if row.needs_kafka and settings.programs.kafka_jars is None:
            results.skipped[row.name] = "KAFKA_LIBS names no folder of Apache Kafka's jars"
            continue
        try:
            for number in range(min(settings.rounds, row.rounds_max)):
                facts = row.measure(settings.programs, folder / row.name, settings.scale)
                results.add(row.name, OURS, facts)
                say(f"{row.name} {number + 1} {_brief(row, facts)}")
        except BenchmarkError as error:
            results.failures[row.name] = str(error)
            say(f"  failed: {error}")


# ---- the whole ----------------------------------------------------------------------------------


def about(settings: Settings) -> dict[str, object]:
    """Return facts about the run: time, commit, machine, options."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        check=False,
        capture_output=True,
        text=True,
    ).stdout.strip()
    return {
        "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "machine": machine.describe(),
        "rounds": settings.rounds,
        "scale": settings.scale,
        "segment_files": "fresh; floor: recycled" if settings.recycled else "fresh",
        "GB": "1e9 bytes of record batches",
    }


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, write the file; return 1 if a row was wrong or failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that files are removed
    settings = parse(arguments)
    results = Results()
    facts = about(settings)
    # In the checkout, so that it is on a disk and not in a tmpfs.
    (ROOT / "build").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-data-", dir=ROOT / "build"))
    try:
        run_workloads(settings, folder, results)
        run_lifecycle(settings, folder, results)
        run_cluster(settings, folder, results)
    except BenchmarkError as error:
        results.failures["bench"] = str(error)
        say(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows: tuple[Row | LifecycleRow, ...] = (*ROWS, *LIFECYCLE_ROWS, *CLUSTER_ROWS)
    path = RESULTS / f"{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}.json"
    report.write_json(path, results, rows, facts)
    sys.stdout.write(f"{report.table(results, rows)}\n\n")
    sys.stdout.write(f"{facts['machine']}; segment files: {facts['segment_files']}; {path}\n")
    return 1 if results.wrong or results.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
