"""`broker config list`."""

import click

from broker.cli.config.entities import Chosen, entities, entity_options, settings
from broker.cli.config.rows import SettingRow, setting_row
from broker.cli.frame import Session, verb
from broker.cli.patterns import matcher
from broker.client.configs import DEFAULT


@verb(
    SettingRow,
    columns=("name", "value", "source", "entity"),
    examples=(
        "broker config list --topic orders",
        "broker config list --broker all --all 'log[.].*'",
        "broker config list --user alice",
    ),
)
@click.argument("patterns", nargs=-1, metavar="[NAME|REGEX]...")
@click.option("--all", "with_defaults", is_flag=True, help="Settings with their default, too.")
@entity_options
def command(
    session: Session, patterns: tuple[str, ...], with_defaults: bool, chosen: Chosen
) -> None:
    """List the settings that are not at their default; with --all, all of them."""
    matches = matcher(patterns)
    for entity in entities(session.cluster, chosen):
        found = settings(session.cluster, entity, with_documentation=True)
        for each in found.values():
            if matches(each.name) and (with_defaults or each.source != DEFAULT):
                session.write(setting_row(entity, each))
