"""What the commands on topics as a whole have in common: how they help, tell and report."""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from broker.model.report import Report

    Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001

FORMATTER = partial(argparse.HelpFormatter, width=78)
_BROKER = "localhost:9092"


def show(report: "Report", output: str) -> int:
    """Print a report and return the exit code that it means."""
    print(report.in_format(output))
    return 0 if report.is_well else 1


def say(line: str) -> None:
    """Tell of progress, where no report is."""
    print(line, file=sys.stderr, flush=True)


def add_broker(command: argparse.ArgumentParser) -> None:
    """Add the option that every command on a running broker has."""
    command.add_argument(
        "--broker",
        default=_BROKER,
        metavar="HOST:PORT",
        help=f"where the broker listens (default: {_BROKER})",
    )


def add_output(command: argparse.ArgumentParser) -> None:
    """Add the option that every command has."""
    command.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="how to report"
    )
