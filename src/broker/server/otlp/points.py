"""From a page of metrics, in Prometheus' text, to the values of the registry's metrics.

Only what core/metrics/text.py writes is understood. Aliases are left out: they repeat values.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from broker.core.metrics.registry import METRICS, Kind, Metric

_LINE: Final = re.compile(r"(polylog_\w+)(?:\{(.*)\})? (\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_INFINITY: Final = "+Inf"


class Distribution(NamedTuple):
    """The value of a histogram.

    Attributes:
        bounds: the upper bounds of the buckets, but of the last, which has none.
        counts: of the buckets, each without those below it.
        total: the sum of all that was observed.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class Point(NamedTuple):
    """A series: its labels and its value."""

    labels: Mapping[str, str]
    value: int | float | Distribution


def points_of(page: str) -> Iterator[tuple[Metric, list[Point]]]:
    """Yield the metrics of a page, each with its series."""
    metric: Metric | None = None
    lines: list[tuple[str, str, str]] = []  # of it: what follows its name, labels, value
    for line in page.splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        name, labels, value = found.groups(default="")
        if metric is None or not _is_of(metric, name):
            if metric is not None:
                yield metric, list(_points(metric, lines))
            metric, lines = _metric(name), []
        lines.append((name.removeprefix(metric.name), labels, value))
    if metric is not None:
        yield metric, list(_points(metric, lines))


def _is_of(metric: Metric, name: str) -> bool:
    if metric.kind is Kind.HISTOGRAM:
        return name.rpartition("_")[0] == metric.name
    return name == metric.name


def _metric(name: str) -> Metric:
    found = METRICS.get(name)
    return METRICS[name.rpartition("_")[0]] if found is None else found


def _points(metric: Metric, lines: Iterable[tuple[str, str, str]]) -> Iterator[Point]:
    if metric.kind is not Kind.HISTOGRAM:
        for _, text, value in lines:
            yield Point(_labels(text), _number(value))
        return
    bounds: list[float] = []
    counts: list[int] = []
    total = 0.0
    for part, text, value in lines:
        labels = _labels(text)
        if part == "_bucket":
            counts.append(int(value) - sum(counts))
            bound = labels["le"]
            if bound != _INFINITY:
                bounds.append(float(bound))
        elif part == "_sum":
            total = float(value)
        else:  # the count is the last line of a series
            yield Point(labels, Distribution(tuple(bounds), tuple(counts), total))
            bounds, counts = [], []


def _labels(text: str) -> dict[str, str]:
    return {name: _unescaped(value) for name, value in _LABEL.findall(text)}


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda each: "\n" if each[1] == "n" else each[1], text)


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)
