"""Dashboards and alert rules: they name only metrics that are registered, and labels of these."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from broker.cli.monitoring.alerts import ALERTS, rules
from broker.cli.monitoring.dashboards import DASHBOARDS, dashboard
from broker.cli.monitoring.expressions import grouped_by, selectors
from tools import metrics as writer

PROMTOOL = shutil.which("promtool")
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


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool")
def test_prometheus_finds_nothing_wrong_in_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "polylog.rules.yaml"
    file.write_text(rules())
    assert PROMTOOL is not None

    done = subprocess.run(
        [PROMTOOL, "check", "rules", str(file)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


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


def test_the_page_of_metrics_is_what_the_tool_writes() -> None:
    assert writer.text() == writer.PAGE.read_text(), "run `python -m tools.metrics`"
