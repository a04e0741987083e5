"""`broker import rustlog`: import files of the original RustLog into a running broker.

    folders → topics and partitions → records → Produce

The original keeps topics and committed offsets in memory only: there is nothing of them to import.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from broker.client.connection import Client
from broker.model.clock import SystemClock
from broker.model.errors import ConfigError
from broker.protocols.import_command import Imported
from broker.protocols.importing.folder import reading
from broker.protocols.importing.options import wanted
from broker.protocols.importing.report import Partition, Report
from broker.protocols.importing.target import Target
from broker.protocols.rustlog.importing.directory import find_segments, read_records
from broker.protocols.rustlog.importing.report import row_of, text_of


def run(
    folder: Path,
    options: Mapping[str, int],
    connect: Callable[[], Client],
    progress: Callable[[str], None],
) -> Imported:
    """Import; print problems by `progress`.

    Raises:
        ConfigError: the directory has no files of RustLog.
        Unreachable, PeerError: of the broker.
        ImportFailed: a topic cannot accept the records, or the broker refuses them.
    """
    report, asked = Report(progress), wanted(options)
    with reading(folder):
        found = find_segments(folder)
        if not found:
            raise ConfigError(
                f"{folder} has no TOPIC/N/00000000000000000000.log: arrange the files of RustLog in"
                " a folder per topic, with a folder per partition"
            )
        with connect() as client:
            _import_all(Target(client, report, asked, SystemClock()), found)
    return Imported(
        row_of(report), text_of(report), report.next_steps("records", is_dry_run=asked.is_dry_run)
    )


def _import_all(target: Target, found: Mapping[Partition, list[Path]]) -> None:
    named = [each for each in found if target.may_have(each)]
    sizes: dict[str, int] = {}
    for each in named:
        sizes[each.topic] = max(sizes.get(each.topic, 0), each.number + 1)
    for topic, size in sizes.items():  # all are ready before the first record is written
        target.prepare(topic, size, size)
    for each in named:
        target.write_all(each, read_records(found[each]))
    target.check_retention()
