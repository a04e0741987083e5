"""`broker config apply`."""

from pathlib import Path

import click

from broker.cli.config.changing import make_change
from broker.cli.config.document import read_document
from broker.cli.config.entities import own
from broker.cli.config.rows import Changed
from broker.cli.frame import Session, dry_run, verb
from broker.model.errors import ConfigError, RequestError


@verb(
    Changed,
    examples=(
        "broker config apply settings.yaml --dry-run",
        "broker config apply settings.yaml --prune",
    ),
)
@click.argument(
    "file", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option(
    "--prune",
    is_flag=True,
    help="Remove what was set for a topic, broker or group of the file and is not in it.",
)
@dry_run
def command(session: Session, file: Path, prune: bool, dry_run: bool) -> None:
    """Make settings what a file of `broker config export` says; print what differs.

    What is so already is not touched: a second run changes nothing.
    """
    for entity, wanted in read_document(file):
        try:
            before = own(session.cluster, entity)
            changes: dict[str, str | None] = {
                name: value for name, value in wanted.items() if before.get(name) != value
            }
            if prune:
                changes |= dict.fromkeys(before.keys() - wanted.keys())
            if changes:
                make_change(session, entity, changes, dry_run=dry_run)
        except (RequestError, ConfigError) as error:
            session.fail(error)
