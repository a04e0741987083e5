"""Help format, common options, progress and report of the commands on whole topics and files."""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from broker.model.report import Report

    Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001

FORMATTER = partial(argparse.HelpFormatter, width=78)
_BROKER = "localhost:9092"


def print_report(report: "Report", output: str) -> int:
    """Print a report and return the exit code: 1 if it has problems."""
    print(report.in_format(output))
    return 0 if report.is_well else 1


def print_progress(line: str) -> None:
    """Print a line of progress on stderr."""
    print(line, file=sys.stderr, flush=True)


def add_broker(command: argparse.ArgumentParser) -> None:
    """Add --broker, which every command on a running broker has."""
    command.add_argument(
        "--broker",
        default=_BROKER,
        metavar="HOST:PORT",
        help=f"address of the broker (default: {_BROKER})",
    )


def add_output(command: argparse.ArgumentParser) -> None:
    """Add --output, which every command has."""
    command.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="format of the report"
    )
