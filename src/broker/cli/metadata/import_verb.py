"""`broker metadata import`."""

from pathlib import Path
from typing import NamedTuple

import click

from broker.cli.frame import Session, verb
from broker.cli.places import Stopped, stopped_options
from broker.model.errors import ConfigError


class ImportedMetadata(NamedTuple):
    """An import.

    Attributes:
        file: its path.
        keys: how many were imported.
    """

    file: str
    keys: int


@verb(
    ImportedMetadata,
    is_single=True,
    is_local=True,
    examples=(
        "broker metadata import metadata.jsonl --data-dir new",
        "broker metadata import metadata.jsonl --set polylog.metadata.store=etcd://H1:2379/PREFIX",
    ),
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@stopped_options
def command(session: Session, file: Path, stopped: Stopped) -> None:
    """Write exported metadata into an empty store.

    In a cluster, a standalone broker's topics are led by the broker with its node.id and data
    directory. The store is that of the configuration, as for `broker start`; all its brokers must
    be stopped.
    """
    from broker.server.cluster import offline  # noqa: PLC0415 - not needed by `--help`

    config = stopped.configuration()
    lines = _lines(file)
    count = offline.run(config, lambda found: offline.import_(found, lines), is_new=True)
    session.write(ImportedMetadata(str(file), count))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
