"""Measure the log and compare it with lower bounds: `make bench SUITE=storage`.

Costs are processor time. Compared values are measured alternately in one run, because the speed of
a shared machine changes from minute to minute.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.end_to_end import machine
from benchmarks.storage import appends, lookups, retention, verify
from benchmarks.storage.appends import GROUP_COMMIT, MAPPED, MEMORY, OS, SHAPES, Costs, Goal

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("append", "lookup", "retention", "verify")
ROUNDS, QUICK_ROUNDS, QUICK_SCALE = 7, 3, 0.25
RETENTION_ROUNDS_MAX = 3
APPEND_LEGEND = """\
CPU ns per batch, medians over the rounds: of the appending thread, and / of all threads. memory,
pwrite, staged (one write per turn) and mapped (pages populated ahead by a thread) are CRC-32C and
the copy alone; validate is our validation: header, CRC, every record. Batches have records of 1 KB,
those of 160 B one record; a turn has 64, 1, 32, 4 and 1 of them."""


def say(text: str) -> None:
    """Print progress to stderr."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="make bench SUITE=storage", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="the parts to run")
    parser.add_argument("--rounds", type=int, help=f"rounds of each row ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and less data")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    given = parser.parse_args(arguments)
    rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
    scale = QUICK_SCALE if given.quick else 1.0
    facts: dict[str, object] = {"machine": machine.describe(), "rounds": rounds}
    tables: list[str] = []
    goals: dict[str, bool] = {}
    # In the checkout, so that it is on a disk and not in a tmpfs.
    (ROOT / "build").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-data-", dir=ROOT / "build"))
    try:
        for part in given.parts or PARTS:
            say(part)
            table, found, met = _PARTS[part](folder, rounds, scale)
            facts[part] = found
            goals |= met
            tables.append(table)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if given.output == "json":
        print(json.dumps({**facts, "goals": goals}, indent=1))
    else:
        print("\n\n".join([*tables, str(facts["machine"])]))
    for goal in (goal for goal, is_met in goals.items() if not is_met):
        say(f"missed: {goal}")
    return 0 if all(goals.values()) else 1


Part = tuple[str, object, dict[str, bool]]  # a table, all values, whether goals were met


def append_part(folder: Path, rounds: int, scale: float) -> Part:
    """Measure appends."""
    results: appends.Results = {}
    for shape, so_far in appends.measure(folder, rounds, scale):
        say(f"  {shape.name}")
        results = so_far
    goals: dict[str, bool] = {}
    lines = [["batch", *appends.PARTICIPANTS, f"{OS} over memory, mapped"]]
    for shape, wanted in SHAPES.items():
        costs = results[shape.name]
        over = [statistics.median(_ratios(costs, floor)) for floor in (MEMORY, MAPPED)]
        cells = [_cost(name, costs[name]) for name in appends.PARTICIPANTS]
        lines.append([shape.name, *cells, ", ".join(f"{ratio:.2f}" for ratio in over)])
        for goal in wanted:
            goals[_goal_name(shape.name, goal)] = _is_met(costs, goal)
    found = {
        shape: {name: vars(cost) for name, cost in costs.items()}
        for shape, costs in results.items()
    }
    return _table(lines) + "\n" + APPEND_LEGEND, found, goals


def _cost(name: str, costs: Costs) -> str:
    thread, process = statistics.median(costs.thread), statistics.median(costs.process)
    has_others = name in {OS, GROUP_COMMIT, MAPPED}
    return f"{thread:,.0f}" + (f" / {process:,.0f}" if has_others else "")


def _ratios(costs: dict[str, Costs], floor: str) -> list[float]:
    pairs = zip(costs[OS].thread, costs[floor].thread, strict=True)
    return [ours / theirs for ours, theirs in pairs]


def _goal_name(shape: str, goal: Goal) -> str:
    return f"append {shape} <= {goal.limit:g}" + (f"x {goal.floor}" if goal.floor else " ns")


def _is_met(costs: dict[str, Costs], goal: Goal) -> bool:
    values = _ratios(costs, goal.floor) if goal.floor else costs[OS].thread
    return statistics.median(values) <= goal.limit


def lookup_part(folder: Path, rounds: int, _scale: float) -> Part:
    """Measure lookups."""
    found = lookups.measure(folder, rounds)
    lines = [["offset lookup", "CPU ns", "least", "greatest"]]
    goals: dict[str, bool] = {}
    for name, costs in found.items():
        cells = (statistics.median(costs), min(costs), max(costs))
        lines.append([name, *(f"{cost:,.0f}" for cost in cells)])
    for lookup in lookups.LOOKUPS:
        if lookup.goal_ns:
            is_met = statistics.median(found[lookup.name]) <= lookup.goal_ns
            goals[f"lookup {lookup.name} <= {lookup.goal_ns:g} ns"] = is_met
    return _table(lines), found, goals


def retention_part(folder: Path, rounds: int, scale: float) -> Part:
    """Measure retention."""
    segments = int(retention.SEGMENTS * scale)
    found = retention.measure(folder, min(rounds, RETENTION_ROUNDS_MAX), segments)
    lines = [[f"retention of {segments:,} segments", "s", "late ms", "own ms", "CPU ms"]]
    for each in found:
        for name, seconds, stall in (
            ("removed from the log and renamed", each.check_s, each.check),
            ("deleted", each.removal_s, each.removal),
            ("nothing done", retention.QUIET_SECONDS, each.quiet),
        ):
            lines.append([name, f"{seconds:.2f}", *(f"{longest:.2f}" for longest in stall)])
    own = statistics.median(max(each.check.own_ms, each.removal.own_ms) for each in found)
    limit = retention.STALL_MS_MAX
    goals = {
        f"retention: stall of the loop <= {limit} ms": own <= limit,
        "retention: only the active segment stays": all(each.left == 1 for each in found),
    }
    legend = """\
Maxima between two ticks of 1 ms: delay of the ticker; the same without the time waiting for a core;
CPU time of the loop's thread."""
    return f"{_table(lines)}\n{legend}", [each._asdict() for each in found], goals


def verify_part(folder: Path, rounds: int, scale: float) -> Part:
    """Measure the check of a segment."""
    found = verify.measure(folder, rounds, scale)
    lines = [["a segment of 16 KB batches", "GB per CPU s", "least", "greatest"]]
    for name, rates in found.items():
        cells = (statistics.median(rates), min(rates), max(rates))
        lines.append([name, *(f"{rate:.2f}" for rate in cells)])
    is_met = statistics.median(found[verify.CHECK]) >= verify.GOAL
    return _table(lines), found, {f"verify >= {verify.GOAL:g} GB/s": is_met}


_PARTS = {
    "append": append_part,
    "lookup": lookup_part,
    "retention": retention_part,
    "verify": verify_part,
}


def _table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = [
        line[0].ljust(widths[0])
        + "".join(
            f"  {cell.rjust(width)}" for cell, width in zip(line[1:], widths[1:], strict=True)
        )
        for line in lines
    ]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
