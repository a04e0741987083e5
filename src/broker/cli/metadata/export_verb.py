"""`broker metadata export`."""

from pathlib import Path
from typing import NamedTuple

import click

from broker.cli.frame import Session, verb
from broker.cli.places import Stopped, stopped_options


class ExportedMetadata(NamedTuple):
    """An export.

    Attributes:
        file: its path.
        keys: how many it has.
        moved_to: the store whose address the exported one now has as its successor, or null.
    """

    file: str
    keys: int
    moved_to: str | None


@verb(
    ExportedMetadata,
    is_single=True,
    is_local=True,
    examples=(
        "broker metadata export metadata.jsonl --data-dir data",
        "broker metadata export metadata.jsonl --data-dir data --moved-to etcd://H1:2379/PREFIX",
    ),
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--moved-to",
    metavar="STORE",
    help="Then mark the store, so that no broker starts with it: its metadata is in this one.",
)
@stopped_options
def command(session: Session, file: Path, moved_to: str | None, stopped: Stopped) -> None:
    """Write all metadata, one key a line as JSON, to a new file.

    The store is that of the configuration, as for `broker start`: metadata.db of --data-dir, or
    --set polylog.metadata.store=etcd://HOST:PORT/PREFIX. All its brokers must be stopped.
    """
    from broker.server.cluster import offline  # noqa: PLC0415 - not needed by `--help`

    config = stopped.configuration()
    count = offline.run(config, lambda found: offline.export(found, file, moved_to))
    session.write(ExportedMetadata(str(file), count, moved_to))
