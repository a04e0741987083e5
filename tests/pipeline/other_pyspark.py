"""A program for a PySpark that is not the suite's: it copies a topic, as a batch and as a stream.

    PYTHON -m tests.pipeline.other_pyspark ADDRESS SOURCE TARGET FOLDER

It prints a JSON object per step: what it is, and what it found or was refused. It imports nothing
but PySpark and the package.
"""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyspark

from broker import pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTENT = ("key", "value", "headers", "partition", "timestamp")


def main(address: str, source: str, target: str, folder: str) -> None:
    spark = pipeline.session("local[2]", options={"spark.ui.showConsoleProgress": "false"})
    pipeline.register(spark)
    print(json.dumps({"step": "version", "found": pyspark.__version__}))
    here = {"kafka.bootstrap.servers": address}
    rows = spark.read.format("polylog").options(**here, subscribe=source, includeHeaders="true")
    print(json.dumps({"step": "read", "found": rows.load().count()}))
    once = {"topic": target, "delivery": "exactly-once", "writeId": target}
    for _ in range(2):  # the second finds everything written
        content = rows.load().select(*CONTENT)
        content.write.format("polylog").mode("append").options(**here, **once).save()
    print(json.dumps({"step": "filter", "found": _tried(lambda: _filtered(spark, address, source))}))
    written = _tried(lambda: _write_stream(spark, address, target, folder))
    print(json.dumps({"step": "stream written", "found": written}))
    read = _tried(lambda: _read_stream(spark, address, target, folder))
    print(json.dumps({"step": "stream read", "found": read}))
    spark.stop()


def _tried(step: Callable[[], int]) -> int | str:
    try:
        return step()
    except Exception as error:
        return str(error)


def _filtered(spark: "SparkSession", address: str, source: str) -> int:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    found = spark.read.format("polylog").options(
        **{"kafka.bootstrap.servers": address, "subscribe": source, "pushdown": "true"}
    )
    return found.load().where("partition = 1 AND offset < 10").count()


def _write_stream(spark: "SparkSession", address: str, target: str, folder: str) -> int:
    """Write three rows more."""
    spark.range(3).selectExpr("concat('streamed ', id) AS value").write.text(f"{folder}/rows")
    stream = spark.readStream.text(f"{folder}/rows").writeStream.format("polylog")
    query = (
        stream.options(
            **{"kafka.bootstrap.servers": address, "topic": target, "delivery": "exactly-once"}
        )
        .option("checkpointLocation", f"{folder}/written")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    return sum(each["numInputRows"] for each in query.recentProgress)


def _read_stream(spark: "SparkSession", address: str, target: str, folder: str) -> int:
    stream = spark.readStream.format("polylog").options(
        **{"kafka.bootstrap.servers": address, "subscribe": target, "startingOffsets": "earliest"}
    )
    query = (
        stream.load()
        .writeStream.format("noop")
        .option("checkpointLocation", f"{folder}/read")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    return sum(each["numInputRows"] for each in query.recentProgress)


if __name__ == "__main__":
    main(*sys.argv[1:])
