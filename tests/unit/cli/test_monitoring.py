"""Dashboards and alert rules: they name only metrics that are registered, and labels of these."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.cli.monitoring.alerts import ALERTS, rules
from broker.cli.monitoring.dashboards import DASHBOARDS, dashboard
from broker.cli.monitoring.expressions import grouped_by, selectors
from broker.core.metrics.registry import METRICS, Kind, Metric
from broker.core.metrics.text import Sample, family
from tools import metrics as writer

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on the PATH")
OF_PROMETHEUS = {"instance", "job", "le"}
QUERIES = [
    query for each in DASHBOARDS.values() for panel in each.panels for query, _ in panel.queries
]


@pytest.mark.parametrize("expression", [*QUERIES, *(each.expression for each in ALERTS)])
def test_an_expression_names_metrics_of_the_registry_and_their_labels(expression: str) -> None:
    found = list(selectors(expression))
    assert found
    labels = {label for each in found for label in each.metric.labels} | OF_PROMETHEUS
    assert grouped_by(expression) <= labels
    for each in found:
        assert each.labels <= {*each.metric.labels, *OF_PROMETHEUS}
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)


def test_a_metric_that_is_not_registered_is_an_error() -> None:
    with pytest.raises(KeyError):
        list(selectors("rate(polylog_unknown_total[5m])"))
    with pytest.raises(KeyError):
        list(selectors("polylog_connections_bucket"))  # it is no histogram


def test_the_rules_say_what_each_alert_is() -> None:
    head, *found = rules().split("      - alert: ")

    assert head == "groups:\n  - name: polylog\n    rules:\n"
    for text, alert in zip(found, ALERTS, strict=True):
        name, *lines = text.splitlines()
        assert name == alert.name
        fields = dict(each.strip().split(": ", 1) for each in lines if not each.endswith(":"))
        assert json.loads(fields["expr"]) == alert.expression
        assert fields["for"] == f"{alert.minutes}m"
        assert fields["severity"] == alert.severity
        assert json.loads(fields["summary"]) == alert.summary
        page, _, anchor = fields["runbook"].partition("#")
        assert page == "docs/metrics.md"
        assert f"### {alert.name}\n" in writer.PAGE.read_text()
        assert anchor == alert.name.lower()


def promtool(*arguments: str, given: str = "") -> str:
    """Return what promtool says of what it is given, if it finds something wrong."""
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", *arguments], input=given, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""


@needs_promtool
def test_prometheus_finds_nothing_wrong_in_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "polylog.rules.yaml"
    file.write_text(rules())

    assert promtool("rules", str(file)) == ""


@needs_promtool
def test_prometheus_can_read_the_query_of_each_panel(tmp_path: Path) -> None:
    variables = {"$__rate_interval": "1m", "$instance": ".*"}
    lines = ["groups:", "  - name: panels", "    rules:"]
    for number, query in enumerate(QUERIES):
        expression = query
        for name, value in variables.items():
            expression = expression.replace(name, value)
        assert "$" not in expression
        lines += [f"      - record: panel:{number}", f"        expr: {json.dumps(expression)}"]
    file = tmp_path / "panels.yaml"
    file.write_text("\n".join(lines) + "\n")

    assert promtool("rules", str(file)) == ""


@needs_promtool
def test_prometheus_finds_nothing_wrong_in_the_metrics() -> None:
    own = [metric._replace(aliases=()) for metric in METRICS.values()]

    assert promtool("metrics", given=page_of(own)) == ""


@needs_promtool
def test_prometheus_can_read_the_aliases() -> None:
    found = promtool("metrics", given=page_of(METRICS.values()))

    # Their names are those that dashboards have, whatever rules for names there are.
    assert {line.split()[0] for line in found.splitlines()} <= {
        alias.name for metric in METRICS.values() for alias in metric.aliases
    }


def page_of(metrics: Iterable[Metric]) -> str:
    """Return a page with a value of each metric."""
    times = (1,) * 22, 5_000_000
    lines: list[str] = []
    for metric in metrics:
        value = times if metric.kind is Kind.HISTOGRAM else 1
        sample = Sample(tuple("v" for _ in metric.labels), value)
        lines += family(metric, [sample], is_open=False)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_has_its_panels_beside_each_other(name: str) -> None:
    found = json.loads(dashboard(name))

    assert [each["title"] for each in found["panels"]] == [
        each.title for each in DASHBOARDS[name].panels
    ]
    taken = set()
    for panel in found["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken
                taken.add((x, y))


LEGEND_LABEL = re.compile(r"\{\{(\w+)\}\}")
# Grafana's names of these units (packages/grafana-data/src/valueFormats/categories.ts).
UNITS = {"short", "Bps", "reqps", "cps", "s", "d", "bytes", "percentunit"}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_has_what_grafana_asks_for(name: str) -> None:
    found = json.loads(dashboard(name))

    assert isinstance(found["schemaVersion"], int)
    assert found["uid"] == f"polylog-{name}"
    variables = [each["name"] for each in found["templating"]["list"]]
    assert variables == ["datasource", "instance"]
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in found["panels"]:
        assert panel["type"] in {"stat", "timeseries"}
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        names = [target["refId"] for target in panel["targets"]]
        assert names == [chr(ord("A") + place) for place in range(len(names))]
        for target in panel["targets"]:
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
            assert used <= set(variables)


@pytest.mark.parametrize("query", [each for d in DASHBOARDS.values() for panel in d.panels
                                   for each in panel.queries])  # fmt: skip
def test_a_legend_names_labels_that_its_series_have(query: tuple[str, str]) -> None:
    expression, legend = query
    kept = grouped_by(expression) or {
        label for each in selectors(expression) for label in each.metric.labels
    } | {"instance", "job"}

    assert set(LEGEND_LABEL.findall(legend)) <= kept


def test_the_page_of_metrics_is_what_the_tool_writes() -> None:
    assert writer.text() == writer.PAGE.read_text(), "run `python -m tools.metrics`"
