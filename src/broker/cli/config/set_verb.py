"""`broker config set`."""

import click

from broker.cli.completion import topic_settings
from broker.cli.config.changing import make_change
from broker.cli.config.entities import Chosen, entities, entity_options
from broker.cli.config.rows import Changed
from broker.cli.frame import Session, dry_run, pairs, verb


@verb(
    Changed,
    examples=(
        "broker config set retention.ms=86400000 --topic orders",
        "broker config set log.retention.ms=86400000 --broker default --dry-run",
        "broker config set producer_byte_rate=1048576 --user alice",
    ),
)
@click.argument(
    "values", nargs=-1, required=True, metavar="NAME=VALUE...", shell_complete=topic_settings
)
@entity_options
@dry_run
def command(session: Session, values: tuple[str, ...], dry_run: bool, chosen: Chosen) -> None:
    """Set settings of what the options name, while it runs."""
    changes = dict(pairs(values, "NAME=VALUE"))
    for entity in entities(session.cluster, chosen):
        make_change(session, entity, changes, dry_run=dry_run)
