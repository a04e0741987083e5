"""`broker pipeline archive | replay | dedupe`: what the command line says, and how it is done."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.reporting import FORMATTER, add_broker, add_output, say
from broker.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.cli.reporting import Commands
    from broker.model.report import Report

_FORMATS = ("delta", "parquet")

Progress = Callable[[str], None]


def add_commands(commands: "Commands") -> None:
    """Add the three to the subcommands of `broker pipeline`.

    Each sets `run`, which takes what was parsed and returns the report.
    """
    archive = commands.add_parser(
        "archive",
        help="a topic into a table of Parquet files, each record exactly once",
        description="Bring a table up to the end that the topic has now. Where to go on stands in"
        " the table: start it again whenever you like, after whatever has happened.",
        formatter_class=FORMATTER,
    )
    archive.add_argument("topic", metavar="TOPIC")
    _add_table(archive)
    archive.add_argument(
        "--compact",
        action="store_true",
        help="afterwards join small files, each day's by themselves",
    )
    archive.add_argument(
        "--allow-data-loss",
        action="store_true",
        help="go on where the topic begins, if records are gone that the table has not",
    )
    _add_common(archive, _archive)
    replay = commands.add_parser(
        "replay",
        help="an archive back into a topic, with keys, times and order, exactly once",
        description="Write the records of an archive to a topic. Started again, it goes on where it"
        " was; the same replay is not written twice.",
        formatter_class=FORMATTER,
    )
    _add_table(replay)
    replay.add_argument("topic", metavar="TOPIC")
    replay.add_argument(
        "--where",
        metavar="CONDITION",
        help="which records, in SQL: \"date >= '2026-11-01' and partition = 3\"",
    )
    replay.add_argument(
        "--by-key",
        action="store_true",
        help="to the partition of the key (default: the one that the record came from)",
    )
    replay.add_argument(
        "--records-per-second", type=int, metavar="N", help="no faster than this, in all"
    )
    replay.add_argument("--id", metavar="NAME", help="write it once more, under another name")
    _add_common(replay, _replay)
    dedupe = commands.add_parser(
        "dedupe",
        help="a topic into another one, without the records that came twice",
        description="Write one of all records with the same identity. Started again, it goes on"
        " where it was.",
        formatter_class=FORMATTER,
    )
    dedupe.add_argument("source", metavar="FROM")
    dedupe.add_argument("target", metavar="TO")
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
        help="how far apart two copies may be (default: 1 hour)",
    )
    dedupe.add_argument(
        "--checkpoint",
        type=Path,
        required=True,
        metavar="DIR",
        help="where it keeps what it has seen",
    )
    _add_common(dedupe, _dedupe)


def _add_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="of the table")
    parser.add_argument(
        "--format", choices=_FORMATS, default="delta", help="of the table (default: delta)"
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
    from broker import pipeline  # noqa: PLC0415 - only these commands need it
    from broker.pipeline.session import session  # noqa: PLC0415

    spark = session(parsed.master, options={"spark.ui.showConsoleProgress": "false"})
    pipeline.register(spark)
    try:
        return job(spark, parsed, say)
    finally:
        spark.stop()


def _archive(spark: "SparkSession", parsed: argparse.Namespace, progress: Progress) -> "Report":
    from broker.pipeline.jobs.archive import ArchiveOptions, archive, compact  # noqa: PLC0415

    options = ArchiveOptions(
        parsed.broker,
        parsed.topic,
        parsed.folder,
        parsed.format,
        fails_on_data_loss=not parsed.allow_data_loss,
    )
    report = archive(spark, options, progress=progress)
    if parsed.compact:
        joined = compact(parsed.folder, parsed.format)
        report = report._replace(totals=report.totals | joined.totals)
    return report


def _replay(spark: "SparkSession", parsed: argparse.Namespace, progress: Progress) -> "Report":
    from broker.pipeline.jobs.replay import ReplayOptions, replay  # noqa: PLC0415

    rate: int | None = parsed.records_per_second
    if rate is not None and rate < 1:
        raise ConfigError(f"--records-per-second {rate}: expected 1 or more")
    options = ReplayOptions(
        parsed.folder,
        parsed.format,
        parsed.broker,
        parsed.topic,
        where=parsed.where,
        keeps_partitions=not parsed.by_key,
        records_per_second=rate,
        replay_id=parsed.id,
    )
    return replay(spark, options, progress=progress)


def _dedupe(spark: "SparkSession", parsed: argparse.Namespace, progress: Progress) -> "Report":
    from broker.pipeline.jobs.dedupe import DedupeOptions, dedupe  # noqa: PLC0415

    options = DedupeOptions(
        parsed.broker,
        parsed.source,
        parsed.target,
        by=parsed.by,
        within=parsed.within,
        checkpoint=parsed.checkpoint,
    )
    return dedupe(spark, options, progress=progress)
