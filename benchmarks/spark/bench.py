"""Reads of topics in Spark, in one interleaved run: medians of some rounds, a line per row.

Every row reads the same records from the same broker into Spark's noop sink. "ceiling" hands Spark
Arrow batches from memory: what no source in Python can pass. With --stock-jars FOLDER, Spark's own
Kafka source runs beside, with its defaults and as far as its settings go.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.end_to_end.targets import start_polylog
from benchmarks.spark.ceiling import CeilingDataSource
from benchmarks.spark.filling import fill
from benchmarks.spark.measuring import Cost, measured
from broker import pipeline
from broker.model.address import Address
from broker.model.limits import SCAN_CHUNK_BYTES
from broker.pipeline.jobs import snapshot
from broker.pipeline.jobs.audit import audit
from broker.pipeline.segments import scan
from broker.pipeline.segments.planning import stored_partitions
from broker.segments import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 8
TUNED = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
}


class Row(NamedTuple):
    """One line: what it is called, which records it reads, and how."""

    name: str
    topic: str
    frame: Callable[[], "DataFrame"]


def main(words: list[str]) -> int:
    """Measure and print."""
    asked = _arguments(words)
    root = Path(__file__).parents[2]
    paths = [str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(each for each in paths if each)
    with tempfile.TemporaryDirectory() as folder:
        broker = start_polylog(Path(folder) / "broker")
        try:
            address = Address("127.0.0.1", broker.port)
            counts = {
                name: fill(address, name, partitions=PARTITIONS, records=records, size=size)
                for name, (records, size) in {
                    "small": (asked.records, 100),
                    "large": (asked.records // 10, 1000),
                }.items()
            }
            files = Path(folder) / "snapshot"
            snapshot.create(files, Path(folder) / "broker", str(address))
            spark = _session(asked.stock_jars)
            rows = _rows(spark, address, counts, has_stock=asked.stock_jars is not None)
            rows += _segment_rows(spark, files)
            chosen = [each for each in rows if asked.only in each.name]
            print(_table(chosen, counts, _measure(spark, chosen, broker.pid, asked.rounds)))
            print(_without_spark(files, counts["small"]))
            spark.stop()
        finally:
            broker.stop()
    return 0


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-spark", description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000, help="of 100 bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="rows whose names contain this")
    parser.add_argument("--stock-jars", type=Path, help="a folder with Spark's own Kafka source")
    return parser.parse_args(words)


def _session(jars: Path | None) -> "SparkSession":
    options = {"spark.ui.showConsoleProgress": "false", "spark.driver.memory": "3g"}
    if jars is not None:
        options["spark.jars"] = ",".join(map(str, sorted(jars.glob("*.jar"))))
    spark = pipeline.session("local[2]", options=options)
    spark.sparkContext.setLogLevel("ERROR")
    pipeline.register(spark)
    spark.dataSource.register(CeilingDataSource)
    return spark


def _rows(
    spark: "SparkSession", address: Address, counts: Mapping[str, int], *, has_stock: bool
) -> list[Row]:
    def topic(kind: str, name: str, schema: str | None, **more: str) -> "DataFrame":
        reader = spark.read.format(kind).options(
            **{"kafka.bootstrap.servers": str(address), "subscribe": name} | more
        )
        return (reader.schema(schema) if schema else reader).load()

    def ceiling(name: str, schema: str | None, size: int) -> "DataFrame":
        reader = spark.read.format("ceiling").options(
            rows=counts[name], tasks=PARTITIONS, size=size
        )
        return (reader.schema(schema) if schema else reader).load()

    one = "offset bigint"
    rows = [
        Row("ceiling, 7 columns, 100 B", "small", lambda: ceiling("small", None, 100)),
        Row("topic, 7 columns, 100 B", "small", lambda: topic("polylog", "small", None)),
        Row("ceiling, offset, 100 B", "small", lambda: ceiling("small", one, 100)),
        Row("topic, offset, 100 B", "small", lambda: topic("polylog", "small", one)),
        Row("ceiling, 7 columns, 1 KB", "large", lambda: ceiling("large", None, 1000)),
        Row("topic, 7 columns, 1 KB", "large", lambda: topic("polylog", "large", None)),
    ]
    if has_stock:
        rows += [
            Row("stock, 7 columns, 100 B", "small", lambda: topic("kafka", "small", None)),
            Row(
                "stock tuned, 7 columns, 100 B",
                "small",
                lambda: topic("kafka", "small", None, **TUNED),
            ),
            Row("stock, 7 columns, 1 KB", "large", lambda: topic("kafka", "large", None)),
        ]
    return rows


def _segment_rows(spark: "SparkSession", files: Path) -> list[Row]:
    def segments(name: str, schema: str | None) -> "DataFrame":
        reader = spark.read.format("polylog").options(segments=str(files), subscribe=name)
        return (reader.schema(schema) if schema else reader).load()

    return [
        Row("segments, 7 columns, 100 B", "small", lambda: segments("small", None)),
        Row("segments, offset, 100 B", "small", lambda: segments("small", "offset bigint")),
        Row("segments, 7 columns, 1 KB", "large", lambda: segments("large", None)),
    ]


def _without_spark(files: Path, records: int) -> str:
    """What reads the same segments in this process: an audit, a count by headers."""

    def count() -> int:
        found = 0
        for each in stored_partitions(files, lambda topic: topic == "small"):
            wanted = scan.Wanted(each.start_offset, each.end_offset, (), each.ends)
            with Log(each.folder) as log:
                for chunk in scan.chunks(log, wanted, SCAN_CHUNK_BYTES):
                    assert not isinstance(chunk, scan.Damage)
                    found += scan.count_by_headers(chunk, wanted) or 0
        return found

    lines = []
    for name, job in {
        "audit, one thread": lambda: audit(files, topics=["small"], workers=1).totals["records"],
        "audit, two threads": lambda: audit(files, topics=["small"], workers=2).totals["records"],
        "count by headers": count,
    }.items():
        job()
        began, used = time.perf_counter(), time.process_time()
        assert job() == records
        seconds, used = time.perf_counter() - began, time.process_time() - used
        lines.append(f"{name:32}{records / seconds / 1e6:10.2f}{used / records * 1e6:33.4f}")
    return "\n".join(lines)


def _measure(
    spark: "SparkSession", rows: list[Row], broker: int, rounds: int
) -> dict[str, list[Cost]]:
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - the only way to its process
    jvm: int = gateway.proc.pid
    costs: dict[str, list[Cost]] = {each.name: [] for each in rows}
    for turn in range(rounds + 1):
        for row in rows:

            def job(row: Row = row) -> None:
                row.frame().write.format("noop").mode("overwrite").save()

            cost = measured(job, jvm, broker)
            if turn:  # the first round warms the JVM and the page cache
                costs[row.name].append(cost)
    return costs


def _table(rows: list[Row], counts: Mapping[str, int], costs: dict[str, list[Cost]]) -> str:
    lines = [
        f"{'CPU in us per row':32}{'M rows/s':>10}{'JVM':>8}{'workers':>9}{'Spark':>8}{'broker':>8}"
    ]
    for row in rows:
        count, found = counts[row.topic], costs[row.name]
        speed = median(count / each.seconds for each in found) / 1e6
        shares = [
            median(getattr(each, name) for each in found) / count * 1e6
            for name in ("jvm", "workers", "spark", "broker")
        ]
        lines.append(
            f"{row.name:32}{speed:10.2f}{shares[0]:8.3f}{shares[1]:9.3f}{shares[2]:8.3f}"
            f"{shares[3]:8.3f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
