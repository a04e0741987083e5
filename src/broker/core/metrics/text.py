"""Prometheus' text format and OpenMetrics."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from broker._native.kernel.histogram import BOUNDS_US
from broker.core.metrics.registry import Alias, Kind, Metric
from broker.model.measures import HistogramState

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
END: Final = "# EOF"  # of OpenMetrics
_US: Final = 1_000_000
_BOUNDS: Final = (*(f"{bound / _US:.6f}".rstrip("0") for bound in BOUNDS_US), "+Inf")

Number: TypeAlias = int | float


class Sample(NamedTuple):
    """A series of a metric: the values of its labels, in order, and its own."""

    labels: tuple[str, ...]
    value: Number | HistogramState


def wants_open_metrics(accept: str) -> bool:
    """Return whether a client that accepts these types wants OpenMetrics; text without a wish."""
    quality = _quality(accept, "application/openmetrics-text")
    return quality > 0 and quality >= _quality(accept, "text/plain")


def family(metric: Metric, samples: Iterable[Sample], *, is_open: bool) -> Iterator[str]:
    """Yield the lines of a metric and of its aliases; none without samples."""
    found = list(samples)
    if not found:
        return
    yield from _head(metric.name, metric.kind, metric.text, metric.unit, is_open=is_open)
    for labels, value in found:
        named = _pairs(metric.labels, labels)
        if isinstance(value, tuple):
            yield from _histogram(metric.name, named, value)
        else:
            yield f"{metric.name}{_braces(named)} {_number(value)}"
    for alias in metric.aliases:
        yield from _alias(metric, alias, found, is_open=is_open)


def _alias(metric: Metric, alias: Alias, found: list[Sample], *, is_open: bool) -> Iterator[str]:
    kind = Kind.COUNTER if alias.name.endswith("_total") else Kind.GAUGE
    yield from _head(alias.name, kind, f"Alias of {metric.name}.", "", is_open=is_open)
    fixed = "".join(f',{name}="{value}"' for name, value in alias.fixed.items())
    for labels, value in found:
        named = (_pairs(alias.labels, labels) + fixed).lstrip(",")
        shown = sum(value[0]) if isinstance(value, tuple) else value
        yield f"{alias.name}{_braces(named)} {_number(shown)}"


def _head(name: str, kind: Kind, text: str, unit: str, *, is_open: bool) -> Iterator[str]:
    shown = name.removesuffix("_total") if is_open and kind is Kind.COUNTER else name
    yield f"# HELP {shown} {text}"
    yield f"# TYPE {shown} {kind.value}"
    if is_open and unit:
        yield f"# UNIT {shown} {unit}"


def _histogram(name: str, named: str, state: HistogramState) -> Iterator[str]:
    counts, sum_us = state
    total = 0
    comma = "," if named else ""
    for bound, count in zip(_BOUNDS, counts, strict=True):
        total += count
        yield f'{name}_bucket{{{named}{comma}le="{bound}"}} {total}'
    yield f"{name}_sum{_braces(named)} {sum_us / _US}"
    yield f"{name}_count{_braces(named)} {total}"


def _pairs(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    return ",".join(
        [f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True)]
    )


def _braces(named: str) -> str:
    return f"{{{named}}}" if named else ""


def _number(value: Number) -> str:
    return str(value) if isinstance(value, int) else repr(value)


def escaped(text: str) -> str:
    """Return the text of a label's value."""
    if text.isalnum():
        return text
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _quality(accept: str, kind: str) -> float:
    """Return the quality of a type in a field Accept; 0: it is not named."""
    best = 0.0
    for each in accept.split(","):
        name, *parameters = (part.strip() for part in each.split(";"))
        if name != kind:
            continue
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.0
        best = max(best, quality)
    return best
