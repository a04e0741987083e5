"""`broker pipeline COMMAND`: what is done with topics as a whole, each with a report."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli import pipeline_jobs
from broker.cli.reaching import check_reachable
from broker.cli.reporting import FORMATTER, add_broker, add_output, say, show

if TYPE_CHECKING:
    from broker.cli.reporting import Commands
    from broker.model.report import Report

_LAG_SECONDS = 60.0


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns 0 when its report has no problem.

    Each command sets `run`, which takes what was parsed and returns the report.
    """
    parser = argparse.ArgumentParser(prog="broker pipeline", formatter_class=FORMATTER)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    pipeline_jobs.add_commands(commands)
    _add_audit(commands)
    _add_lag(commands)
    parsed = parser.parse_args(arguments)
    if "broker" in parsed:
        check_reachable(parsed.broker)
    return show(parsed.run(parsed), parsed.output)


def _add_audit(commands: "Commands") -> None:
    audit = commands.add_parser(
        "audit",
        help="look at every byte of stored segments",
        description="Look at every byte of the closed segments of a data directory, or of a"
        " snapshot: CRCs, gaps and repeats in offsets and in producers' sequences, the order of"
        " times, indexes against their log. The exit code is 1 when something is wrong.",
        formatter_class=FORMATTER,
    )
    audit.add_argument("folder", type=Path, metavar="DIR", help="a snapshot or a data directory")
    audit.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="T",
        help="only this topic; may be repeated (default: all but the internal ones)",
    )
    audit.add_argument("--workers", type=int, metavar="N", help="threads (default: one per core)")
    audit.add_argument(
        "--master", metavar="MASTER", help="let Spark do it: local[*], spark://HOST:PORT, ..."
    )
    add_output(audit)
    audit.set_defaults(run=_audit)


def _audit(parsed: argparse.Namespace) -> "Report":
    from broker.pipeline.jobs.audit import audit  # noqa: PLC0415 - `--help` needs none of it

    if parsed.master is None:
        return audit(parsed.folder, topics=parsed.topic, workers=parsed.workers, say=say)
    from broker.pipeline.session import session  # noqa: PLC0415 - the same

    spark = session(parsed.master, app_name="polylog audit")
    try:
        return audit(parsed.folder, topics=parsed.topic, spark=spark, say=say)
    finally:
        spark.stop()


def _add_lag(commands: "Commands") -> None:
    lag = commands.add_parser(
        "lag",
        help="how far groups are behind",
        description="How far groups are behind, per partition: records, seconds, the rate at which"
        " records come in, and how unevenly the lag is spread.",
        formatter_class=FORMATTER,
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
        help="over how long the rate is taken (default: 60)",
    )
    lag.add_argument("--plot", type=Path, metavar="FILE.png", help="draw it, too")
    add_output(lag)
    lag.set_defaults(run=_lag)


def _lag(parsed: argparse.Namespace) -> "Report":
    from broker.pipeline.jobs.lag import lag, plot, plotter  # noqa: PLC0415 - no help needs it

    if parsed.plot is not None:
        plotter()  # what is missing is said before the work begins
    report = lag(parsed.broker, groups=parsed.group, window_seconds=parsed.window)
    if parsed.plot is not None:
        plot(report, parsed.plot)
        say(f"drawn: {parsed.plot}")
    return report
