"""Topics as tables and streams of Spark, through PySpark: the extra `polylog-broker[spark]`.

    from broker import pipeline

    spark = pipeline.session()
    pipeline.register(spark)
    clicks = (
        spark.read.format("polylog")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "clicks")
        .load()
    )

The options and columns are those of Spark's own Kafka source. The jobs are functions that take a
session and options:

    pipeline.archive(spark, pipeline.ArchiveOptions(brokers, "clicks", Path("clicks.delta")))

Importing this module does not import PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from broker.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.pipeline.jobs.archive import ArchiveOptions, archive, compact
    from broker.pipeline.jobs.audit import audit
    from broker.pipeline.jobs.dedupe import DedupeOptions, dedupe
    from broker.pipeline.jobs.lag import lag
    from broker.pipeline.jobs.replay import ReplayOptions, replay

__all__ = [
    "ArchiveOptions",
    "DedupeOptions",
    "ReplayOptions",
    "archive",
    "audit",
    "compact",
    "dedupe",
    "lag",
    "register",
    "replay",
    "session",
]

_JOBS: Final = {
    "ArchiveOptions": "archive",
    "DedupeOptions": "dedupe",
    "ReplayOptions": "replay",
    "archive": "archive",
    "audit": "audit",
    "compact": "archive",
    "dedupe": "dedupe",
    "lag": "lag",
    "replay": "replay",
}


if not TYPE_CHECKING:  # with __getattr__ a type checker would accept every name

    def __getattr__(name: str) -> object:
        """Import a job on first use, because it imports numpy or more."""
        if name not in _JOBS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"broker.pipeline.jobs.{_JOBS[name]}"), name)


def register(spark: "SparkSession") -> None:
    """Register the format "polylog" in a session; may be called repeatedly."""
    from broker.pipeline.source.polylog import PolylogDataSource  # noqa: PLC0415 - PySpark

    spark.dataSource.register(PolylogDataSource)
