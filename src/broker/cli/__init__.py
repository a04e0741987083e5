"""The command `broker`.

argparse, not a richer parser: `broker start` must answer clients 0.15 s after exec, and argparse is
imported in 5 ms where the others take ten times that (measured). For the same reason each command
imports what it needs when it is the one that runs.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from broker.cli.reporting import add_broker
from broker.model.errors import (
    ConfigError,
    DataDirError,
    PolylogError,
    StorageError,
    Unreachable,
)
from broker.model.protocol_names import PINNABLE, PROTOCOL_NAMES

V1_PARTITIONS = 3  # of every topic, as V1's original server is configured by default

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2  # argparse's own for a bad command line
EXIT_UNREACHABLE = 69  # EX_UNAVAILABLE of sysexits(3)
EXIT_DATA_DIR = 73  # EX_CANTCREAT
EXIT_STORAGE = 74  # EX_IOERR

_EXIT_CODES: tuple[tuple[type[PolylogError], int], ...] = (
    (ConfigError, EXIT_USAGE),
    (Unreachable, EXIT_UNREACHABLE),
    (DataDirError, EXIT_DATA_DIR),
    (StorageError, EXIT_STORAGE),
)
# Of a given width, because argparse asks shutil for the terminal's with every option that is added,
# help or not: 3 ms for its import of every compression there is.
_FORMATTER = partial(argparse.HelpFormatter, width=78)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code; errors say what to do, on a line each."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if words and words[0] in _WITH_COMMANDS:
            return _WITH_COMMANDS[words[0]](words[1:])
        parser = _parser()
        parsed = parser.parse_args(words)
        if parsed.version:
            return _version()
        if parsed.command is None:
            parser.print_help(sys.stderr)
            return EXIT_USAGE
        return _import(parsed) if parsed.command == "import" else _start(parsed)
    except PolylogError as error:
        print(f"broker: {error}", file=sys.stderr)
        return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), EXIT_FAILED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="broker",
        description="Polylog: a durable log that Kafka's clients use.",
        formatter_class=_FORMATTER,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    start = commands.add_parser(
        "start",
        help="run a broker in the foreground",
        description="Run a broker until SIGTERM, SIGINT or SIGHUP. A setting given with --set goes"
        " before the environment (BROKER_NUM_PARTITIONS=3), that before the file, that before the"
        " default.",
        formatter_class=_FORMATTER,
    )
    start.add_argument("--config", type=Path, metavar="FILE.toml", help="read settings from here")
    start.add_argument("--data-dir", metavar="DIR", help="keep the data here (default: ./data)")
    start.add_argument(
        "--listen",
        action="append",
        metavar="[PROTOCOL://]HOST:PORT",
        help="listen here; may be repeated, port 0 picks a free one (default: localhost:9092)."
        f" Every port speaks {', '.join(PROTOCOL_NAMES)}, told apart by a connection's first bytes;"
        f" {', '.join(PINNABLE)} may be named to have one alone, as in v1://localhost:9095",
    )
    start.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a setting by its Kafka name, such as num.partitions=3; may be repeated",
    )
    start.add_argument(
        "--check", action="store_true", help="check the configuration, print it and exit"
    )
    _add_import(commands)
    # Their own modules read the rest of the line, so that no start builds those parsers.
    for name, purpose in (
        ("pipeline", "archive, replay, dedupe and audit topics; show how far groups are behind"),
        ("segment", "look at the files of a log: verify, dump"),
        ("snapshot", "link the files of a running broker, to be read without it"),
    ):
        commands.add_parser(name, help=purpose, formatter_class=_FORMATTER)
    return parser


def _add_import(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    importing = commands.add_parser(
        "import",
        help="bring another server's data into a running broker",
        description="Bring what V1's original server has kept into a running broker: records with"
        " their times, committed offsets. Stop that server first. What is damaged is told with its"
        " file and line, and the exit code is 1 then.",
        formatter_class=_FORMATTER,
    )
    importing.add_argument("format", choices=("v1",), help="whose data it is")
    importing.add_argument("folder", type=Path, metavar="DIR", help="its data directory")
    add_broker(importing)
    importing.add_argument(
        "--partitions",
        type=int,
        default=V1_PARTITIONS,
        metavar="N",
        help="how many partitions that server was configured for; topics that are made get as many"
        " (default: 3, as there)",
    )
    importing.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="how to report"
    )


def _version() -> int:
    from importlib.metadata import version  # noqa: PLC0415 - 20 ms that a start must not pay

    print(f"polylog {version('polylog-broker')}")
    return EXIT_OK


def _import(parsed: argparse.Namespace) -> int:
    from broker.cli import import_v1  # noqa: PLC0415 - a start needs none of it

    options = import_v1.options(parsed.folder, parsed.broker, parsed.partitions, parsed.output)
    return import_v1.run(options)


def _start(parsed: argparse.Namespace) -> int:
    from broker.cli import start  # noqa: PLC0415 - `--version` and `--help` need none of it

    config = start.configuration(parsed.config, parsed.data_dir, parsed.listen, parsed.set)
    return start.check(config) if parsed.check else start.run(config)


def _pipeline(words: Sequence[str]) -> int:
    from broker.cli import pipeline  # noqa: PLC0415 - a start needs none of it

    return pipeline.run(words)


def _snapshot(words: Sequence[str]) -> int:
    from broker.cli import snapshot  # noqa: PLC0415 - a start needs none of it

    return snapshot.run(words)


def _segment(words: Sequence[str]) -> int:
    from broker.cli import segment  # noqa: PLC0415 - a start needs none of it

    return segment.run(words)


_WITH_COMMANDS = {"pipeline": _pipeline, "segment": _segment, "snapshot": _snapshot}
