"""Metrics that are pushed by OTLP, as a collector that decodes the messages sees them."""

import gzip
import os
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.metrics.registry import METRICS, Kind
from tests.support.batches import batch_of
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.metrics_page import metrics_of
from tests.support.ports import HOST
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic, produce

if TYPE_CHECKING:
    from email.message import Message

service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")

RECORDS = 40
PATH = "/v1/metrics"


class Collector:
    """A receiver of OTLP over HTTP. `status` and `reason` are what it answers with."""

    def __init__(self) -> None:
        self.status = 200
        self.reason: str | None = None
        self.requests: list[Any] = []
        self.headers: list[Message] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == PATH
                assert self.headers["Content-Type"] == "application/x-protobuf"
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                collector.headers.append(self.headers)
                collector.requests.append(service.ExportMetricsServiceRequest.FromString(body))
                self.send_response(collector.status, collector.reason)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = HTTPServer((HOST, 0), Handler)
        self.endpoint = f"http://{HOST}:{self._server.server_address[1]}{PATH}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next_metrics(self) -> dict[str, Any]:
        """Return the metrics of a page that is made after now, by name."""
        seen = len(self.requests)
        # One may be on its way, and the next may have the same page, which is kept for a second.
        wait_until(lambda: len(self.requests) > seen + 2, "metrics are pushed")
        return metrics(self.requests[-1])


def metrics(request: Any) -> dict[str, Any]:
    [resource] = request.resource_metrics
    [scope] = resource.scope_metrics
    return {each.name: each for each in scope.metrics}


def attributes(each: Any) -> dict[str, str]:
    return {found.key: found.value.string_value for found in each.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()


def pushing(collector: Collector, *more: str) -> tuple[str, ...]:
    return (f"polylog.otlp.endpoint={collector.endpoint}", "polylog.otlp.interval.ms=1000", *more)


def test_a_collector_gets_every_metric_with_its_kind_unit_and_values(
    start_broker: Callable[..., BrokerProcess], collector: Collector
) -> None:
    broker = start_broker(
        *pushing(collector, "polylog.otlp.topics=true", "polylog.otlp.headers=X-Key=a=b, Y=1")
    )
    with WireClient(broker.address) as client:
        create_topic(client, "t")
        records = batch_of([(None, b"x", ())] * RECORDS, 1_700_000_000_000)
        assert produce(client, "t", records)[0] == 0

    pushed = collector.next_metrics()

    assert collector.headers[-1]["X-Key"] == "a=b"
    assert collector.headers[-1]["Y"] == "1"
    [resource] = collector.requests[-1].resource_metrics
    assert attributes(resource.resource)["service.name"] == "polylog"
    assert attributes(resource.resource)["service.instance.id"] == "1"
    shown = metrics_of(broker)
    assert set(pushed) == {name.removesuffix("_total") for name in shown}
    for name in shown:
        metric, each = METRICS[name], pushed[name.removesuffix("_total")]
        kinds = {Kind.COUNTER: "sum", Kind.GAUGE: "gauge", Kind.HISTOGRAM: "histogram"}
        assert each.WhichOneof("data") == kinds[metric.kind]
        assert each.unit == {"seconds": "s", "bytes": "By", "ratio": "1"}.get(metric.unit, "")
        points = getattr(each, kinds[metric.kind]).data_points
        labels = [{*attributes(point).items()} for point in points]
        assert labels == [{*values.items()} for values, _ in shown[name]], name
    [total] = pushed["polylog_records_in"].sum.data_points
    assert total.as_int == RECORDS
    assert pushed["polylog_records_in"].sum.is_monotonic
    assert pushed["polylog_records_in"].sum.aggregation_temporality == 2, "cumulative"
    assert 0 < total.start_time_unix_nano < total.time_unix_nano
    of_topics = pushed["polylog_topic_records_in"].sum.data_points
    assert [(attributes(each), each.as_int) for each in of_topics] == [({"topic": "t"}, RECORDS)]
    produced = [
        each
        for each in pushed["polylog_request_seconds"].histogram.data_points
        if attributes(each) == {"api": "Produce"}
    ]
    assert [each.count for each in produced] == [1]
    assert len(produced[0].bucket_counts) == len(produced[0].explicit_bounds) + 1
    assert sum(produced[0].bucket_counts) == 1


def test_a_collector_that_fails_delays_nothing_and_gets_the_next_metrics(
    start_broker: Callable[..., BrokerProcess], collector: Collector
) -> None:
    collector.status = 400
    broker = start_broker(*pushing(collector))
    broker.expected_complaints = ["metrics were not sent"]
    wait_until(lambda: len(collector.requests) > 2, "it is tried again")
    [line] = [each for each in broker.log_lines() if "metrics were not sent" in each]
    assert collector.endpoint in line
    assert "400" in line
    collector.status = 200

    pushed = collector.next_metrics()

    assert "polylog_topic_records_in" not in pushed, "topics are only pushed if that is set"
    counted = {
        attributes(each)["result"]: each.as_int
        for each in pushed["polylog_otlp_exports"].sum.data_points
    }
    assert counted["failed"] > 2
    assert broker.stop() == 0


def test_a_long_reason_is_cut(
    start_broker: Callable[..., BrokerProcess], collector: Collector
) -> None:
    """Longer than a line of the process may be; some versions of the SDK report whole answers."""
    collector.status, collector.reason = 400, "x" * 65_500
    broker = start_broker(*pushing(collector))
    broker.expected_complaints = ["metrics were not sent"]
    wait_until(lambda: len(collector.requests) > 2, "it is tried again")
    [line] = [each for each in broker.log_lines() if "metrics were not sent" in each]
    assert "code: 400, reason: xxx" in line
    assert len(line) < 1_000
    collector.status, collector.reason = 200, None

    assert collector.next_metrics()


def test_the_process_that_sends_is_started_again(
    start_broker: Callable[..., BrokerProcess], collector: Collector
) -> None:
    broker = start_broker(*pushing(collector))
    broker.expected_complaints = ["metrics were not sent"]
    collector.next_metrics()
    children = Path(f"/proc/{broker.process.pid}/task/{broker.process.pid}/children")
    [child] = [int(each) for each in children.read_text().split()]

    os.kill(child, signal.SIGKILL)

    assert collector.next_metrics()
    [other] = [int(each) for each in children.read_text().split()]
    assert other != child
    assert broker.stop() == 0
    wait_until(lambda: not Path(f"/proc/{other}").exists(), "it ends with the broker")
