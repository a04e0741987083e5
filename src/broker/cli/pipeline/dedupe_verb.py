"""`broker pipeline dedupe`."""

from pathlib import Path

import click

from broker.cli.completion import topics
from broker.cli.frame import Session, verb
from broker.cli.pipeline.options import SERVER_NAMES, master_option, spark_session
from broker.cli.reporting import print_progress
from broker.pipeline.jobs.rows import Deduplicated


@verb(
    Deduplicated,
    server_names=SERVER_NAMES,
    totals={},
    examples=("broker pipeline dedupe orders orders-once --by key --checkpoint state",),
)
@click.argument("source", metavar="FROM", shell_complete=topics)
@click.argument("target", metavar="TO", shell_complete=topics)
@click.option(
    "--by",
    default="key+value",
    metavar="IDENTITY",
    help="key, value, key+value or header:NAME (default: key+value).",
)
@click.option(
    "--within",
    default="1 hour",
    metavar="TIME",
    help="The maximum time between two duplicates (default: 1 hour).",
)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Directory of the job's state; use the same one to continue.",
)
@master_option
def command(
    session: Session,
    source: str,
    target: str,
    by: str,
    within: str,
    checkpoint: Path,
    master: str,
) -> None:
    """Copy a topic to another one without duplicates: one of all records with the same identity.

    If it is run again, it continues where it stopped.
    """
    from broker import pipeline  # noqa: PLC0415 - not needed by `--help`

    options = pipeline.DedupeOptions(
        str(session.cluster),
        source,
        target,
        by=by,
        within=within,
        checkpoint=checkpoint,
        security=session.connection.security(),
        timeout_seconds=session.connection.timeout_seconds,
    )
    with spark_session(master) as spark:
        report = pipeline.dedupe(spark, options, progress=print_progress)
    session.report(report)
