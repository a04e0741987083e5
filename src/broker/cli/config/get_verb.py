"""`broker config get`."""

import click

from broker.cli.config.entities import Chosen, entities, entity_options, settings
from broker.cli.config.rows import SettingRow, setting_row
from broker.cli.frame import Session, verb
from broker.model.errors import ErrorCode, RequestError


@verb(
    SettingRow,
    columns=("name", "value", "source", "entity"),
    examples=(
        "broker config get retention.ms --topic orders",
        "broker config get log.retention.hours --broker all",
    ),
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@entity_options
def command(session: Session, names: tuple[str, ...], chosen: Chosen) -> None:
    """Show the values of settings, and where each was given."""
    for entity in entities(session.cluster, chosen):
        found = settings(session.cluster, entity, names, with_documentation=True)
        for name in names:
            if name in found:
                session.write(setting_row(entity, found[name]))
            else:
                session.fail(
                    RequestError(
                        ErrorCode.RESOURCE_NOT_FOUND,
                        f"{entity} has no setting {name}: `broker config list --all` shows all",
                    )
                )
