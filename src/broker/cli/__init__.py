"""The command `broker`.

The parser is argparse, because `broker start` must answer clients 0.15 s after exec: argparse is
imported in 5 ms, richer parsers take ten times that (measured). For the same reason each command
imports its modules only when it runs.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from broker.cli.reporting import Parser
from broker.model.errors import (
    ConfigError,
    DataDirError,
    PolylogError,
    StorageError,
    Unreachable,
)
from broker.model.protocol_names import PINNABLE, PROTOCOL_NAMES

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2  # argparse's exit code for an invalid command line
EXIT_UNREACHABLE = 69  # EX_UNAVAILABLE of sysexits(3)
EXIT_DATA_DIR = 73  # EX_CANTCREAT
EXIT_STORAGE = 74  # EX_IOERR

_EXIT_CODES: tuple[tuple[type[PolylogError], int], ...] = (
    (ConfigError, EXIT_USAGE),
    (Unreachable, EXIT_UNREACHABLE),
    (DataDirError, EXIT_DATA_DIR),
    (StorageError, EXIT_STORAGE),
)
# Commands whose line is parsed by a module of their own, to keep the start fast, and their purpose.
_WITH_MODULES = {
    "acl": ("acl", "allow principals what they need of topics and groups"),
    "audit": ("audit", "check the chain of the audit's events"),
    "cert": ("cert", "make an authority and certificates for TLS"),
    "import": ("importing", "import another server's data into a running broker"),
    "metadata": ("metadata", "export, import and repair the metadata of brokers that are stopped"),
    "pipeline": ("pipeline", "archive, replay, dedupe and audit topics; show the lag of groups"),
    "segment": ("segment", "verify or dump the segment files of a log"),
    "snapshot": (
        "snapshot",
        "create hard links of a running broker's files, to be read without it",
    ),
    "user": ("user", "create, list and delete users, and set their passwords"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error is one line that says what to do."""
    argv = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if argv and argv[0] in _WITH_MODULES:
            module, _ = _WITH_MODULES[argv[0]]
            exit_code: int = import_module(f"broker.cli.{module}").run(argv[1:])
            return exit_code
        parser = _parser()
        parsed = parser.parse_args(argv)
        if parsed.version:
            return _version()
        if parsed.command is None:
            parser.print_help(sys.stderr)
            return EXIT_USAGE
        return _start(parsed)
    except PolylogError as error:
        print(f"broker: {error}", file=sys.stderr)
        return exit_code_of(error)


def exit_code_of(error: PolylogError) -> int:
    """Return the exit code of a command that has failed with an error."""
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), EXIT_FAILED)


def _parser() -> Parser:
    parser = Parser(prog="broker", description="Polylog: a durable log for Kafka clients.")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    start = commands.add_parser(
        "start",
        help="run a broker in the foreground",
        description="Run a broker until SIGTERM, SIGINT or SIGHUP. A setting is taken from --set,"
        " else from the environment (BROKER_NUM_PARTITIONS=3, or as in Kafka's images"
        " KAFKA_NUM_PARTITIONS=3), else from --config, else from --kafka-properties, else it has"
        " its default.",
    )
    start.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="read settings from this file: TOML, or Kafka's server.properties by its suffix",
    )
    start.add_argument(
        "--kafka-properties",
        type=Path,
        metavar="FILE",
        help="read a file of Kafka's settings, whatever its suffix",
    )
    start.add_argument("--data-dir", metavar="DIR", help="data directory (default: ./data)")
    start.add_argument(
        "--listen",
        action="append",
        metavar="[NAME://]HOST:PORT",
        help="address to listen on; may be repeated, port 0 selects a free port (default:"
        f" localhost:9092). Every port speaks {', '.join(PROTOCOL_NAMES)}, and detects the"
        " protocol by a connection's first bytes; NAME restricts the address to a protocol:"
        f" {', '.join(PINNABLE)}, as in {PINNABLE[0]}://localhost:9095; or it is a security"
        " protocol (SSL, SASL_SSL, ...) or a name of listener.security.protocol.map",
    )
    start.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="run N brokers on this data directory, each with a core and a port of its own after"
        " that of the first listener (default: 1)",
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
    start.add_argument(
        "-o",
        "--output",
        choices=("table", "json"),
        default="table",
        help="format of what --check prints; json has the defaults, too",
    )
    for name, (_, purpose) in _WITH_MODULES.items():
        commands.add_parser(name, help=purpose)
    return parser


def _version() -> int:
    from importlib.metadata import version  # noqa: PLC0415 - takes 20 ms, which a start avoids

    print(f"polylog {version('polylog-broker')}")
    return EXIT_OK


def _start(parsed: argparse.Namespace) -> int:
    from broker.cli import start  # noqa: PLC0415 - not needed by `--version` and `--help`

    overrides = parsed.set
    if parsed.workers is not None:
        overrides = [*overrides, f"polylog.workers={parsed.workers}"]
    config = start.configuration(
        parsed.config, parsed.data_dir, parsed.listen, overrides, parsed.kafka_properties
    )
    return start.check(config, parsed.output) if parsed.check else start.run(config)
