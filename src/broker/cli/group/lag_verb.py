"""`broker group lag`."""

import click

from broker.cli.completion import groups, topics
from broker.cli.frame import Session, verb
from broker.cli.group.partitions import LAG_COLUMNS, PartitionLag, partition_lags
from broker.cli.watching import watch_option, watched
from broker.client.groups import describe_group, group_or_none, list_groups


@verb(
    PartitionLag,
    columns=LAG_COLUMNS,
    examples=(
        "broker group lag billing",
        "broker group lag --watch 2",
        "broker group lag billing --topic orders -o json",
    ),
)
@click.argument("names", metavar="[GROUP]...", nargs=-1, shell_complete=groups)
@click.option(
    "--topic",
    "only",
    multiple=True,
    metavar="TOPIC",
    shell_complete=topics,
    help="Only partitions of this topic.",
)
@click.option("--no-time", is_flag=True, help="Do not read records to find their age.")
@watch_option
def command(
    session: Session,
    names: tuple[str, ...],
    only: tuple[str, ...],
    watch: float | None,
    *,
    no_time: bool,
) -> None:
    """Show how far groups are behind, all or some: in records, time and retention."""
    for _ in watched(session, watch):
        if names:
            found = [describe_group(session.cluster, each) for each in names]
        else:
            listed = (
                group_or_none(session.cluster, each.group) for each in list_groups(session.cluster)
            )
            found = [each for each in listed if each is not None]
        for group in found:
            for row in partition_lags(session.cluster, group, only, with_time=not no_time):
                session.write(row)
