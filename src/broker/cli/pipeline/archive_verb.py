"""`broker pipeline archive`."""

from pathlib import Path

import click

from broker.cli.completion import topics
from broker.cli.frame import Session, verb
from broker.cli.pipeline.options import (
    SERVER_NAMES,
    format_option,
    master_option,
    spark_session,
    table_argument,
)
from broker.cli.reporting import print_progress
from broker.pipeline.jobs.rows import ArchivedPartition


@verb(
    ArchivedPartition,
    server_names=SERVER_NAMES,
    totals={
        "topic": "that was archived",
        "table": "its directory",
        "records": "that were written",
        "files": "that were written",
        "bytes": "of these files",
        "commits": "to the table",
        "seconds": "that it took",
        "files_merged": "with --compact: that are no longer there",
        "files_written": "with --compact: instead of these",
    },
    examples=(
        "broker pipeline archive orders orders.delta",
        "broker pipeline archive orders archive --format parquet --compact",
    ),
)
@click.argument("topic", shell_complete=topics)
@table_argument
@format_option
@click.option(
    "--compact", is_flag=True, help="Afterwards merge small files, separately for each day."
)
@click.option(
    "--allow-data-loss",
    is_flag=True,
    help="Continue at the start of the topic if records were deleted before they were archived.",
)
@master_option
def command(
    session: Session,
    topic: str,
    folder: Path,
    table_format: str,
    compact: bool,
    allow_data_loss: bool,
    master: str,
) -> None:
    """Copy a topic into a table of Parquet files, each record exactly once.

    The records up to the topic's current end are appended. The table contains the offsets to
    continue at: run the command again at any time, also after a failure.
    """
    from broker import pipeline  # noqa: PLC0415 - not needed by `--help`

    options = pipeline.ArchiveOptions(
        str(session.cluster),
        topic,
        folder,
        table_format,
        fails_on_data_loss=not allow_data_loss,
        security=session.connection.security(),
        timeout_seconds=session.connection.timeout_seconds,
    )
    with spark_session(master) as spark:
        report = pipeline.archive(spark, options, progress=print_progress)
        if compact:
            joined = pipeline.compact(folder, table_format)
            report = report._replace(totals=report.totals | joined.totals)
    session.report(report)
