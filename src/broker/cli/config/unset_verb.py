"""`broker config unset`."""

import click

from broker.cli.config.changing import make_change
from broker.cli.config.entities import Chosen, entities, entity_options
from broker.cli.config.rows import Changed
from broker.cli.frame import Session, dry_run, verb


@verb(
    Changed,
    examples=(
        "broker config unset retention.ms --topic orders",
        "broker config unset producer_byte_rate --user alice",
    ),
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@entity_options
@dry_run
def command(session: Session, names: tuple[str, ...], dry_run: bool, chosen: Chosen) -> None:
    """Remove what was set, so that the broader value or the default is in force."""
    for entity in entities(session.cluster, chosen):
        make_change(session, entity, dict.fromkeys(names), dry_run=dry_run)
