"""`broker group seek`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli.completion import groups, topics
from broker.cli.confirmation import print_undo
from broker.cli.frame import Session, dry_run, verb
from broker.cli.group import saved_offsets
from broker.cli.group.seeking import Sought, apply, check_inactive, sought, sought_partitions
from broker.cli.partitions import partition_text
from broker.cli.times import parse_duration, time_ms
from broker.client.groups import describe_group, group_or_none
from broker.client.offsets import EARLIEST, LATEST, committed_offsets, list_offsets
from broker.model.clock import SystemClock
from broker.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.client.metadata import Cluster, Partition


_BY_TIMESTAMP = ("--to-earliest", "--to-latest", "--to-datetime", "--by-duration")


@verb(
    Sought,
    examples=(
        "broker group seek billing --to-earliest --dry-run",
        "broker group seek billing orders:0,1 --to-datetime 2026-01-31T12:00:00Z",
        "broker group seek billing --by-duration 1h",
        "broker group seek billing --to-group billing-blue",
    ),
)
@click.argument("group", shell_complete=groups)
@click.argument("wanted", metavar="[TOPIC[:PARTITION,...]]...", nargs=-1, shell_complete=topics)
@click.option("--to-earliest", is_flag=True, help="The start of the log.")
@click.option("--to-latest", is_flag=True, help="The end of the log: skip what is there.")
@click.option("--to-current", is_flag=True, help="The committed offset, brought into the log.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="This offset.")
@click.option(
    "--to-datetime", metavar="TIME", help="The first record of this time, as 2026-01-31T12:00:00Z."
)
@click.option("--by-duration", metavar="DURATION", help="The first record since then: 90s, 1h, 7d.")
@click.option("--shift-by", type=int, metavar="N", help="N records forward; back if N is negative.")
@click.option("--to-group", metavar="GROUP", shell_complete=groups, help="As this group.")
@click.option(
    "--from-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="As lines TOPIC,PARTITION,OFFSET; -1 removes an offset.",
)
@dry_run
def command(
    session: Session,
    group: str,
    wanted: tuple[str, ...],
    *,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    to_group: str | None,
    from_file: Path | None,
    dry_run: bool,
) -> None:
    """Set the committed offsets of GROUP, in topics or in all partitions that have one.

    A group with members is refused. The earlier offsets are kept: `broker group undo GROUP`.
    """
    given = {
        "--to-earliest": EARLIEST if to_earliest else None,
        "--to-latest": LATEST if to_latest else None,
        "--to-datetime": None if to_datetime is None else time_ms(to_datetime),
        "--by-duration": None
        if by_duration is None
        else SystemClock().wall_ms() - parse_duration(by_duration),
        "--to-current": 0 if to_current else None,
        "--shift-by": shift_by,
        "--to-offset": to_offset,
        "--to-group": to_group,
        "--from-file": from_file,
    }
    chosen = [(name, value) for name, value in given.items() if value is not None]
    if len(chosen) != 1:
        names = ", ".join(name for name, _ in chosen)
        raise ConfigError(f"name one of {', '.join(given)}; given: {names or 'none'}")
    [(kind, value)] = chosen
    cluster = session.cluster
    # An offset creates a group; without topics it must exist.
    look = group_or_none if wanted or from_file or to_group else describe_group
    described = look(cluster, group)
    check_inactive(cluster, described, group)
    before = committed_offsets(cluster, group)
    after: Mapping[Partition, int | None]
    if isinstance(value, int):
        partitions = sought_partitions(cluster, wanted, before)
        if kind in _BY_TIMESTAMP:
            after = _found(cluster, partitions, value)
        elif kind == "--to-offset":
            after = dict.fromkeys(partitions, value)
        else:
            after = _shifted(before, partitions, value)
    else:
        after = _copied(cluster, value)
        only = set(sought_partitions(cluster, wanted, after))
        after = {key: offset for key, offset in after.items() if key in only}
    rows = sought(cluster, before, after)
    file = None if dry_run else apply(cluster, group, before, rows)
    for each in rows:
        session.write(each)
    if file is not None:
        print_undo(shlex.join(["broker", "group", "seek", group, "--from-file", str(file)]))


def _copied(cluster: "Cluster", place: str | Path) -> "Mapping[Partition, int | None]":
    """Return the offsets of another group or of a file."""
    if isinstance(place, Path):
        return saved_offsets.read(place)
    found = committed_offsets(cluster, place)
    if not found:
        raise ConfigError(f"group {place!r} has committed nothing")
    return found


def _found(
    cluster: "Cluster", partitions: "list[Partition]", timestamp: int
) -> "dict[Partition, int | None]":
    """Return the offsets of a timestamp; the end of the log if no record is that new."""
    found = list_offsets(cluster, dict.fromkeys(partitions, timestamp))
    missing = [key for key, each in found.items() if each.offset < 0]
    ends = list_offsets(cluster, dict.fromkeys(missing, LATEST)) if missing else {}
    return {key: ends.get(key, each).offset for key, each in found.items()}


def _shifted(
    before: "Mapping[Partition, int]", partitions: "list[Partition]", records: int
) -> "dict[Partition, int | None]":
    missing = sorted(set(partitions) - before.keys())
    if missing:
        names = ", ".join(map(partition_text, missing))
        raise ConfigError(f"nothing is committed in {names}: use --to-earliest or else")
    return {key: max(before[key] + records, 0) for key in partitions}
