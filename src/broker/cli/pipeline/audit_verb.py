"""`broker pipeline audit`."""

from pathlib import Path

import click

from broker.cli.frame import Session, verb
from broker.cli.pipeline.options import topic_option
from broker.cli.reporting import print_progress
from broker.pipeline.jobs.rows import AuditedSegment


@verb(
    AuditedSegment,
    is_local=True,
    totals={
        "segments": "that were checked",
        "records": "in these",
        "bytes": "of these",
        "seconds": "that it took",
        "records_per_second": "that were checked",
        "faulty_segments": "with a fault",
    },
    examples=("broker pipeline audit snap --topic orders", "broker pipeline audit data -o json"),
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@topic_option
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads (default: one per core).",
)
@click.option(
    "--master",
    metavar="URL",
    help="Run it in Spark: local[*], spark://HOST:PORT, ...",
)
def command(
    session: Session,
    folder: Path,
    topics: tuple[str, ...],
    workers: int | None,
    master: str | None,
) -> None:
    """Check every byte of the closed segments of a data directory or of a snapshot.

    Checked are CRCs, gaps and duplicates in offsets and in producers' sequence numbers, the order
    of timestamps, and indexes against their log. The exit code is 1 if problems are found.
    """
    from broker.pipeline.jobs.audit import audit  # noqa: PLC0415 - not needed by `--help`

    if master is None:
        session.report(audit(folder, topics=topics, workers=workers, progress=print_progress))
        return
    from broker.pipeline.session import session as spark_session  # noqa: PLC0415 - likewise

    spark = spark_session(master, app_name="polylog audit")
    try:
        report = audit(folder, topics=topics, spark=spark, progress=print_progress)
    finally:
        spark.stop()
    session.report(report)
