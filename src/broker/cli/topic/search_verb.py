"""`broker topic search`."""

import re
import sys
from collections.abc import Callable
from os import fsencode

import click

from broker.cli.completion import topics
from broker.cli.exit_codes import Exit
from broker.cli.frame import Session, verb
from broker.cli.progress import progress
from broker.cli.topic.missed import missed_in
from broker.cli.topic.partitions import chosen, partition_option
from broker.cli.topic.printing import Printer
from broker.cli.topic.record_rows import RecordRow
from broker.cli.topic.selection import selected
from broker.cli.topic.spans import spans
from broker.client.fetch import Range
from broker.client.reading import read
from broker.codec import Record
from broker.model.errors import ConfigError

_HITS = 100
_DEFAULT = "%t-%p@%o %k %v\\n"


@verb(
    RecordRow,
    examples=(
        "broker topic search orders 'order-4711'",
        "broker topic search orders --key customer-7 -o jsonl",
        "broker topic search 'orders.*' --regex 'total\\D+9\\d{3}' -O @-1h:end -n 0",
    ),
)
@click.argument("patterns", metavar="NAME|REGEX", shell_complete=topics)
@click.argument("text", required=False)
@click.option("--regex", is_flag=True, help="TEXT is a regular expression.")
@click.option("--key", metavar="KEY", help="Only records with exactly this key.")
@click.option(
    "--in",
    "places",
    multiple=True,
    type=click.Choice(("key", "value", "headers")),
    help="Where TEXT is looked for; may be repeated (default: everywhere).",
)
@click.option(
    "-O",
    "--offsets",
    default="start:end",
    metavar="RANGE",
    help="Search only these, as of `broker topic consume` (default: start:end).",
)
@partition_option
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=0),
    default=_HITS,
    metavar="N",
    help=f"Stop after N hits; 0: never (default: {_HITS}).",
)
@click.option("-f", "--format", "format_", metavar="TEXT", help="As of `broker topic consume`.")
def command(
    session: Session,
    patterns: str,
    text: str | None,
    regex: bool,
    key: str | None,
    places: tuple[str, ...],
    offsets: str,
    numbers: tuple[int, ...],
    count: int,
    format_: str | None,
) -> None:
    """Find records by a text, a regular expression or a key; exit code 3 if there are none."""
    if text is None and key is None:
        raise click.UsageError("nothing to search for: add TEXT or --key")
    printer = Printer(session, format_, _DEFAULT)
    is_hit = _test(text, key, places or ("key", "value", "headers"), is_regex=regex)
    cluster = session.cluster
    found = selected(cluster, [patterns])
    ids = {name: each.topic_id for name, each in found.items()}
    keys = [part for each in found.values() for part in chosen(each, numbers)]
    parts = spans(cluster, keys, offsets, ids)
    ends = {part: each.log_end if each.end is None else each.end for part, each in parts.items()}
    total = sum(ends[part] - each.start for part, each in parts.items())
    hits = 0
    when_missed = missed_in(session)
    with progress("searching", total) as shown:
        for (topic, partition), span in sorted(parts.items()):
            part = Range(topic, ids[topic], partition, span.start, ends[topic, partition])
            for each in read(cluster, part, when_missed=when_missed):
                shown.add(1, len(each.record.value or b""))
                if is_hit(each.record):
                    hits += 1
                    printer.print(each)
                    printer.flush()
                    if hits == count:
                        break
            if count and hits == count:
                break
    bound = f" (stopped at {count}: -n 0 shows all)" if count and hits == count else ""
    print(f"{hits:,} hits in {shown.done:,} of {total:,} records{bound}", file=sys.stderr)
    if not hits and session.exit_code == Exit.OK:
        session.exit_code = Exit.NOT_FOUND


def _test(
    text: str | None, key: str | None, places: tuple[str, ...], *, is_regex: bool
) -> Callable[[Record], bool]:
    wanted = None if key is None else fsencode(key)
    contains = None if text is None else _contains(text, is_regex=is_regex)

    def test(record: Record) -> bool:
        if wanted is not None and record.key != wanted:
            return False
        if contains is None:
            return True
        return (
            ("value" in places and contains(record.value or b""))
            or ("key" in places and contains(record.key or b""))
            or (
                "headers" in places
                and any(contains(name) or contains(value or b"") for name, value in record.headers)
            )
        )

    return test


def _contains(text: str, *, is_regex: bool) -> Callable[[bytes], bool]:
    if not is_regex:
        needle = fsencode(text)
        return lambda value: needle in value
    try:
        pattern = re.compile(fsencode(text))
    except re.error as error:
        raise ConfigError(f"{text!r}: not a regular expression: {error}") from None
    return lambda value: pattern.search(value) is not None
