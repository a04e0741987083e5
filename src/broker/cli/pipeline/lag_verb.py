"""`broker pipeline lag`."""

from pathlib import Path

import click

from broker.cli.completion import groups
from broker.cli.frame import Session, verb
from broker.cli.pipeline.options import SERVER_NAMES
from broker.cli.reporting import print_progress
from broker.cli.times import Seconds
from broker.pipeline.jobs.rows import PartitionLag

_WINDOW_SECONDS = 60.0


@verb(
    PartitionLag,
    server_names=SERVER_NAMES,
    totals={
        "groups": "that have committed something",
        "partitions": "that they read",
        "lag": "of all, in records",
        "skew": "by GROUP in TOPIC: the largest lag in a partition divided by the mean",
    },
    examples=("broker pipeline lag --group readers", "broker pipeline lag --plot lag.png"),
)
@click.option(
    "--group",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=groups,
    help="Only this group; may be repeated (default: all).",
)
@click.option(
    "--window",
    type=Seconds(),
    default=_WINDOW_SECONDS,
    metavar="SECONDS",
    help="Time over which the rate is measured (default: 60).",
)
@click.option(
    "--plot",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.png",
    help="Also plot it to this file.",
)
def command(session: Session, names: tuple[str, ...], window: float, file: Path | None) -> None:
    """Show the lag of groups per partition in records and seconds, and the rate of new records.

    The report also says how unevenly the lag is distributed.
    """
    from broker.pipeline.jobs.lag import lag, plot, plotter  # noqa: PLC0415 - not for `--help`

    if file is not None:
        plotter()  # raises before the work begins if matplotlib is not installed
    report = lag(
        str(session.cluster),
        security=session.connection.security(),
        timeout_seconds=session.connection.timeout_seconds,
        groups=names,
        window_seconds=window,
    )
    if file is not None:
        plot(report, file)
        print_progress(f"plot written to {file}")
    session.report(report)
