"""`broker config diff`."""

from typing import NamedTuple

import click

from broker.cli.config.entities import default_of, parse_entity, settings
from broker.cli.frame import Session, verb


class Difference(NamedTuple):
    """A setting that differs.

    Attributes:
        name: its name.
        left: its value in the first; null: none, or a password.
        right: its value in the second, or its default; null: none.
        left_source: where the first was given.
        right_source: where the second was given, or default.
    """

    name: str
    left: str | None
    right: str | None
    left_source: str | None
    right_source: str | None


@verb(
    Difference,
    examples=(
        "broker config diff topic/orders",
        "broker config diff topic/orders topic/orders-2",
        "broker config diff broker/1 broker/2",
    ),
)
@click.argument("left", metavar="KIND/NAME")
@click.argument("right", metavar="[KIND/NAME]", required=False)
def command(session: Session, left: str, right: str | None) -> None:
    """Show the settings of a topic, broker or group that differ from another's or defaults."""
    ones = settings(session.cluster, parse_entity(left))
    if right is None:
        for name, each in ones.items():
            default = default_of(each)
            if each.value != default:
                session.write(Difference(name, each.value, default, each.source, "default"))
        return
    others = settings(session.cluster, parse_entity(right))
    for name in sorted(ones.keys() | others.keys()):
        one, other = ones.get(name), others.get(name)
        values = one.value if one else None, other.value if other else None
        if values[0] != values[1]:
            sources = one.source if one else None, other.source if other else None
            session.write(Difference(name, *values, *sources))
