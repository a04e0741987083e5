"""`broker pipeline replay`."""

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
from broker.pipeline.jobs.rows import ReplayedPartition


@verb(
    ReplayedPartition,
    server_names=SERVER_NAMES,
    totals={
        "archive": "its directory",
        "topic": "that was written to",
        "id": "of the replay: with the same one nothing is written twice",
        "records": "of the archive that were asked for",
        "slices": "into which they are divided",
        "slices_already_written": "by an earlier run",
        "seconds": "that it took",
    },
    examples=(
        "broker pipeline replay orders.delta orders-again",
        "broker pipeline replay orders.delta orders-again --where \"date >= '2026-11-01'\"",
    ),
)
@table_argument
@click.argument("topic", shell_complete=topics)
@format_option
@click.option(
    "--where",
    metavar="CONDITION",
    help="Only these records, in SQL: \"date >= '2026-11-01' and partition = 3\".",
)
@click.option(
    "--by-key",
    is_flag=True,
    help="Write to the partition of the key (default: to the record's original partition).",
)
@click.option(
    "--records-per-second",
    type=click.IntRange(min=1),
    metavar="N",
    help="Limit of the total rate.",
)
@click.option(
    "--id",
    "replay_id",
    metavar="NAME",
    help="Name of this replay; a new name writes the records again.",
)
@master_option
def command(
    session: Session,
    folder: Path,
    topic: str,
    table_format: str,
    where: str | None,
    by_key: bool,
    records_per_second: int | None,
    replay_id: str | None,
    master: str,
) -> None:
    """Write an archive to a topic, with keys, timestamps and order, exactly once.

    If it is run again, it continues where it stopped; the same replay is not written twice.
    """
    from broker import pipeline  # noqa: PLC0415 - not needed by `--help`

    options = pipeline.ReplayOptions(
        folder,
        table_format,
        str(session.cluster),
        topic,
        where=where,
        keeps_partitions=not by_key,
        records_per_second=records_per_second,
        replay_id=replay_id,
        security=session.connection.security(),
        timeout_seconds=session.connection.timeout_seconds,
    )
    with spark_session(master) as spark:
        report = pipeline.replay(spark, options, progress=print_progress)
    session.report(report)
