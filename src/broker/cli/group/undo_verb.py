"""`broker group undo`."""

import shlex
import sys

import click

from broker.cli.completion import groups
from broker.cli.confirmation import print_undo
from broker.cli.frame import Session, dry_run, verb
from broker.cli.group import saved_offsets
from broker.cli.group.seeking import Sought, apply, check_inactive, of_existing, sought
from broker.cli.partitions import partition_text
from broker.client.brokers import describe
from broker.client.groups import group_or_none
from broker.client.offsets import committed_offsets
from broker.model.errors import ErrorCode, RequestError


@verb(
    Sought,
    examples=("broker group undo billing --dry-run", "broker group undo billing"),
)
@click.argument("group", shell_complete=groups)
@dry_run
def command(session: Session, group: str, *, dry_run: bool) -> None:
    """Set the offsets of GROUP to what they were before the last seek, undo or deletion from here.

    A second undo takes the first one back. Partitions that were deleted are left out.
    """
    cluster = session.cluster
    cluster_id = describe(cluster).cluster_id
    file = saved_offsets.newest(cluster_id, group)
    if file is None:
        raise RequestError(
            ErrorCode.RESOURCE_NOT_FOUND,
            f"no earlier offsets of group {group!r} are kept in"
            f" {saved_offsets.folder_of(cluster_id, group)}: use `broker group seek`",
        )
    check_inactive(cluster, group_or_none(cluster, group), group)
    before = committed_offsets(cluster, group)
    earlier = saved_offsets.read(file)
    found = of_existing(cluster, earlier)
    if gone := sorted(earlier.keys() - found.keys()):
        text = f"{', '.join(map(partition_text, gone))} do not exist any more"
        if not found:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{file}: {text}")
        print(f"left out: {text}", file=sys.stderr)
    rows = sought(cluster, before, found)
    kept = None if dry_run else apply(cluster, group, before, rows)
    for each in rows:
        session.write(each)
    if kept is not None:
        print_undo(shlex.join(["broker", "group", "undo", group]))
