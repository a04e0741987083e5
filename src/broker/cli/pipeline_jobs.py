"""`broker pipeline archive | replay | dedupe`: their command lines and the jobs that they run."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from broker import pipeline
from broker.cli.reporting import add_broker, add_output, print_progress
from broker.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.cli.reporting import Commands
    from broker.model.report import Report

_FORMATS = ("delta", "parquet")


def add_commands(commands: "Commands") -> None:
    """Add the three commands to `broker pipeline`.

    Each parser sets `run`, a function of the parsed arguments that returns the report.
    """
    archive = commands.add_parser(
        "archive",
        help="copy a topic into a table of Parquet files, each record exactly once",
        description="Append the records of a topic, up to its current end, to a table. The table"
        " contains the offsets to continue at: run the command again at any time, also after a"
        " failure.",
    )
    archive.add_argument("topic", metavar="TOPIC", help="the topic to copy")
    _add_table(archive)
    archive.add_argument(
        "--compact",
        action="store_true",
        help="afterwards merge small files, separately for each day",
    )
    archive.add_argument(
        "--allow-data-loss",
        action="store_true",
        help="continue at the start of the topic if records were deleted before they were archived",
    )
    _add_common(archive, _archive)
    replay = commands.add_parser(
        "replay",
        help="write an archive to a topic, with keys, timestamps and order, exactly once",
        description="Write the records of an archive to a topic. If it is run again, it continues"
        " where it stopped; the same replay is not written twice.",
    )
    _add_table(replay)
    replay.add_argument("topic", metavar="TOPIC", help="the topic to write to")
    replay.add_argument(
        "--where",
        metavar="CONDITION",
        help="only these records, in SQL: \"date >= '2026-11-01' and partition = 3\"",
    )
    replay.add_argument(
        "--by-key",
        action="store_true",
        help="write to the partition of the key (default: to the record's original partition)",
    )
    replay.add_argument(
        "--records-per-second", type=int, metavar="N", help="limit of the total rate"
    )
    replay.add_argument(
        "--id", metavar="NAME", help="name of this replay; a new name writes the records again"
    )
    _add_common(replay, _replay)
    dedupe = commands.add_parser(
        "dedupe",
        help="copy a topic to another one without duplicates",
        description="Write one of all records with the same identity. If it is run again, it"
        " continues where it stopped.",
    )
    dedupe.add_argument("source", metavar="FROM", help="the topic to read")
    dedupe.add_argument("target", metavar="TO", help="the topic to write to")
    dedupe.add_argument(
        "--by",
        default="key+value",
        metavar="IDENTITY",
        help="key, value, key+value or header:NAME (default: key+value)",
    )
    dedupe.add_argument(
        "--within",
        default="1 hour",
        metavar="TIME",
        help="the maximum time between two duplicates (default: 1 hour)",
    )
    dedupe.add_argument(
        "--checkpoint",
        type=Path,
        required=True,
        metavar="DIR",
        help="directory of the job's state; use the same one to continue",
    )
    _add_common(dedupe, _dedupe)


def _add_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="directory of the table")
    parser.add_argument(
        "--format", choices=_FORMATS, default="delta", help="format of the table (default: delta)"
    )


def _add_common(parser: argparse.ArgumentParser, job: Callable[..., "Report"]) -> None:
    add_broker(parser)
    parser.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="where Spark runs (default: local[*], in this process)",
    )
    add_output(parser)
    parser.set_defaults(run=lambda parsed: _run(parsed, job))


def _run(parsed: argparse.Namespace, job: Callable[..., "Report"]) -> "Report":
    spark = pipeline.session(parsed.master, options={"spark.ui.showConsoleProgress": "false"})
    pipeline.register(spark)
    try:
        return job(spark, parsed)
    finally:
        spark.stop()


def _archive(spark: "SparkSession", parsed: argparse.Namespace) -> "Report":
    options = pipeline.ArchiveOptions(
        parsed.broker,
        parsed.topic,
        parsed.folder,
        parsed.format,
        fails_on_data_loss=not parsed.allow_data_loss,
    )
    report = pipeline.archive(spark, options, progress=print_progress)
    if parsed.compact:
        joined = pipeline.compact(parsed.folder, parsed.format)
        report = report._replace(totals=report.totals | joined.totals)
    return report


def _replay(spark: "SparkSession", parsed: argparse.Namespace) -> "Report":
    rate: int | None = parsed.records_per_second
    if rate is not None and rate < 1:
        raise ConfigError(f"--records-per-second {rate}: give 1 or more")
    options = pipeline.ReplayOptions(
        parsed.folder,
        parsed.format,
        parsed.broker,
        parsed.topic,
        where=parsed.where,
        keeps_partitions=not parsed.by_key,
        records_per_second=rate,
        replay_id=parsed.id,
    )
    return pipeline.replay(spark, options, progress=print_progress)


def _dedupe(spark: "SparkSession", parsed: argparse.Namespace) -> "Report":
    options = pipeline.DedupeOptions(
        parsed.broker,
        parsed.source,
        parsed.target,
        by=parsed.by,
        within=parsed.within,
        checkpoint=parsed.checkpoint,
    )
    return pipeline.dedupe(spark, options, progress=print_progress)
