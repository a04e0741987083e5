"""Metrics as text, as Prometheus' own parsers read it."""

import pytest
from prometheus_client.openmetrics import parser as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from broker._native.kernel.histogram import BOUNDS_US, bucket_of
from broker.core.metrics.registry import METRICS, Kind
from broker.core.metrics.text import END, Sample, family, wants_open_metrics

_TIMES = (tuple(range(len(BOUNDS_US) + 1)), 1_500_000)


def _page(*, is_open: bool) -> str:
    lines: list[str] = []
    for metric in METRICS.values():
        labels = tuple('with "quotes", \\ and\nlines' for _ in metric.labels)
        value = _TIMES if metric.kind is Kind.HISTOGRAM else 7
        lines += family(metric, [Sample(labels, value)], is_open=is_open)
    return "\n".join([*lines, *([END] if is_open else [])]) + "\n"


@pytest.mark.parametrize("is_open", [False, True])
def test_every_metric_is_read_by_prometheus(is_open: bool) -> None:
    """Both formats: names, labels with any text, histograms, and no name twice."""
    parse = (
        open_metrics.text_string_to_metric_families if is_open else text_string_to_metric_families
    )
    families = list(parse(_page(is_open=is_open)))
    names = [each.name for each in families]
    assert len(names) == len(set(names))
    found = {sample.name for each in families for sample in each.samples}
    for metric in METRICS.values():
        shown = f"{metric.name}_count" if metric.kind is Kind.HISTOGRAM else metric.name
        assert {shown, *(alias.name for alias in metric.aliases)} <= found
    for each in families:
        for sample in each.samples:
            for name, value in sample.labels.items():
                assert name == "le" or value == 'with "quotes", \\ and\nlines'


def test_the_alias_of_a_histogram_has_its_count() -> None:
    metric = METRICS["polylog_request_seconds"]

    lines = list(family(metric, [Sample(("Produce",), _TIMES)], is_open=False))

    name = "kafka_network_requestmetrics_totaltimems_count"
    assert lines[-1] == f'{name}{{request="Produce"}} {sum(_TIMES[0])}'


def test_names_follow_the_rules() -> None:
    """Counters end in _total, and units are suffixes."""
    for metric in METRICS.values():
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert metric.name.removesuffix("_total").endswith(f"_{metric.unit}".rstrip("_"))
        for alias in metric.aliases:
            assert len(alias.labels) == len(metric.labels)


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", True),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.5", False),
        ("application/openmetrics-text;q=x", False),
    ],
)
def test_a_client_gets_what_it_prefers(accept: str, is_open: bool) -> None:
    """OpenMetrics only for those who name it."""
    assert wants_open_metrics(accept) is is_open


def test_a_time_is_counted_in_the_first_bucket_that_holds_it() -> None:
    """At each bound, below and above it."""
    for place, bound in enumerate(BOUNDS_US):
        assert bucket_of(bound) == place
        assert bucket_of(bound + 1) == place + 1
    assert bucket_of(-5) == bucket_of(0) == 0
