"""Medians over the rounds and ratios within rounds, as a table and as a JSON file."""

import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.end_to_end.rows import Figure, Goal, LifecycleRow, Row
from benchmarks.end_to_end.targets import OURS
from benchmarks.end_to_end.trials import Facts

DIGITS = ((0, 100), (1, 10), (2, 0.1))  # behind the point, for values from that size on
LEGEND = """\
Medians over the rounds; ratios are within rounds: median (minimum-maximum). floor: a minimal
server, on durable rows a loop of write and fdatasync. machine and generator: processor time of all
cores, including writeback, and of the load generator, per GB on rows in CPU-s/GB, otherwise
in us per request. GB: 1e9 bytes of record batches."""
HEADINGS = ("row", "figure", OURS, "goal", "met")
CONTEXT = (  # facts shown beside the first figure of a row: heading, fact per GB, per request
    ("machine", "machine_cpu_s_per_gb", "machine_cpu_us_per_request"),
    ("generator", "generator_cpu_s_per_gb", "generator_cpu_us_per_request"),
    ("MB/s", "mb_per_s", "mb_per_s"),
    ("req/s", "requests_per_s", "requests_per_s"),
    ("RssAnon MB", "rss_anon_mb", "rss_anon_mb"),
    ("PSS MB", "pss_mb", "pss_mb"),
)


@dataclass
class Results:
    """All facts of a run, by row, target and round."""

    facts: dict[str, dict[str, list[Facts]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # by row
    skipped: dict[str, str] = field(default_factory=dict)  # reasons, by row

    def add(self, row: str, target: str, facts: Facts) -> None:
        """Add the facts of one trial."""
        self.facts.setdefault(row, {}).setdefault(target, []).append(facts)

    def targets(self) -> list[str]:
        """Return the names of all targets but ours, in the order of their first trial."""
        names = (name for by_target in self.facts.values() for name in by_target)
        return [name for name in dict.fromkeys(names) if name != OURS]

    def values(self, row: str, target: str, fact: str) -> list[float]:
        """Return a fact of every round that has it."""
        trials = self.facts.get(row, {}).get(target, [])
        return [facts[fact] for facts in trials if fact in facts]

    def median(self, row: str, target: str, fact: str) -> float | None:
        """Return the median over the rounds."""
        values = self.values(row, target, fact)
        return statistics.median(values) if values else None

    def ratios(self, row: str, target: str, fact: str) -> list[float]:
        """Return the ratios of our values to another target's, by round."""
        pairs = zip(self.values(row, OURS, fact), self.values(row, target, fact), strict=False)
        return [ours / theirs for ours, theirs in pairs if theirs]

    @property
    def wrong(self) -> int:
        """The number of trials of our broker that lost, duplicated or misplaced records."""
        return sum(
            facts.get("wrong", 0) > 0 for row in self.facts.values() for facts in row.get(OURS, [])
        )


@dataclass(frozen=True)
class Verdict:
    """A goal and its measured value; None if the compared value was not measured."""

    goal: Goal
    value: float | None

    @property
    def word(self) -> str:
        """Return yes, NO, or a dash if nothing was measured."""
        if self.value is None:
            return "-"
        return "yes" if self.goal.is_met(self.value) else "NO"


def verdicts(results: Results, row: str, figure: Figure) -> Iterator[Verdict]:
    """Yield the goals of a figure that apply to this run."""
    running = results.targets()
    for goal in figure.goals:
        if goal.when_target and goal.when_target not in running:
            continue
        if goal.unless_target and goal.unless_target in running:
            continue
        yield Verdict(goal, _value(results, row, figure.fact, goal))


def _value(results: Results, row: str, fact: str, goal: Goal) -> float | None:
    ours = results.median(row, OURS, fact)
    if goal.over_target:
        ratios = results.ratios(row, goal.over_target, fact)
        return statistics.median(ratios) if ratios else None
    if goal.over_row:
        other = results.median(goal.over_row, OURS, fact)
        return ours / other if ours is not None and other else None
    return ours


# ---- the table --------------------------------------------------------------------------------


def table(results: Results, rows: Iterable[Row | LifecycleRow]) -> str:
    """Return the table of all measured rows."""
    others = results.targets()
    headings = [*HEADINGS[:3]]
    for other in others:
        headings += [other, f"x {other}"]
    headings += [*HEADINGS[3:], *(heading for heading, _, _ in CONTEXT)]
    lines, failed = [headings], []
    for row in rows:
        if row.name in results.failures:
            failed.append(f"{row.name} failed: {results.failures[row.name]}")
        elif row.name in results.skipped:
            failed.append(f"{row.name} skipped: {results.skipped[row.name]}")
        elif row.name in results.facts:
            lines += [
                _line(results, row, figure, others, is_first=position == 0)
                for position, figure in enumerate(row.figures)
            ]
    return "\n".join([*_aligned(lines), *failed, "", LEGEND])


def _line(
    results: Results,
    row: Row | LifecycleRow,
    figure: Figure,
    others: Sequence[str],
    *,
    is_first: bool,
) -> list[str]:
    found = list(verdicts(results, row.name, figure))
    cells = [row.name if is_first else "", figure.unit]
    cells.append(_number(results.median(row.name, OURS, figure.fact)))
    for other in others:
        cells.append(_number(results.median(row.name, other, figure.fact)))
        cells.append(_range(results.ratios(row.name, other, figure.fact)))
    cells.append(" and ".join(_goal_text(verdict) for verdict in found))
    cells.append(" ".join(verdict.word for verdict in found))
    if is_first:
        per_gb = figure.fact.endswith("per_gb")
        facts = (of_gb if per_gb else of_request for _, of_gb, of_request in CONTEXT)
        cells += [_number(results.median(row.name, OURS, fact)) for fact in facts]
    return cells


def _goal_text(verdict: Verdict) -> str:
    if verdict.goal.over_row is None:
        return verdict.goal.text
    return f"{verdict.goal.text} (is {_number(verdict.value)})"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    digits = next((digits for digits, least in DIGITS if abs(value) >= least), 3)
    return f"{value:,.{digits}f}"


def _range(ratios: Sequence[float]) -> str:
    """Return the median of ratios and, of several, their range."""
    if not ratios:
        return ""
    middle = _number(statistics.median(ratios))
    if len(ratios) == 1:
        return middle
    return f"{middle} ({_number(min(ratios))}-{_number(max(ratios))})"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [
        max((len(line[column]) for line in lines if column < len(line)), default=0)
        for column in range(len(lines[0]))
    ]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip()
        for line in lines
    ]
    return [text[0], "-" * len(text[0]), *text[1:]]


# ---- the file ---------------------------------------------------------------------------------


def write_json(
    path: Path, results: Results, rows: Iterable[Row | LifecycleRow], about: dict[str, object]
) -> None:
    """Write all measured values, with the medians and goals of the table."""
    summary = [
        {
            "row": row.name,
            "fact": figure.fact,
            "unit": figure.unit,
            "medians": {
                target: results.median(row.name, target, figure.fact)
                for target in results.facts[row.name]
            },
            "goals": [
                {"goal": verdict.goal.text, "value": verdict.value, "met": verdict.word}
                for verdict in verdicts(results, row.name, figure)
            ],
        }
        for row in rows
        if row.name in results.facts
        for figure in row.figures
    ]
    document = {
        **about,
        "summary": summary,
        "failures": results.failures,
        "trials": results.facts,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
