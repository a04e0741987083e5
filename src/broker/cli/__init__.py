"""The command `broker`.

The parser of `broker start` is argparse, because a start must answer clients 0.15 s after exec:
argparse is imported in 5 ms, richer parsers take five times that or more (measured). For the same
reason each command imports its modules only when it runs. All other commands are those of click,
see frame.py.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

from broker.cli.exit_codes import Exit, exit_code_of, start_exit_code_of
from broker.cli.nouns import COMPLETION, NOUNS, module_of
from broker.cli.reporting import (
    Parser,
    discard_output,
    open_closed_streams,
    print_error,
    print_os_error,
)
from broker.model.errors import PolylogError
from broker.model.printable import printable
from broker.model.protocol_names import PINNABLE, PROTOCOL_NAMES

_OWN = ("start", "-h", "--help", "--version")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error is one line that says what to do."""
    open_closed_streams()
    argv = sys.argv[1:] if arguments is None else list(arguments)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may be no text of the locale
    try:
        code = _run(argv)
        print(end="", flush=True)  # also if there is no output
    except PolylogError as error:
        print_error(error)
        return exit_code_of(error)
    except BrokenPipeError:
        discard_output()
        return Exit.OK
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except OSError as error:  # what commands do with files they report themselves
        print_os_error(error)
        discard_output()
        return exit_code_of(error)
    return code


def _run(argv: Sequence[str]) -> int:
    if COMPLETION in os.environ:
        from broker.cli import tree  # noqa: PLC0415 - imports click
        from broker.cli.completion import complete  # noqa: PLC0415

        return complete(tree.root())
    name = argv[0] if argv else ""
    if name in NOUNS:
        from broker.cli.frame import run  # noqa: PLC0415 - imports click

        return run(import_module(module_of(name)).NOUN, argv[1:])
    return _run_own(argv)


def _run_own(argv: Sequence[str]) -> int:
    """Run `broker start`, or what has no command: --version and --help."""
    if argv and argv[0] not in _OWN:
        return _unknown(argv[0])
    parser = _parser()
    parsed = parser.parse_args(argv)
    if parsed.version:
        return _version()
    if parsed.command is None:
        parser.print_help(sys.stderr)
        return Exit.USAGE
    try:
        return _start(parsed)
    except PolylogError as error:
        print_error(error)
        return start_exit_code_of(error)


def _unknown(word: str) -> int:
    """Say what is wrong with the first word of a command line."""
    if word.startswith("-"):
        what = f"{word.partition('=')[0]}: options follow the command: broker NOUN VERB {word} ..."
    else:
        from broker.model.given import nearest_name  # noqa: PLC0415 - only for mistakes

        what = f"there is no command {word!r}{nearest_name(word, [*NOUNS, 'start'])}"
    print(f"broker: {printable(what)} (see `broker --help`)", file=sys.stderr)
    return Exit.USAGE


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
    for name, purpose in NOUNS.items():
        commands.add_parser(name, help=purpose)
    return parser


def _version() -> int:
    from importlib.metadata import version  # noqa: PLC0415 - takes 20 ms, which a start avoids

    print(f"polylog {version('polylog-broker')}")
    return Exit.OK


def _start(parsed: argparse.Namespace) -> int:
    from broker.cli import start  # noqa: PLC0415 - not needed by `--version` and `--help`

    overrides = parsed.set
    if parsed.workers is not None:
        overrides = [*overrides, f"polylog.workers={parsed.workers}"]
    config = start.configuration(
        parsed.config, parsed.data_dir, parsed.listen, overrides, parsed.kafka_properties
    )
    return start.check(config, parsed.output) if parsed.check else start.run(config)
