"""`broker group delete`."""

import shlex
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

import click

from broker.cli.completion import groups, topics
from broker.cli.confirmation import confirm, print_undo
from broker.cli.frame import Session, dry_run, verb, yes
from broker.cli.group.seeking import check_inactive, kept_for_undo
from broker.cli.partitions import partitions_of
from broker.client.groups import delete_group, delete_offsets, describe_group
from broker.client.offsets import committed_offsets
from broker.model.errors import ConfigError, ErrorCode, RequestError

if TYPE_CHECKING:
    from pathlib import Path

    from broker.client.metadata import Cluster, Partition


class Deleted(NamedTuple):
    """A group that is deleted, or whose offsets are.

    Attributes:
        group: its name.
        is_group_deleted: false if only offsets of topics are.
        offsets: how many committed offsets go.
        topics: the topics of these.
        saved_offsets: the file that they are kept in; null in a dry run, or if there are none.
    """

    group: str
    is_group_deleted: bool
    offsets: int
    topics: list[str]
    saved_offsets: str | None


@verb(
    Deleted,
    examples=(
        "broker group delete billing",
        "broker group delete billing --topic orders --yes",
        "broker group delete billing-1 billing-2 --dry-run",
    ),
)
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=groups)
@click.option(
    "--topic",
    "wanted",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    shell_complete=topics,
    help="Only the offsets in this topic; the group stays.",
)
@click.option("--if-exists", is_flag=True, help="A group that does not exist is no failure.")
@dry_run
@yes
def command(
    session: Session,
    names: tuple[str, ...],
    wanted: tuple[str, ...],
    *,
    if_exists: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete groups with their committed offsets, or their offsets in topics."""
    cluster = session.cluster
    chosen: dict[str, dict[Partition, int]] = {}
    for name in names:
        try:
            group = describe_group(cluster, name)
            if not wanted:
                check_inactive(cluster, group, name)
            found = committed_offsets(cluster, name)
            if wanted:
                only = partitions_of(cluster, wanted)
                found = {key: found[key] for key in only if key in found}
            chosen[name] = found
        except RequestError as error:
            if not if_exists or error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                session.fail(error)
    if not chosen:
        return
    if not dry_run:
        lines = [
            f"group {name}: {len(offsets)} committed offsets of"
            f" {', '.join(sorted({topic for topic, _ in offsets})) or 'no topic'}"
            for name, offsets in chosen.items()
        ]
        confirm(lines, list(chosen), is_confirmed=yes)
    for name, offsets in chosen.items():
        try:
            session.write(_delete(cluster, name, offsets, is_whole=not wanted, dry_run=dry_run))
        except (RequestError, ConfigError) as error:
            session.fail(error)


def _delete(
    cluster: "Cluster",
    name: str,
    offsets: "dict[Partition, int]",
    *,
    is_whole: bool,
    dry_run: bool,
) -> Deleted:
    file: Path | None = None
    if not dry_run:
        with kept_for_undo(cluster, name, offsets) if offsets else nullcontext() as file:
            if is_whole:
                delete_group(cluster, name)
            elif offsets:
                delete_offsets(cluster, name, list(offsets))
        if file is not None:
            print_undo(shlex.join(["broker", "group", "seek", name, "--from-file", str(file)]))
    return Deleted(
        name,
        is_whole,
        len(offsets),
        sorted({topic for topic, _ in offsets}),
        None if file is None else str(file),
    )
