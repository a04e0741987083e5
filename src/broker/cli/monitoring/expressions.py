"""What an expression of Prometheus (PromQL) says of metrics, as far as tests compare it with them.

Only what the expressions of this folder use is understood: no text in a matcher has a bracket.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.core.metrics.registry import METRICS, Kind, Metric

_SELECTOR: Final = re.compile(r"\b(polylog_\w+)(?:\{([^}]*)\})?")
_MATCHER: Final = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
_GROUPING: Final = re.compile(r"\b(?:by|without|on|ignoring) \(([^)]*)\)")
_OF_HISTOGRAMS: Final = ("_bucket", "_sum", "_count")


class Selector(NamedTuple):
    """The series that a part of an expression selects.

    Attributes:
        metric: whose they are.
        matchers: the values of labels that they have.
        labels: all labels by which they are selected.
    """

    metric: Metric
    matchers: dict[str, str]
    labels: frozenset[str]


def selectors(expression: str) -> Iterator[Selector]:
    """Yield the selectors of an expression; KeyError for a metric that is not registered."""
    for name, matchers in _SELECTOR.findall(expression):
        found = _MATCHER.findall(matchers)
        equal = {label: value for label, how, value in found if how == "="}
        yield Selector(_metric(name), equal, frozenset(label for label, _, _ in found))


def grouped_by(expression: str) -> set[str]:
    """Return the labels by which an expression groups."""
    found = ",".join(_GROUPING.findall(expression)).split(",")
    return {each.strip() for each in found} - {""}


def _metric(name: str) -> Metric:
    for suffix in _OF_HISTOGRAMS:
        of_histogram = METRICS.get(name.removesuffix(suffix))
        if name.endswith(suffix) and of_histogram and of_histogram.kind is Kind.HISTOGRAM:
            return of_histogram
    return METRICS[name]
