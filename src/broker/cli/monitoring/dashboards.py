"""The dashboards of Grafana: panels over the registry of metrics."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

_OWN: Final = 'instance=~"$instance"'
_RATE: Final = "$__rate_interval"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS: Final = 24  # of Grafana's grid
_WIDTHS: Final = {"stat": 4, "timeseries": 8}
_HEIGHTS: Final = {"stat": 4, "timeseries": 8}


class Panel(NamedTuple):
    """A panel.

    Attributes:
        title: above it.
        unit: of its values, as Grafana calls it.
        queries: its expressions, each with the legend of its series.
        kind: stat or timeseries.
    """

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


class Dashboard(NamedTuple):
    """A dashboard.

    Attributes:
        title: its name in Grafana.
        panels: from the top.
    """

    title: str
    panels: tuple[Panel, ...]


def _rate(metric: str, by: str = "", matchers: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({metric}{{{_OWN}{matchers}}}[{_RATE}]))"


def _sum(metric: str, by: str = "", matchers: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} ({metric}{{{_OWN}{matchers}}})"


def _quantile(quantile: str, histogram: str, matchers: str = "") -> str:
    return f"histogram_quantile({quantile}, {_rate(f'{histogram}_bucket', 'le', matchers)})"


def _top(expression: str) -> str:
    return f"topk(10, {expression})"


def _stat(title: str, expression: str, unit: str = "short") -> Panel:
    return Panel(title, unit, ((expression, ""),), "stat")


def _times(title: str, matchers: str) -> Panel:
    """Return a panel of the times of requests; p50, p99 and p999."""
    queries = ((_quantile(each, "polylog_request_seconds", matchers), each) for each in _QUANTILES)
    return Panel(title, "s", tuple(queries))


_QUANTILES: Final = ("0.5", "0.99", "0.999")
_OVERVIEW: Final = Dashboard(
    "Polylog: overview",
    (
        _stat("Offline partitions", f"max(polylog_offline_partitions{{{_OWN}}})"),
        _stat("Under min ISR", _sum("polylog_under_min_isr_partitions")),
        _stat("Under-replicated", _sum("polylog_under_replicated_partitions")),
        _stat("Controllers", _sum("polylog_controller")),
        _stat("Brokers", f"max(polylog_brokers{{{_OWN}}})"),
        _stat("Partitions", f"max(polylog_cluster_partitions{{{_OWN}}})"),
        Panel("Records in", "short", ((_rate("polylog_records_in_total"), "records/s"),)),
        Panel(
            "Bytes",
            "Bps",
            (
                (_rate("polylog_appended_bytes_total"), "appended"),
                (_rate("polylog_read_bytes_total"), "read"),
                (_rate("polylog_copied_bytes_total"), "copied from other brokers"),
            ),
        ),
        Panel("Requests", "reqps", ((_rate("polylog_requests_total", "api"), "{{api}}"),)),
        Panel(
            "Errors in answers",
            "cps",
            (
                (
                    _rate("polylog_request_errors_total", "api, error") + " or vector(0)",
                    "{{api}} {{error}}",
                ),
            ),
        ),
        _times("Produce", ',api="Produce"'),
        _times("Fetch of consumers", ',api="FetchConsumer"'),
        Panel(
            "Where the time of Produce goes (p99)",
            "s",
            tuple(
                (_quantile("0.99", f"polylog_request_{each}seconds", ',api="Produce"'), legend)
                for each, legend in (
                    ("", "total"),
                    ("queue_", "queue"),
                    ("local_", "local"),
                    ("remote_", "remote"),
                )
            ),
        ),
        Panel(
            "Connections",
            "short",
            ((_sum("polylog_connections", "listener"), "{{listener}}"),),
        ),
        Panel(
            "Connections: accepted, refused, failed",
            "cps",
            (
                (_rate("polylog_connections_accepted_total"), "accepted"),
                (_rate("polylog_connections_refused_total") + " or vector(0)", "refused"),
                (_rate("polylog_login_failures_total") + " or vector(0)", "failed logins"),
                (_rate("polylog_tls_failures_total") + " or vector(0)", "failed handshakes"),
            ),
        ),
        Panel(
            "Elections and ISRs",
            "short",
            tuple(
                (
                    f"sum(increase(polylog_{name}_total{{{_OWN}}}[{_RATE}]))",
                    name.replace("_", " "),
                )
                for name in ("leader_elections", "isr_shrinks", "isr_expansions")
            ),
        ),
        Panel(
            "Clients above a quota: time of rest per second",
            "s",
            ((_rate("polylog_throttled_seconds_total", "instance"), "{{instance}}"),),
        ),
        Panel(
            "Offsets that the slowest replica lacks",
            "short",
            ((f"polylog_replica_lag_records{{{_OWN}}}", "{{instance}}"),),
        ),
        Panel(
            "Event loop",
            "percentunit",
            ((f"polylog_loop_busy_ratio{{{_OWN}}}", "{{instance}}"),),
        ),
    ),
)
_TOPICS: Final = Dashboard(
    "Polylog: topics",
    (
        _stat("Topics", f"max(polylog_topics{{{_OWN}}})"),
        _stat("Size of all logs", _sum("polylog_logs_size_bytes"), "bytes"),
        _stat("Not synced yet", _sum("polylog_log_unsynced_bytes"), "bytes"),
        Panel(
            "Records in, top 10",
            "short",
            ((_top(_rate("polylog_topic_records_in_total", "topic")), "{{topic}}"),),
        ),
        Panel(
            "Bytes in, top 10",
            "Bps",
            ((_top(_rate("polylog_topic_appended_bytes_total", "topic")), "{{topic}}"),),
        ),
        Panel(
            "Bytes out, top 10",
            "Bps",
            ((_top(_rate("polylog_topic_read_bytes_total", "topic")), "{{topic}}"),),
        ),
        Panel(
            "Size, top 10",
            "bytes",
            ((_top(_sum("polylog_log_size_bytes", "topic")), "{{topic}}"),),
        ),
        Panel(
            "Writes that failed, top 10",
            "cps",
            ((_top(_rate("polylog_topic_failed_writes_total", "topic")), "{{topic}}"),),
        ),
        Panel(
            "Reads that failed, top 10",
            "cps",
            ((_top(_rate("polylog_topic_failed_reads_total", "topic")), "{{topic}}"),),
        ),
        Panel(
            "Segments, top 10",
            "short",
            ((_top(_sum("polylog_log_segments", "topic")), "{{topic}}"),),
        ),
        Panel(
            "Records kept, top 10",
            "short",
            (
                (
                    _top(
                        f"sum by (topic) (polylog_log_end_offset{{{_OWN}}}"
                        f" - polylog_log_start_offset{{{_OWN}}})"
                    ),
                    "{{topic}}",
                ),
            ),
        ),
    ),
)
_GROUPS: Final = Dashboard(
    "Polylog: groups",
    (
        _stat("Groups", _sum("polylog_groups")),
        _stat("Open transactions", _sum("polylog_open_transactions")),
        _stat("Oldest transaction", f"max(polylog_oldest_transaction_seconds{{{_OWN}}})", "s"),
        Panel(
            "Lag, top 10",
            "short",
            ((_top(_sum("polylog_group_lag_records", "group, topic")), "{{group}} {{topic}}"),),
        ),
        Panel(
            "Time lag, top 10",
            "s",
            (
                (
                    _top(f"max by (group, topic) (polylog_group_lag_seconds{{{_OWN}}})"),
                    "{{group}} {{topic}}",
                ),
            ),
        ),
        Panel(
            "Lag as a share of what is kept, top 10",
            "percentunit",
            (
                (
                    _top(f"max by (group, topic) (polylog_group_lag_ratio{{{_OWN}}})"),
                    "{{group}} {{topic}}",
                ),
            ),
        ),
        Panel(
            "Records read, top 10",
            "short",
            (
                (
                    _top(f"sum by (group) (delta(polylog_group_offset{{{_OWN}}}[5m]) / 300)"),
                    "{{group}}",
                ),
            ),
        ),
        Panel("Groups by state", "short", ((_sum("polylog_groups", "state"), "{{state}}"),)),
        Panel(
            "Members, top 10",
            "short",
            ((_top(_sum("polylog_group_members", "group")), "{{group}}"),),
        ),
        Panel(
            "Rebalances, top 10",
            "short",
            (
                (
                    _top(
                        "sum by (group)"
                        f" (increase(polylog_group_rebalances_total{{{_OWN}}}[{_RATE}]))"
                    ),
                    "{{group}}",
                ),
            ),
        ),
    ),
)
_HOSTS: Final = Dashboard(
    "Polylog: hosts",
    (
        _stat("Uptime", f"min(polylog_uptime_seconds{{{_OWN}}})", "s"),
        _stat("Level of the disk", f"max(polylog_disk_level{{{_OWN}}})"),
        _stat(
            "Days until the disk is full",
            f"clamp_max(min(polylog_disk_free_bytes{{{_OWN}}}"
            f" / clamp_min(-deriv(polylog_disk_free_bytes{{{_OWN}}}[6h]), 1)) / 86400, 365)",
            "d",
        ),
        Panel(
            "Free space",
            "percentunit",
            (
                (
                    f"polylog_disk_free_bytes{{{_OWN}}} / polylog_disk_total_bytes{{{_OWN}}}",
                    "{{instance}} {{dir}}",
                ),
            ),
        ),
        Panel(
            "Syncs of logs",
            "s",
            tuple((_quantile(each, "polylog_log_sync_seconds"), each) for each in _QUANTILES),
        ),
        Panel(
            "Processor time",
            "percentunit",
            (
                (_rate("polylog_cpu_seconds_total", "instance"), "{{instance}}"),
                (_rate("polylog_loop_cpu_seconds_total", "instance"), "{{instance}} loop"),
            ),
        ),
        Panel(
            "Memory of the process",
            "bytes",
            ((f"polylog_resident_memory_bytes{{{_OWN}}}", "{{instance}}"),),
        ),
        Panel(
            "Memory pools",
            "percentunit",
            (
                (
                    f"polylog_memory_used_bytes{{{_OWN}}} / polylog_memory_limit_bytes{{{_OWN}}}",
                    "{{instance}} {{pool}}",
                ),
            ),
        ),
        Panel(
            "File descriptors",
            "percentunit",
            ((f"polylog_open_fds{{{_OWN}}} / polylog_max_fds{{{_OWN}}}", "{{instance}}"),),
        ),
        Panel(
            "Network",
            "Bps",
            (
                (_rate("polylog_received_bytes_total", "instance"), "{{instance}} received"),
                (_rate("polylog_sent_bytes_total", "instance"), "{{instance}} sent"),
            ),
        ),
        Panel(
            "Requests that wait for the Python handlers",
            "short",
            ((f"polylog_request_queue_size{{{_OWN}}}", "{{instance}}"),),
        ),
        Panel(
            "Steps of the wall clock",
            "short",
            (
                (f"increase(polylog_clock_jumps_total{{{_OWN}}}[1h])", "{{instance}}"),
                (f"polylog_clock_held{{{_OWN}}}", "{{instance}} not believed"),
            ),
        ),
        Panel(
            "Time of a page of metrics",
            "s",
            ((f"polylog_metrics_seconds{{{_OWN}}}", "{{instance}}"),),
        ),
    ),
)
DASHBOARDS: Final = {
    "overview": _OVERVIEW,
    "topics": _TOPICS,
    "groups": _GROUPS,
    "hosts": _HOSTS,
}


def dashboard(name: str) -> str:
    """Return a dashboard as Grafana imports it."""
    found = DASHBOARDS[name]
    content = {
        "uid": f"polylog-{name}",
        "title": found.title,
        "tags": ["polylog"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_placed(found.panels)),
    }
    return json.dumps(content, indent=2) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus"}
    yield {
        "name": "instance",
        "type": "query",
        "datasource": _SOURCE,
        "query": "label_values(polylog_build_info, instance)",
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }


def _placed(panels: Iterable[Panel]) -> Iterator[dict[str, Any]]:
    """Yield the panels from left to right, in rows of one height."""
    x = y = height = 0
    for number, panel in enumerate(panels, 1):
        width = _WIDTHS[panel.kind]
        if x + width > _COLUMNS or (x and _HEIGHTS[panel.kind] != height):
            x, y = 0, y + height
        height = _HEIGHTS[panel.kind]
        yield {
            "id": number,
            "type": panel.kind,
            "title": panel.title,
            "datasource": _SOURCE,
            "gridPos": {"x": x, "y": y, "w": width, "h": height},
            "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
            "targets": list(_targets(panel)),
        }
        x += width


def _targets(panel: Panel) -> Iterator[dict[str, Any]]:
    for number, (expression, legend) in enumerate(panel.queries):
        yield {
            "refId": chr(ord("A") + number),
            "datasource": _SOURCE,
            "expr": expression,
            "legendFormat": legend or "__auto",
        }
