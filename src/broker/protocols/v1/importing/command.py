"""`broker import v1`: import a data directory of V1's original server into a running broker.

    directory → records → Produce, with their timestamps, partition by partition
              → offsets.json → OffsetCommit, translated to the offsets here

The import is a client of the broker (broker.protocols.importing). Group members are not imported:
they join again.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from broker.client.connection import Client
from broker.model.clock import SystemClock
from broker.model.errors import ConfigError
from broker.protocols.import_command import Imported
from broker.protocols.importing.commits import Commits
from broker.protocols.importing.folder import reading
from broker.protocols.importing.options import wanted
from broker.protocols.importing.report import Report
from broker.protocols.importing.target import Target
from broker.protocols.v1.group_files import files
from broker.protocols.v1.group_files.files import Offsets
from broker.protocols.v1.importing.directory import Found, find_segments, read_records
from broker.protocols.v1.importing.report import row_of, text_of


def run(
    folder: Path,
    options: Mapping[str, int],
    connect: Callable[[], Client],
    progress: Callable[[str], None],
) -> Imported:
    """Import; print problems by `progress`.

    Raises:
        ConfigError: the directory has no data of V1's server.
        Unreachable, PeerError: of the broker.
        ImportFailed: a topic cannot accept the records, or the broker refuses them.
    """
    asked = wanted(options)
    with reading(folder):
        found = find_segments(folder)
        offsets = files.read_offsets(folder)
        has_unread = offsets is None and (folder / files.OFFSETS_FILE).exists()
        if not found.segments and offsets is None:
            raise ConfigError(
                f"{folder} has no TOPIC-PARTITION-segment-NNNNNN.log and no offsets.json"
                " that can be read: give the data directory of V1's server"
            )
        report = Report(progress)
        if has_unread:
            report.add_problem(
                f"{files.OFFSETS_FILE} cannot be read, no committed offset is imported: repair"
                " it, delete the topics and import again"
            )
        with connect() as client:
            clock = SystemClock()
            target = Target(client, report, asked, clock)
            commits = Commits(client, report, clock, is_dry_run=asked.is_dry_run)
            import_all(target, commits, found, offsets or {}, options["partitions"])
    return Imported(
        row_of(report, found.mirror_count),
        text_of(report, found.mirror_count),
        report.next_steps("lines", is_dry_run=asked.is_dry_run),
    )


def import_all(
    target: Target,
    commits: Commits,
    found: Found,
    offsets: Mapping[str, Offsets],
    partition_count: int,
) -> None:
    """Import segments and committed offsets; topics get so many partitions, or more."""
    named = [each for each in found.segments if target.may_have(each)]
    sizes: dict[str, int] = {}
    for each in named:
        sizes[each.topic] = max(sizes.get(each.topic, 0), each.number + 1)
    for topic, size in sizes.items():  # all are ready before the first record is written
        target.prepare(topic, size, partition_count)
    for each in named:
        target.write_all(each, read_records(found.segments[each]))
    target.check_retention()
    for group_id, topics in offsets.items():
        commits.commit(group_id, topics)
