"""`broker generate grafana`."""

from typing import NamedTuple

import click

from broker.cli.frame import Session, verb
from broker.cli.monitoring.dashboards import DASHBOARDS, dashboard


class Generated(NamedTuple):
    """The dashboard.

    Attributes:
        name: of the dashboard.
        text: in the JSON that Grafana imports.
    """

    name: str
    text: str


@verb(
    Generated,
    is_single=True,
    is_local=True,
    examples=(
        "broker generate grafana > overview.json",
        "broker generate grafana groups > groups.json",
    ),
)
@click.argument("name", type=click.Choice(tuple(DASHBOARDS)), default="overview")
def command(session: Session, name: str) -> None:
    """Print a dashboard of Grafana over the metrics of brokers."""
    session.print_text(Generated(name, dashboard(name)), "text")
