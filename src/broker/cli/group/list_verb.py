"""`broker group list`."""

from fnmatch import fnmatchcase
from typing import NamedTuple

import click

from broker.cli.completion import groups
from broker.cli.frame import Session, verb
from broker.cli.progress import progress


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
    examples=("broker group list", "broker group list 'billing-*' --state Stable -o name"),
)
@click.argument("pattern", required=False, shell_complete=groups)
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Only groups in this state."
)
@click.option(
    "--type", "kinds", multiple=True, metavar="TYPE", help="Only classic, consumer or share groups."
)
def command(
    session: Session, pattern: str | None, states: tuple[str, ...], kinds: tuple[str, ...]
) -> None:
    """List groups, all or those whose name matches PATTERN (* and ? stand for any text)."""
    from broker.client.groups import group_or_none, list_groups  # noqa: PLC0415 - not for --help

    found = [
        each
        for each in list_groups(session.cluster, states=states, kinds=kinds)
        if pattern is None or fnmatchcase(each.group, pattern)
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
