"""Topics as tables and streams of Spark, through PySpark: the extra `polylog[spark]`.

    from broker import pipeline

    spark = pipeline.session()
    pipeline.register(spark)
    clicks = (
        spark.read.format("polylog")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "clicks")
        .load()
    )

The options and columns are those of Spark's own Kafka source. Importing this imports no PySpark;
what needs it does.
"""

from typing import TYPE_CHECKING

from broker.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session"]


def register(spark: "SparkSession") -> None:
    """Let a session know the format "polylog"; a second time does no harm."""
    from broker.pipeline.source.polylog import PolylogDataSource  # noqa: PLC0415 - PySpark

    spark.dataSource.register(PolylogDataSource)
