"""`broker topic export`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from broker.cli.completion import topics
from broker.cli.exit_codes import Exit, exit_code_of
from broker.cli.frame import Session, verb
from broker.cli.output import plain
from broker.cli.progress import progress
from broker.cli.topic.export_files import exported_ends, write_parquet
from broker.cli.topic.missed import missed_in
from broker.cli.topic.partitions import chosen, partition_option
from broker.cli.topic.record_rows import record_row
from broker.cli.topic.selection import one
from broker.cli.topic.spans import spans
from broker.client.fetch import Range
from broker.client.reading import Missed, Read, read
from broker.model.errors import ConfigError, ErrorCode, RequestError, StorageError

_PARQUET = ".parquet"


class ExportedTopic(NamedTuple):
    """An export.

    Attributes:
        topic: its topic.
        file: where the records are; `-` is the standard output.
        records: that were written, without those of an export that was resumed.
        partitions: how many were read.
    """

    topic: str
    file: str
    records: int
    partitions: int


@verb(
    ExportedTopic,
    is_single=True,
    examples=(
        "broker topic export orders orders.jsonl",
        "broker topic export orders orders.jsonl --resume",
        "broker topic export orders orders.parquet -O @2026-01-31:end",
        "broker topic export orders - | gzip > orders.jsonl.gz",
    ),
)
@click.argument("name", shell_complete=topics)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "-O",
    "--offsets",
    default="start:end",
    metavar="RANGE",
    help="Only these, as of `broker topic consume` (default: start:end).",
)
@partition_option
@click.option("--resume", is_flag=True, help="Go on behind the last record that the file has.")
def command(
    session: Session,
    name: str,
    file: str,
    offsets: str,
    numbers: tuple[int, ...],
    resume: bool,
) -> None:
    """Write the records of a topic to a file, exactly: JSON lines, or Parquet with pyarrow.

    A line is what `consume -o jsonl` prints. `broker topic import` reads both. If records are
    deleted before they are read, also before the export goes on with --resume, the command says how
    many, writes those that are left, and ends with exit code 8.
    """
    path = Path(file)
    if resume and not _can_resume(file):
        raise click.UsageError("--resume needs a file of JSON lines")
    if file != "-" and path.exists() and not resume:
        more = "go on with --resume" if _can_resume(file) else "name another file"
        raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"{file} exists: delete it, or {more}")
    cluster = session.cluster
    topic = one(cluster, name)
    keys = chosen(topic, numbers)
    parts = spans(cluster, keys, offsets, {name: topic.topic_id})
    when_missed = missed_in(session)
    done = exported_ends(path, name) if resume and path.exists() else {}
    for (_, partition), span in sorted(parts.items()):
        end = done.get(partition, span.log_start)
        if end < span.log_start:
            when_missed(Missed(name, partition, end, span.log_start))
    ranges = [
        Range(
            name,
            topic.topic_id,
            partition,
            max(span.start, done.get(partition, 0)),
            span.log_end if span.end is None else span.end,
        )
        for (_, partition), span in sorted(parts.items())
    ]
    total = sum(max(each.end - each.start, 0) for each in ranges)
    with progress(f"exporting {name}", total) as shown:

        def records() -> Iterator[Read]:
            for part in ranges:
                for each in read(cluster, part, when_missed=when_missed):
                    yield each
                    shown.add(1, len(each.record.value or b""))

        _write(file, records())
    row = ExportedTopic(name, file, shown.done, len(ranges))
    if file == "-":
        print(f"{row.records:,} records of {name} exported", file=sys.stderr)
    else:
        session.write(row)


def _can_resume(file: str) -> bool:
    """Return whether a file has lines, to which others can be added."""
    return file != "-" and Path(file).suffix != _PARQUET


def _write(file: str, records: Iterator[Read]) -> None:
    path = Path(file)
    try:
        if path.suffix == _PARQUET:
            write_parquet(path, records)
        elif file == "-":
            for each in records:
                sys.stdout.buffer.write(_line(each))
            sys.stdout.buffer.flush()
        else:
            with path.open("ab") as opened:
                for each in records:
                    opened.write(_line(each))
    except BrokenPipeError:
        raise
    except OSError as error:
        what = f"{file} cannot be written: {error.strerror or error}"
        if exit_code_of(error) is Exit.STORAGE:
            more = "go on with --resume" if _can_resume(file) else "begin again"
            raise StorageError(f"{what}: make room, and {more}") from None
        raise ConfigError(what) from None


def _line(each: Read) -> bytes:
    row = plain(record_row(each.topic, each.partition, each.record))
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"
