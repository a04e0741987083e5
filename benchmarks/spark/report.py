"""Prints medians of the rounds as a table, and all rounds as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, Final

from benchmarks.spark.goals import Verdict, verdicts
from benchmarks.spark.measuring import Cost
from benchmarks.spark.rows import Row

_SHARES: Final = ("jvm", "workers", "spark", "broker")
_HEADINGS: Final = ("JVM", "workers", "Spark", "broker")

Costs = Mapping[str, Sequence[Cost]]


def table(rows: Sequence[Row], costs: Costs) -> Iterator[str]:
    """Yield a line per row, then per goal."""
    measured = [each for each in rows if costs[each.name]]
    yield _line("", "M rows/s", *(f"{each} us" for each in _HEADINGS))
    for row in measured:
        if not row.is_per_trigger:
            speed = median(row.records / each.seconds for each in costs[row.name]) / 1e6
            shares = _shares(row, costs[row.name], 1e6)
            yield _line(row.name, f"{speed:.2f}", *(f"{each:.3f}" for each in shares))
    if any(each.is_per_trigger for each in measured):
        yield ""
        yield _line("", "ms", *(f"{each} ms" for each in _HEADINGS))
    for row in measured:
        if row.is_per_trigger:
            time = median(each.seconds for each in costs[row.name]) / row.records * 1e3
            shares = _shares(row, costs[row.name], 1e3)
            yield _line(row.name, f"{time:.0f}", *(f"{each:.1f}" for each in shares))
    yield ""
    judged = verdicts(rows, costs)
    width = max((len(each.goal.text()) for each in judged), default=0)
    for each in judged:
        value = f"{each.value:.3g} ({each.least:.3g} to {each.greatest:.3g})"
        yield f"{'met   ' if each.is_met else 'MISSED'}  {each.goal.text():{width}}  {value}"


def as_json(rows: Sequence[Row], costs: Costs, left_out: Sequence[str]) -> str:
    """Return all rounds of all rows in seconds, and the goals, as JSON."""
    document: dict[str, Any] = {
        "rows": [
            {
                "name": each.name,
                "records": each.records,
                "rounds": [asdict(cost) for cost in costs[each.name]],
            }
            for each in rows
        ],
        "goals": [_fields(each) for each in verdicts(rows, costs)],
        "left_out": list(left_out),
    }
    return json.dumps(document, indent=1)


def _fields(verdict: Verdict) -> dict[str, Any]:
    return {
        "goal": verdict.goal.text(),
        "value": verdict.value,
        "least": verdict.least,
        "greatest": verdict.greatest,
        "is_met": verdict.is_met,
    }


def _shares(row: Row, costs: Sequence[Cost], scale: float) -> list[float]:
    return [median(getattr(each, name) for each in costs) / row.records * scale for name in _SHARES]


def _line(name: str, *cells: str) -> str:
    return f"{name:24}" + "".join(f"{each:>12}" for each in cells)
