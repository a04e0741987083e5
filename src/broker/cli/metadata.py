"""`broker metadata`: export and import a metadata store, and repair a restored one.

All of it is for a store that no broker uses.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from broker.cli.reporting import Parser
from broker.model.errors import ConfigError

_STORE = (
    " The store is that of the configuration, as for `broker start`: metadata.db of --data-dir, or"
    " --set polylog.metadata.store=etcd://HOST:PORT/PREFIX. All its brokers must be stopped."
)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    parser = Parser(prog="broker metadata")
    commands = parser.add_commands()
    export = commands.add_parser(
        "export",
        help="write all metadata to a file",
        description="Write all metadata, one key a line as JSON, to a new file." + _STORE,
    )
    export.add_argument("file", type=Path, metavar="FILE", help="a new file")
    export.add_argument(
        "--moved-to",
        metavar="STORE",
        help="then mark the store, so that no broker starts with it: its metadata is in this one",
    )
    importing = commands.add_parser(
        "import",
        help="write exported metadata into an empty store",
        description="Write exported metadata into an empty store. In a cluster, a standalone"
        " broker's topics are led by the broker with its node.id and data directory." + _STORE,
    )
    importing.add_argument("file", type=Path, metavar="FILE", help="a file made by `export`")
    bump = commands.add_parser(
        "bump-epochs",
        help="raise all leader epochs after an old backup of the store was restored",
        description="Raise the leader epoch of every partition by 1,000,000, and skip 2^40 producer"
        " ids, after an old backup of a cluster's store was restored: logs with a higher epoch than"
        " the store's are not served, and no producer may get the id of another one." + _STORE,
    )
    for command in (export, importing, bump):
        _add_configuration(command)
    parsed = parser.parse_args(arguments)
    return _run(parsed)


def _add_configuration(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", type=Path, metavar="FILE", help="settings of the broker")
    command.add_argument("--data-dir", metavar="DIR", help="data directory of the broker")
    command.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="set a setting"
    )


def _run(parsed: argparse.Namespace) -> int:
    from broker.cli.start import configuration  # noqa: PLC0415 - not needed by `--help`
    from broker.server.cluster import offline  # noqa: PLC0415

    config = configuration(parsed.config, parsed.data_dir, None, parsed.set)
    if parsed.command == "export":
        count = offline.run(
            config, lambda found: offline.export(found, parsed.file, parsed.moved_to)
        )
        print(f"exported {count} keys to {parsed.file}")
    elif parsed.command == "import":
        lines = _lines(parsed.file)
        count = offline.run(config, lambda found: offline.import_(found, lines), is_new=True)
        print(f"imported {count} keys from {parsed.file}")
    else:
        count = offline.run(config, offline.bump_epochs)
        print(f"raised the leader epochs of {count} partitions")
    return 0


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
