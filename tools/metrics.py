"""Print docs/metrics.md with its lists of metrics and alerts as the code has them.

A test compares the page with what this prints:

    .venv/bin/python -m tools.metrics > build/page && mv build/page docs/metrics.md
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.cli.monitoring.alerts import ALERTS
from broker.cli.monitoring.dashboards import DASHBOARDS
from broker.core.metrics.registry import METRICS

PAGE: Final = Path(__file__).parents[1] / "docs/metrics.md"
_BEGIN: Final = "<!-- What follows is written by tools/metrics.py. -->\n"


def text() -> str:
    """Return the content of the page."""
    head, _, _ = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    return "\n".join([f"{head}{_BEGIN}", *_lists()])


def _lists() -> Iterator[str]:
    yield "## Dashboards\n"
    yield "| `broker generate grafana` | panels |"
    yield "|---|---|"
    for name, each in DASHBOARDS.items():
        yield f"| `{name}` | {'; '.join(panel.title for panel in each.panels)} |"
    yield "\n## Alerts\n"
    for alert in ALERTS:
        yield f"### {alert.name}\n"
        yield f"{alert.summary} ({alert.severity})\n"
        wait = f", for {alert.minutes} min" if alert.minutes else ""
        yield f"- when: `{alert.expression}`{wait}"
        yield f"- what to do: {alert.advice}\n"
    yield "## Metrics of a broker\n"
    yield from _table(is_small=True)
    yield "\n## Metrics of topics, partitions and groups\n"
    yield "These are on `/metrics/all` only.\n"
    yield from _table(is_small=False)
    yield ""


def _table(*, is_small: bool) -> Iterator[str]:
    yield "| name | kind | labels | meaning | names in Kafka's tools |"
    yield "|---|---|---|---|---|"
    for metric in METRICS.values():
        if metric.is_small == is_small:
            cells = (
                f"`{metric.name}`",
                metric.kind.value,
                _names(metric.labels),
                metric.text,
                _names(tuple(alias.name for alias in metric.aliases)),
            )
            yield f"| {' | '.join(cells)} |"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{each}`" for each in names) or "-"


if __name__ == "__main__":
    sys.stdout.write(text())
