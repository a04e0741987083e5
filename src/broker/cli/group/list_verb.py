"""`broker group list`."""

from typing import NamedTuple

import click

from broker.cli.completion import groups
from broker.cli.frame import Session, verb
from broker.cli.patterns import matcher
from broker.cli.progress import progress
from broker.client.groups import group_or_none, list_groups


class Listed(NamedTuple):
    """A group.

    Attributes:
        group: its name.
        kind: classic, consumer, share or streams; "" if the broker does not tell.
        state: Empty, Stable, PreparingRebalance, CompletingRebalance, Assigning, Reconciling, Dead.
        protocol_type: what its members are: consumer, connect, ...
        members: how many there are.
        coordinator: the id of the broker that coordinates it.
    """

    group: str
    kind: str
    state: str
    protocol_type: str
    members: int | None
    coordinator: int


@verb(
    Listed,
    examples=("broker group list", "broker group list 'billing-.*' --state Stable -o name"),
)
@click.argument("patterns", nargs=-1, metavar="[NAME|REGEX]...", shell_complete=groups)
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Only groups in this state."
)
@click.option(
    "--type", "kinds", multiple=True, metavar="TYPE", help="Only classic, consumer or share groups."
)
def command(
    session: Session, patterns: tuple[str, ...], states: tuple[str, ...], kinds: tuple[str, ...]
) -> None:
    """List groups, all or those that names or regular expressions select."""
    matches = matcher(patterns)
    found = [
        each
        for each in list_groups(session.cluster, states=states, kinds=kinds)
        if matches(each.group)
    ]
    needs_members = session.output.format != "name"
    with progress("members of groups", len(found), "groups") as shown:
        for each in found:
            group = group_or_none(session.cluster, each.group) if needs_members else None
            session.write(
                Listed(
                    each.group,
                    each.kind,
                    each.state,
                    each.protocol_type,
                    None if group is None else len(group.members),
                    each.coordinator,
                )
            )
            shown.add(1)
