"""`broker topic trim`."""

from typing import NamedTuple

import click

from broker.cli.completion import topics
from broker.cli.confirmation import confirm
from broker.cli.frame import Session, dry_run, verb, yes
from broker.cli.times import time_ms
from broker.cli.topic.partitions import chosen, partition_option
from broker.cli.topic.selection import one
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.client.topics import delete_records


class TrimmedPartition(NamedTuple):
    """A partition.

    Attributes:
        topic: its topic.
        partition: its number.
        start_offset_before: of its first record before.
        start_offset: of its first record now.
        records: offsets that were deleted.
        is_dry_run: whether nothing was deleted.
    """

    topic: str
    partition: int
    start_offset_before: int
    start_offset: int
    records: int
    is_dry_run: bool


@verb(
    TrimmedPartition,
    examples=(
        "broker topic trim orders --keep 1000 --dry-run",
        "broker topic trim orders --before 2026-01-31T00:00:00",
        "broker topic trim orders --to-offset 4200 -p 3 --yes",
    ),
)
@click.argument("name", shell_complete=topics)
@click.option(
    "--to-offset", type=click.IntRange(min=0), metavar="N", help="Keep the records from N on."
)
@click.option("--before", metavar="TIME", help="Delete records before the first one of this time.")
@click.option(
    "--keep", type=click.IntRange(min=0), metavar="N", help="Keep the last N of each partition."
)
@click.option("--all", "everything", is_flag=True, help="Delete all records.")
@partition_option
@yes
@dry_run
def command(
    session: Session,
    name: str,
    to_offset: int | None,
    before: str | None,
    keep: int | None,
    everything: bool,
    numbers: tuple[int, ...],
    yes: bool,
    dry_run: bool,
) -> None:
    """Delete the oldest records of a topic; the topic's name must be typed, or --yes be given."""
    keep = 0 if everything else keep
    if sum(each is not None for each in (to_offset, before, keep)) != 1:
        raise click.UsageError("use one of --to-offset, --before, --keep and --all")
    wanted = None if before is None else time_ms(before)
    cluster = session.cluster
    keys = chosen(one(cluster, name), numbers)
    starts = list_offsets(cluster, dict.fromkeys(keys, EARLIEST))
    ends = list_offsets(cluster, dict.fromkeys(keys, LATEST))
    found = {} if wanted is None else list_offsets(cluster, dict.fromkeys(keys, wanted))
    targets = {}
    for key in keys:
        start, end = starts[key].offset, ends[key].offset
        target = end if to_offset is None else to_offset
        if keep is not None:
            target = end - keep
        elif wanted is not None and found[key].offset >= 0:
            target = found[key].offset
        targets[key] = min(max(target, start), end)
    rows = [
        TrimmedPartition(
            *key, starts[key].offset, targets[key], targets[key] - starts[key].offset, dry_run
        )
        for key in keys
    ]
    if not dry_run:
        count = sum(each.records for each in rows)
        confirm([f"{name}: {count:,} records will be deleted"], [name], is_confirmed=yes)
        new = delete_records(cluster, {key: each for key, each in targets.items() if each})
        rows = [
            each._replace(start_offset=new.get((name, each.partition), each.start_offset))
            for each in rows
        ]
    for each in rows:
        session.write(each)
