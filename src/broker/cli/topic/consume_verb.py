"""`broker topic consume`."""

from collections.abc import Callable, Iterator

import click

from broker.cli.completion import groups, topics
from broker.cli.frame import Session, verb
from broker.cli.topic.missed import missed_in
from broker.cli.topic.partitions import chosen, partition_option
from broker.cli.topic.printing import Printer
from broker.cli.topic.record_rows import RecordRow
from broker.cli.topic.selection import selected
from broker.cli.topic.spans import Span, spans
from broker.client.fetch import Range
from broker.client.groups import commit_offsets, group_or_none
from broker.client.metadata import Cluster, Partition
from broker.client.offsets import committed_offsets
from broker.client.reading import Missed, Read, follow, read

_DEFAULT = "%v\\n"


@verb(
    RecordRow,
    examples=(
        "broker topic consume greetings -e",
        "broker topic consume orders -O -10 -f '%p %o %k %v\\n' -e",
        "broker topic consume orders -O @2026-01-31T12:00:00:end -o jsonl",
        "broker topic consume orders -g readers -n 100",
    ),
)
@click.argument("patterns", nargs=-1, required=True, metavar="NAME|REGEX...", shell_complete=topics)
@click.option(
    "-O",
    "--offsets",
    metavar="RANGE",
    help="start, end, N, +N, -N (the last N), @TIME, or A:B of these (default: start; with -g:"
    " where the group is).",
)
@click.option(
    "-n", "--count", type=click.IntRange(min=0), metavar="N", help="Stop after N records."
)
@click.option("-e", "--exit", "exits", is_flag=True, help="Stop at the end, as it is at the start.")
@partition_option
@click.option(
    "-f",
    "--format",
    "format_",
    metavar="TEXT",
    help="%t topic, %p partition, %o offset, %d time, %k key, %v value, %h headers, %K %V %H sizes;"
    " %k{hex}, %v{base64}, %d{%H:%M}, %h{%k=%v }; \\n \\t \\xFF (default: %v\\n).",
)
@click.option(
    "-g",
    "--group",
    metavar="NAME",
    shell_complete=groups,
    help="Begin where this group is, and commit what was printed; the group has no members then.",
)
@click.option(
    "--read-uncommitted",
    is_flag=True,
    help="Also records of transactions that are open or were aborted.",
)
def command(
    session: Session,
    patterns: tuple[str, ...],
    offsets: str | None,
    count: int | None,
    exits: bool,
    numbers: tuple[int, ...],
    format_: str | None,
    group: str | None,
    read_uncommitted: bool,
) -> None:
    """Print the records of topics: values as lines, in a format, or as objects with -o.

    If records are deleted before they are read, the command says how many, goes on with those that
    are left, and ends with exit code 8.
    """
    if group is not None and not group:
        raise click.UsageError("-g: the name of the group is empty")
    printer = Printer(session, format_, _DEFAULT)
    cluster = session.cluster
    found = selected(cluster, patterns)
    ids = {name: each.topic_id for name, each in found.items()}
    keys = [key for each in found.values() for key in chosen(each, numbers)]
    is_committed = not read_uncommitted
    parts = spans(cluster, keys, offsets or "start", ids, is_committed=is_committed)
    tell = missed_in(session)
    if group is not None:
        from broker.cli.group.seeking import check_inactive  # noqa: PLC0415 - not for `--help`

        check_inactive(cluster, group_or_none(cluster, group), group)
        if offsets is None:
            parts = _of_group(cluster, group, parts, tell)
    positions = {key: each.start for key, each in parts.items()}

    def when_missed(missed: Missed) -> None:
        tell(missed)
        positions[missed.topic, missed.partition] = missed.end

    ends = any(each.end is not None for each in parts.values())
    if exits or ends:
        records = _until_end(cluster, parts, ids, when_missed, is_committed=is_committed)
    else:
        records = follow(
            cluster, positions, ids, is_committed=is_committed, when_missed=when_missed
        )
    try:
        for each in records if count is None else _counted(records, count):
            if each is None:
                printer.wait()
                continue
            printer.print(each)
            positions[each.topic, each.partition] = each.record.offset + 1
    finally:
        printer.flush()
        if group is not None:
            commit_offsets(cluster, group, positions)


def _of_group(
    cluster: Cluster, group: str, parts: dict[Partition, Span], tell: Callable[[Missed], None]
) -> dict[Partition, Span]:
    known = committed_offsets(cluster, group)
    for (topic, partition), each in sorted(parts.items()):
        position = known.get((topic, partition), each.log_start)
        if position < each.log_start:
            tell(Missed(topic, partition, position, each.log_start))
    return {
        key: each._replace(start=min(max(known.get(key, each.start), each.start), each.log_end))
        for key, each in parts.items()
    }


def _until_end(
    cluster: Cluster,
    parts: dict[Partition, Span],
    ids: dict[str, str],
    when_missed: Callable[[Missed], None],
    *,
    is_committed: bool,
) -> Iterator[Read | None]:
    for (topic, partition), each in sorted(parts.items()):
        end = each.log_end if each.end is None else each.end
        part = Range(topic, ids[topic], partition, each.start, end)
        yield from read(cluster, part, is_committed=is_committed, when_missed=when_missed)


def _counted(records: Iterator[Read | None], count: int) -> Iterator[Read | None]:
    """Yield until `count` records were among what was yielded."""
    if not count:
        return
    for each in records:
        yield each
        count -= each is not None
        if not count:
            return
