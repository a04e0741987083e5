"""`broker topic produce`."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from os import fsencode
from pathlib import Path
from typing import NamedTuple

import click

from broker.cli.completion import topics
from broker.cli.frame import Session, pairs, verb
from broker.cli.progress import progress
from broker.cli.topic.input_records import pieces
from broker.cli.topic.partitions import chosen
from broker.cli.topic.record_format import delimiter
from broker.cli.topic.record_rows import object_of_line, row_of_json
from broker.cli.topic.selection import one
from broker.cli.topic.writing import ACKS, Record, Writer, compression_option, input_of


class WrittenRecord(NamedTuple):
    """A record that was written.

    Attributes:
        topic: its topic.
        partition: its partition.
        offset: its offset; -1: it was written, but the answer with its offset was lost.
    """

    topic: str
    partition: int
    offset: int


class _Options(NamedTuple):
    """How a piece of the input becomes a record."""

    is_json: bool
    key: bytes | None
    key_delimiter: bytes | None
    is_empty_null: bool
    headers: list[tuple[bytes, bytes | None]]


@verb(
    WrittenRecord,
    examples=(
        "echo hello | broker topic produce greetings",
        "broker topic produce orders -K : --file orders.txt -o jsonl",
        "broker topic consume orders -e -o jsonl | broker topic produce copies --json",
    ),
)
@click.argument("name", shell_complete=topics)
@click.option(
    "--file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Read this file instead of the standard input.",
)
@click.option(
    "--json",
    "is_json",
    is_flag=True,
    help="Each line is an object as `consume -o jsonl` prints it: key, value, headers, ...",
)
@click.option(
    "-D",
    "--delimiter",
    "between",
    default="\\n",
    metavar="TEXT",
    help="What separates records: text, \\n, \\t, \\xFF (default: \\n).",
)
@click.option(
    "-K",
    "--key-delimiter",
    metavar="TEXT",
    help="What separates the key from the value (default: there are no keys).",
)
@click.option("-k", "--key", metavar="TEXT", help="The key of all records.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Add a header to all records; may be repeated.",
)
@click.option(
    "-Z",
    "--null",
    "is_empty_null",
    is_flag=True,
    help="An empty key or value is null: a null value deletes its key in compacted topics.",
)
@click.option(
    "-p",
    "--partition",
    type=int,
    metavar="N",
    help="Write to this partition (default: by the key's hash, as all clients).",
)
@compression_option
@click.option(
    "--acks",
    type=click.Choice(tuple(ACKS)),
    default="all",
    help="Wait for all replicas in sync, or for the leader only (default: all).",
)
def command(
    session: Session,
    name: str,
    file: Path | None,
    is_json: bool,
    between: str,
    key_delimiter: str | None,
    key: str | None,
    headers: tuple[str, ...],
    is_empty_null: bool,
    partition: int | None,
    compression: str,
    acks: str,
) -> None:
    """Write records to a topic, one per line; with -o, print the offset of each."""
    options = _Options(
        is_json,
        None if key is None else fsencode(key),
        None if key_delimiter is None else delimiter(key_delimiter),
        is_empty_null,
        [(fsencode(each), fsencode(value)) for each, value in pairs(headers, "-H")],
    )
    topic = one(session.cluster, name)
    if partition is not None:
        chosen(topic, [partition])

    def note(number: int, offset: int) -> None:
        if not session.is_text:
            session.write(WrittenRecord(name, number, offset))

    writer = Writer(
        session.cluster,
        name,
        len(topic.partitions),
        compression=compression,
        acks=acks,
        on_offset=note,
    )
    with ExitStack() as stack:
        source = sys.stdin.buffer if file is None else stack.enter_context(file.open("rb"))
        shown = stack.enter_context(progress(f"writing to {name}"))
        stack.enter_context(input_of(writer))
        try:
            for found in _records(pieces(source, delimiter(between)), options):
                if found is None:
                    writer.flush()
                    session.output.flush()
                else:
                    writer.add(found[1], found[0] if partition is None else partition)
                    shown.add(1, len(found[1][1] or b""))
        finally:
            writer.flush()
    if session.is_text:
        print(f"{writer.written:,} records written to {name}", file=sys.stderr)


def _records(
    found: Iterator[bytes | None], options: _Options
) -> Iterator[tuple[int | None, Record] | None]:
    """Yield partition, if there is one, and record; None when no more input is there yet."""
    for number, each in enumerate(found, 1):
        if each is None:
            yield None
        elif options.is_json:
            if each.strip():
                yield _of_json(each, f"line {number}", options)
        else:
            yield None, _of_text(each, options)


def _of_json(line: bytes, what: str, options: _Options) -> tuple[int | None, Record]:
    partition, (key, value, headers, timestamp) = row_of_json(object_of_line(line, what), what)
    record = (
        key if options.key is None else options.key,
        value,
        [*headers, *options.headers],
        timestamp,
    )
    return partition, record


def _of_text(text: bytes, options: _Options) -> Record:
    key, value = options.key, text
    if options.key_delimiter is not None:
        before, found, after = text.partition(options.key_delimiter)
        if found:
            key, value = before, after
    if options.is_empty_null:
        return key or None, value or None, options.headers, None
    return key, value, options.headers, None
