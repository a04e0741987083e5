"""The process that sends metrics to a collector: `python -m broker.server.otlp.process`.

It reads its settings as one line of JSON from stdin, and then pages of metrics, each after its size
in bytes (uint64) and the time at which it was made (uint64, nanoseconds since 1970). It sends each,
and then writes a line of JSON to stdout: {"error": null}, or why it was not taken. It ends when its
stdin does: with the broker.

Counters are cumulative, from the broker's start on. Names are those of the pages, counters without
_total, which Prometheus adds again; units are UCUM's, which OpenTelemetry uses.
"""

import json
import logging
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, Final, NamedTuple

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from broker.core.metrics import registry
from broker.core.metrics.registry import Kind
from broker.model.otlp_limits import OTLP_REASON_CHARS_MAX
from broker.server.otlp.points import Distribution, Point, points_of

HEAD: Final = struct.Struct(">QQ")
_STARTED: Final = "polylog_start_timestamp_seconds"
_UNITS: Final = {"seconds": "s", "bytes": "By", "ratio": "1", "": ""}
_NS: Final = 1_000_000_000


class Settings(NamedTuple):
    """What the process is started with, sent as JSON.

    Attributes:
        endpoint: the collector's URL.
        headers: of each request.
        timeout_seconds: of each request, with its repetitions.
        attributes: of the broker, OpenTelemetry's resource.
    """

    endpoint: str
    headers: Mapping[str, str]
    timeout_seconds: float
    attributes: Mapping[str, str]


class _Reasons(logging.Handler):
    """Keeps the last warning of the SDK, which returns no reasons."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the beginning of the line."""
        self.last = record.getMessage()[:OTLP_REASON_CHARS_MAX]


def main() -> None:
    """Send pages until stdin ends."""
    reasons = _Reasons()
    logging.getLogger().addHandler(reasons)
    pages, told = sys.stdin.buffer, sys.stdout
    settings = Settings(**json.loads(pages.readline()))
    resource = Resource.create(dict(settings.attributes))
    exporter = OTLPMetricExporter(
        settings.endpoint,
        headers=dict(settings.headers),
        timeout=settings.timeout_seconds,
        compression=Compression.Gzip,
    )
    for made_ns, page in _pages(pages):
        reasons.last = ""
        done = exporter.export(metrics_of(page, made_ns, resource))
        error = None if done is MetricExportResult.SUCCESS else reasons.last or "not taken"
        told.write(json.dumps({"error": error}) + "\n")
        told.flush()


def _pages(pages: BinaryIO) -> Iterator[tuple[int, str]]:
    while len(head := pages.read(HEAD.size)) == HEAD.size:
        size, made_ns = HEAD.unpack(head)
        yield made_ns, pages.read(size).decode()


def metrics_of(page: str, made_ns: int, resource: Resource) -> MetricsData:
    """Return what a page has, as the SDK's own readers would."""
    found = list(points_of(page))
    started_ns = made_ns
    for metric, points in found:
        if metric.name == _STARTED:
            started_ns = int(_plain(points[0]) * _NS)
    metrics = [_metric(metric, points, started_ns, made_ns) for metric, points in found]
    scope = ScopeMetrics(InstrumentationScope("polylog"), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(
    metric: registry.Metric, points: Iterable[Point], started_ns: int, made_ns: int
) -> Metric:
    data: Sum | Gauge | Histogram
    cumulative = AggregationTemporality.CUMULATIVE
    if metric.kind is Kind.HISTOGRAM:
        data = Histogram(list(_distributions(points, started_ns, made_ns)), cumulative)
    else:
        numbers = [
            NumberDataPoint(dict(each.labels), started_ns, made_ns, _plain(each)) for each in points
        ]
        is_counter = metric.kind is Kind.COUNTER
        data = Sum(numbers, cumulative, is_monotonic=True) if is_counter else Gauge(numbers)
    return Metric(metric.name.removesuffix("_total"), metric.text, _UNITS[metric.unit], data)


def _distributions(
    points: Iterable[Point], started_ns: int, made_ns: int
) -> Iterator[HistogramDataPoint]:
    for labels, value in points:
        assert isinstance(value, Distribution)
        yield HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=started_ns,
            time_unix_nano=made_ns,
            count=sum(value.counts),
            sum=value.total,
            bucket_counts=value.counts,
            explicit_bounds=value.bounds,
            min=None,  # type: ignore[arg-type]  # they are optional, and not known here
            max=None,  # type: ignore[arg-type]
        )


def _plain(point: Point) -> int | float:
    assert not isinstance(point.value, Distribution)
    return point.value


if __name__ == "__main__":
    main()
