"""A program that copies a topic, as a batch and as a stream, with whatever Spark it is started in.

    PYTHON -m tests.pipeline.copying MASTER ADDRESS SOURCE TARGET FOLDER

MASTER is a master of a classic session, or `connect`: a server of Spark Connect is started then. It
prints a JSON object per step: what it is, and what it found or was refused. It imports nothing but
PySpark and the package.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

import broker
from broker import pipeline
from tests.pipeline.killing import TIMEOUT_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CONNECT = "connect"
_CONTENT = ("key", "value", "headers", "partition", "timestamp")


def run(
    python: str, folder: Path, environment: Mapping[str, str], *arguments: str
) -> dict[str, Any]:
    """Run the program by a Python, with the package that is tested; return what it told by step."""
    path = folder / "path"
    path.mkdir()
    (path / "broker").symlink_to(Path(broker.__file__).parent)
    ended = subprocess.run(
        [python, "-m", __name__, *arguments, str(folder)],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**environment, "PYTHONPATH": os.pathsep.join([str(path), str(Path.cwd())])},
    )
    assert ended.returncode == 0, ended.stderr
    steps = map(json.loads, ended.stdout.splitlines())
    return {each["step"]: each["found"] for each in steps}


def main(master: str, address: str, source: str, target: str, folder: str) -> None:
    spark = _session(master)
    pipeline.register(spark)
    _tell("version", pyspark.__version__)
    here = {"kafka.bootstrap.servers": address}
    rows = spark.read.format("polylog").options(**here, subscribe=source, includeHeaders="true")
    _tell("read", rows.load().count())
    once = {"topic": target, "delivery": "exactly-once", "writeId": target}
    for _ in range(2):  # the second run finds everything written
        content = rows.load().select(*_CONTENT)
        content.write.format("polylog").mode("append").options(**here, **once).save()
    _tell("filter", _tried(lambda: _filtered(spark, address, source)))
    _tell("stream written", _tried(lambda: _write_stream(spark, address, target, folder)))
    _tell("stream read", _tried(lambda: _read_stream(spark, address, target, folder)))
    spark.stop()


def _session(master: str) -> "SparkSession":
    if master != CONNECT:
        return pipeline.session(master, options={"spark.ui.showConsoleProgress": "false"})
    from pyspark.sql import SparkSession  # noqa: PLC0415 - of Connect alone

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return SparkSession.builder.remote("local[2]").getOrCreate()


def _tell(step: str, found: object) -> None:
    print(json.dumps({"step": step, "found": found}), flush=True)


def _tried(step: Callable[[], int]) -> int | str:
    try:
        return step()
    except Exception as error:  # noqa: BLE001 - what is reported is the error itself
        return str(error)


def _filtered(spark: "SparkSession", address: str, source: str) -> int:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    found = spark.read.format("polylog").options(
        **{"kafka.bootstrap.servers": address, "subscribe": source, "pushdown": "true"}
    )
    return found.load().where("partition = 1 AND offset < 10").count()


def _rows_of(query: "StreamingQuery") -> int:
    """Return how many rows a query has read; a Connect client knows it by source only."""
    sources = [source for each in query.recentProgress for source in each["sources"]]
    return sum(each["numInputRows"] for each in sources)


def _write_stream(spark: "SparkSession", address: str, target: str, folder: str) -> int:
    """Write three more rows."""
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
    return _rows_of(query)


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
    return _rows_of(query)


if __name__ == "__main__":
    main(*sys.argv[1:])
