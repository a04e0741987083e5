"""`broker topic offsets`."""

from typing import NamedTuple

import click

from broker.cli.completion import topics
from broker.cli.frame import Session, verb
from broker.cli.times import time_ms
from broker.cli.topic.selection import selected
from broker.client.offsets import EARLIEST, LATEST, list_offsets


class PartitionOffsets(NamedTuple):
    """The offsets of a partition.

    Attributes:
        topic: its topic.
        partition: its number.
        start_offset: of the first record.
        end_offset: that the next record will have.
        stable_offset: the end of what readers of committed records may read.
        at_offset: of the first record at or after --at; null: none is that new, or no --at.
        at_timestamp_ms: of that record.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    stable_offset: int
    at_offset: int | None
    at_timestamp_ms: int | None


@verb(
    PartitionOffsets,
    examples=(
        "broker topic offsets orders",
        "broker topic offsets orders --at 2026-01-31T12:00:00",
        "broker topic offsets 'orders.*' --at -1h -o csv",
    ),
)
@click.argument("patterns", nargs=-1, required=True, metavar="NAME|REGEX...", shell_complete=topics)
@click.option("--at", metavar="TIME", help="Also the offset at a time: ISO 8601, ms, or -1h.")
def command(session: Session, patterns: tuple[str, ...], at: str | None) -> None:
    """Show the first, the next and the last stable offset of each partition."""
    wanted = None if at is None else time_ms(at)
    cluster = session.cluster
    keys = [
        (name, each.partition)
        for name, topic in selected(cluster, patterns).items()
        for each in topic.partitions
    ]
    starts = list_offsets(cluster, dict.fromkeys(keys, EARLIEST))
    ends = list_offsets(cluster, dict.fromkeys(keys, LATEST))
    stable = list_offsets(cluster, dict.fromkeys(keys, LATEST), is_committed=True)
    found = {} if wanted is None else list_offsets(cluster, dict.fromkeys(keys, wanted))
    for key in keys:
        at_ = found.get(key)
        is_found = at_ is not None and at_.offset >= 0
        session.write(
            PartitionOffsets(
                *key,
                starts[key].offset,
                ends[key].offset,
                stable[key].offset,
                at_.offset if at_ is not None and is_found else None,
                at_.timestamp if at_ is not None and is_found else None,
            )
        )
