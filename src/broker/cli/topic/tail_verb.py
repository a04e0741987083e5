"""`broker topic tail`."""

import click

from broker.cli.completion import topics
from broker.cli.frame import Session, verb
from broker.cli.topic.missed import missed_in
from broker.cli.topic.partitions import chosen, partition_option
from broker.cli.topic.printing import Printer
from broker.cli.topic.record_rows import RecordRow
from broker.cli.topic.selection import selected
from broker.cli.topic.spans import spans
from broker.client.fetch import Range
from broker.client.reading import follow, read

_DEFAULT = "%d{%H:%M:%S} %t-%p@%o %k %v\\n"


@verb(
    RecordRow,
    examples=(
        "broker topic tail orders",
        "broker topic tail orders payments -n 50 --no-follow",
        "broker topic tail orders -o jsonl | jq .value",
    ),
)
@click.argument("patterns", nargs=-1, required=True, metavar="NAME|REGEX...", shell_complete=topics)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=0),
    default=10,
    metavar="N",
    help="Begin with the last N records (default: 10).",
)
@partition_option
@click.option("-f", "--format", "format_", metavar="TEXT", help="As of `broker topic consume`.")
@click.option("--no-follow", is_flag=True, help="Do not wait for new records.")
def command(
    session: Session,
    patterns: tuple[str, ...],
    count: int,
    numbers: tuple[int, ...],
    format_: str | None,
    no_follow: bool,
) -> None:
    """Print the last records of topics by time, and those that come."""
    printer = Printer(session, format_, _DEFAULT)
    cluster = session.cluster
    found = selected(cluster, patterns)
    ids = {name: each.topic_id for name, each in found.items()}
    keys = [key for each in found.values() for key in chosen(each, numbers)]
    parts = spans(cluster, keys, f"-{count}:end", ids)
    when_missed = missed_in(session)
    last = [
        each
        for (topic, partition), span in parts.items()
        for each in read(
            cluster,
            Range(topic, ids[topic], partition, span.start, span.log_end),
            when_missed=when_missed,
        )
    ]
    last.sort(key=lambda each: each.record.timestamp)
    for each in last[max(len(last) - count, 0) :]:
        printer.print(each)
    printer.flush()
    if no_follow:
        return
    starts = {key: span.log_end for key, span in parts.items()}
    for new in follow(cluster, starts, ids, when_missed=when_missed):
        if new is None:
            printer.wait()
        else:
            printer.print(new)
