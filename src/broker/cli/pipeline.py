"""`broker pipeline COMMAND`: jobs on whole topics, each with a report."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli import pipeline_jobs
from broker.cli.reporting import (
    Parser,
    add_broker,
    add_output,
    add_topics,
    print_progress,
    print_report,
)
from broker.client.reachability import check_reachable

if TYPE_CHECKING:
    from broker.cli.reporting import Commands
    from broker.model.report import Report

_LAG_SECONDS = 60.0


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code: 0 if its report has no problems.

    Each command's parser sets `run`, a function of the parsed arguments that returns the report.
    """
    parser = Parser(prog="broker pipeline")
    commands = parser.add_commands()
    pipeline_jobs.add_commands(commands)
    _add_audit(commands)
    _add_lag(commands)
    parsed = parser.parse_args(arguments)
    if "broker" in parsed:
        check_reachable(parsed.broker)
    return print_report(parsed.run(parsed), parsed.output)


def _add_audit(commands: "Commands") -> None:
    audit = commands.add_parser(
        "audit",
        help="check every byte of closed segments",
        description="Check every byte of the closed segments of a data directory or of a snapshot:"
        " CRCs, gaps and duplicates in offsets and in producers' sequence numbers, the order of"
        " timestamps, and indexes against their log. The exit code is 1 if problems are found.",
    )
    audit.add_argument("folder", type=Path, metavar="DIR", help="a snapshot or a data directory")
    add_topics(audit)
    audit.add_argument("--workers", type=int, metavar="N", help="threads (default: one per core)")
    audit.add_argument(
        "--master", metavar="MASTER", help="run it in Spark: local[*], spark://HOST:PORT, ..."
    )
    add_output(audit)
    audit.set_defaults(run=_audit)


def _audit(parsed: argparse.Namespace) -> "Report":
    from broker.pipeline.jobs.audit import audit  # noqa: PLC0415 - not needed by `--help`

    if parsed.master is None:
        return audit(
            parsed.folder, topics=parsed.topic, workers=parsed.workers, progress=print_progress
        )
    from broker.pipeline.session import session  # noqa: PLC0415 - likewise

    spark = session(parsed.master, app_name="polylog audit")
    try:
        return audit(parsed.folder, topics=parsed.topic, spark=spark, progress=print_progress)
    finally:
        spark.stop()


def _add_lag(commands: "Commands") -> None:
    lag = commands.add_parser(
        "lag",
        help="show the lag of groups",
        description="Show the lag of groups per partition in records and seconds, the rate of new"
        " records, and how unevenly the lag is distributed.",
    )
    add_broker(lag)
    lag.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="G",
        help="only this group; may be repeated (default: all)",
    )
    lag.add_argument(
        "--window",
        type=float,
        default=_LAG_SECONDS,
        metavar="SECONDS",
        help="time over which the rate is measured (default: 60)",
    )
    lag.add_argument("--plot", type=Path, metavar="FILE.png", help="also plot it to this file")
    add_output(lag)
    lag.set_defaults(run=_lag)


def _lag(parsed: argparse.Namespace) -> "Report":
    from broker.pipeline.jobs.lag import lag, plot, plotter  # noqa: PLC0415 - as above

    if parsed.plot is not None:
        plotter()  # raises before the work begins if matplotlib is not installed
    report = lag(parsed.broker, groups=parsed.group, window_seconds=parsed.window)
    if parsed.plot is not None:
        plot(report, parsed.plot)
        print_progress(f"plot written to {parsed.plot}")
    return report
