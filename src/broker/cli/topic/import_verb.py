"""`broker topic import`."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import click

from broker.cli.completion import topics
from broker.cli.frame import Session, dry_run, verb
from broker.cli.progress import progress
from broker.cli.topic.export_files import exported_records
from broker.cli.topic.selection import one
from broker.cli.topic.writing import Writer, compression_option, input_of
from broker.client.offsets import LATEST, list_offsets
from broker.model.errors import ConfigError


class ImportedTopic(NamedTuple):
    """An import.

    Attributes:
        topic: its topic.
        file: where the records come from.
        records: that were written; in a dry run, that would be.
        skipped: records that an import that was resumed had written already.
        is_dry_run: whether nothing was written.
    """

    topic: str
    file: str
    records: int
    skipped: int
    is_dry_run: bool


@verb(
    ImportedTopic,
    is_single=True,
    examples=(
        "broker topic import orders orders.jsonl",
        "broker topic import orders orders.jsonl --resume",
        "zcat orders.jsonl.gz | broker topic import orders -",
    ),
)
@click.argument("name", shell_complete=topics)
@click.argument("file", type=click.Path(dir_okay=False, exists=True, allow_dash=True))
@click.option(
    "--by-key",
    is_flag=True,
    help="Choose partitions by the keys, instead of those that the file says.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Leave out as many records of each partition as it has got since it was created: for an"
    " import into a new topic that nobody else writes to.",
)
@compression_option
@dry_run
def command(
    session: Session,
    name: str,
    file: str,
    by_key: bool,
    resume: bool,
    compression: str,
    dry_run: bool,
) -> None:
    """Write the records of an export to a topic that exists.

    Keys, values, headers and timestamps are those of the file; offsets are new.
    """
    if resume and by_key:
        raise click.UsageError("--resume needs the partitions of the file, not --by-key")
    cluster = session.cluster
    topic = one(cluster, name)
    count = len(topic.partitions)
    left: dict[int | None, int] = {}
    if resume:
        ends = list_offsets(cluster, {(name, each): LATEST for each in range(count)})
        left = {number: found.offset for (_, number), found in ends.items()}
    path = Path(file)
    writer = Writer(cluster, name, count, compression=compression)
    records = skipped = 0
    with ExitStack() as stack:
        opened = sys.stdin.buffer if file == "-" else stack.enter_context(path.open("rb"))
        shown = stack.enter_context(progress(f"importing {file}"))
        stack.enter_context(input_of(writer))
        for partition, record in exported_records(path, opened):
            if not by_key and partition is not None and not 0 <= partition < count:
                raise ConfigError(
                    f"{file} has records of partition {partition}, but {name} has {count}: raise"
                    f" it with `broker topic alter {name} -p {partition + 1}`, or add --by-key"
                )
            if resume and partition is None:
                raise ConfigError(
                    f"{file} has records without a partition: --resume cannot tell whether they"
                    " were written"
                )
            if left.get(partition, 0) > 0:
                left[partition] -= 1
                skipped += 1
                continue
            records += 1
            shown.add(1, len(record[1] or b""))
            if not dry_run:
                writer.add(record, None if by_key else partition)
        writer.flush()
    session.write(ImportedTopic(name, file, records, skipped, dry_run))
