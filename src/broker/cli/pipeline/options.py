"""Options that jobs share, and the Spark session in which some run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker.cli.completion import topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVER_NAMES: Final = ("--broker",)
_FORMATS: Final = ("delta", "parquet")


def topic_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --topic, which the jobs on all topics have."""
    return click.option(
        "--topic",
        "topics",
        multiple=True,
        metavar="NAME",
        shell_complete=topics,
        help="Only this topic; may be repeated (default: all but the internal ones).",
    )(function)


def table_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add DIR of a table."""
    return click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))(function)


def format_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --format of a table."""
    return click.option(
        "--format",
        "table_format",
        type=click.Choice(_FORMATS),
        default="delta",
        help="Format of the table (default: delta).",
    )(function)


def master_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --master."""
    return click.option(
        "--master",
        default="local[*]",
        metavar="URL",
        help="Where Spark runs (default: local[*], in this process).",
    )(function)


@contextmanager
def spark_session(master: str) -> Iterator["SparkSession"]:
    """Start Spark, and stop it in the end."""
    from broker import pipeline  # noqa: PLC0415 - not needed by `--help`

    spark = pipeline.session(master, options={"spark.ui.showConsoleProgress": "false"})
    pipeline.register(spark)
    try:
        yield spark
    finally:
        spark.stop()
