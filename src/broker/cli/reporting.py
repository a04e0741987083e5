"""Parsers, common options, progress and report of the commands."""

import argparse
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from broker.model.printable import printable_lines

if TYPE_CHECKING:
    from broker.model.errors import PolylogError
    from broker.model.report import Report

    Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001

DEFAULT_BOOTSTRAP: Final = "localhost:9092"


class Parser(argparse.ArgumentParser):
    """A parser whose help has a fixed width, like that of its commands.

    Otherwise argparse imports shutil, which imports every compression module, to find the
    terminal's width for each option that is added: 3 ms.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of ArgumentParser
        """Create a parser; see argparse.ArgumentParser."""
        super().__init__(formatter_class=partial(argparse.HelpFormatter, width=78), **options)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, without the values of settings: they may be passwords; exit."""
        super().error(re.sub(r"=\S.*", "=...", message, flags=re.DOTALL))

    def add_commands(self, metavar: str = "COMMAND") -> "Commands":
        """Return the required commands, which are parsers of this class."""
        return self.add_subparsers(dest="command", metavar=metavar, required=True)


def print_report(report: "Report", output: str) -> int:
    """Print a report and return the exit code: 1 if it has problems."""
    print(report.in_format(output))
    return 0 if report.is_well else 1


def print_error(error: "PolylogError") -> None:
    """Print why a command fails, or a part of it, on stderr."""
    print(f"broker: {printable_lines(str(error))}", file=sys.stderr)


def discard_output() -> None:
    """Print nothing more: whoever reads has seen enough, and what is buffered is no error."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def print_progress(line: str) -> None:
    """Print a line of progress on stderr."""
    print(line, file=sys.stderr, flush=True)


def add_broker(command: argparse.ArgumentParser) -> None:
    """Add --broker, which every command on a running broker has."""
    command.add_argument(
        "--broker",
        default=DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT",
        help=f"address of the broker (default: {DEFAULT_BOOTSTRAP})",
    )


def add_topics(command: argparse.ArgumentParser) -> None:
    """Add --topic, which the commands on all topics have."""
    command.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="T",
        help="only this topic; may be repeated (default: all but the internal ones)",
    )


def add_output(command: argparse.ArgumentParser) -> None:
    """Add --output, which every command has."""
    command.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="format of the report"
    )
