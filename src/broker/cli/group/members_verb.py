"""`broker group members`."""

import click

from broker.cli.completion import groups
from broker.cli.frame import Session, verb
from broker.cli.group.partitions import MemberRow, member_row
from broker.client.groups import describe_group


@verb(
    MemberRow,
    columns=("member_id", "client_id", "host", "epoch", "subscribed", "assigned"),
    examples=("broker group members billing", "broker group members billing -o json"),
)
@click.argument("group", shell_complete=groups)
def command(session: Session, group: str) -> None:
    """Show the members of GROUP, and the partitions that they have."""
    for each in describe_group(session.cluster, group).members:
        session.write(member_row(each))
