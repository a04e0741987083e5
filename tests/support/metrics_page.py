"""A broker's page of metrics, as Prometheus' parser reads it."""

import http.client
from typing import TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from broker.core.metrics.registry import METRICS, Kind
from tests.support.broker_process import BrokerProcess

Samples: TypeAlias = dict[str, list[tuple[dict[str, str], float]]]


def metrics_of(broker: BrokerProcess, path: str = "/metrics/all") -> Samples:
    """Return the samples of a page by the names of the registry; of histograms their counts."""
    host, _, port = broker.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        text = answer.read().decode()
    finally:
        connection.close()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name
            metric = METRICS.get(name.removesuffix("_count"))
            if name in METRICS:
                found.setdefault(name, []).append((sample.labels, sample.value))
            elif metric is not None and metric.kind is Kind.HISTOGRAM:
                found.setdefault(metric.name, []).append((sample.labels, sample.value))
    return found


def value_of(broker: BrokerProcess, name: str) -> float:
    """Return the value of a metric without labels."""
    [(_, value)] = metrics_of(broker)[name]
    return value
