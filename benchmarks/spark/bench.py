"""Topics in Spark, in one interleaved run: medians of some rounds, a line per row, then the goals.

Beside our source, sink and archive run "ceiling", which hands Spark Arrow batches from memory (what
no source in Python can pass); "stock", Spark's own Kafka connector with its defaults; "stock
tuned", as far as its settings go; and Apache Kafka with the same records. The connector and Kafka
come through Maven; where they cannot be had, their rows are left out.

Processor time is that of the JVM, of Python (workers and driver) and of the broker that the row
uses, per row or trigger. What becomes of a table or topic when processes are killed is no question
of speed: tests/pipeline asks it.
"""

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.end_to_end.targets import Target, start_kafka, start_polylog
from benchmarks.spark import archives, filling, reads, report, scans, streams, writes
from benchmarks.spark.ceiling import CeilingDataSource
from benchmarks.spark.measuring import Cost, measured
from benchmarks.spark.rows import KAFKA, OURS, PARTITIONS, Place, Row
from broker import pipeline
from broker.model.address import Address
from broker.pipeline.jobs import snapshot
from tests.compatibility import java_tools, spark_connector
from tests.compatibility.programs import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FoundT = TypeVar("_FoundT")
_ROOT = Path(__file__).parents[2]
_PACKAGE = Path(pipeline.__file__).parents[2]  # where it is installed, or its sources


def main(words: list[str]) -> int:
    """Measure and print; return 1 when a row has failed."""
    asked = _arguments(words)
    left_out: list[str] = []
    jars = _found("Spark's Kafka connector", spark_connector.find, left_out)
    kafka = _found("Apache Kafka", lambda: java_tools.find().libs, left_out)
    with (
        tempfile.TemporaryDirectory() as folder,
        _brokers(Path(folder), kafka) as brokers,
        _session(jars) as spark,
    ):
        _say("filling topics")
        sizes = {"small": (asked.records, 100), "large": (asked.records // 10, 1000)}
        sizes[streams.TINY] = (streams.TRIGGERS * PARTITIONS, 100)
        records: dict[str, int] = {}
        for broker in brokers.values():
            address = Address("127.0.0.1", broker.port)
            for name, (count, size) in sizes.items():
                records[name] = filling.fill(
                    address, name, partitions=PARTITIONS, records=count, size=size
                )
        place = Place(spark, Path(folder), brokers, records, has_stock=jars is not None)
        files = Path(folder) / "snapshot"
        snapshot.create(files, Path(folder) / OURS, str(place.address(OURS)))
        rows = [
            each
            for each in _rows(place, files)
            if any(fnmatch(each.name, pattern) for pattern in asked.rows)
        ]
        costs = _measure(place, rows, asked.rounds, left_out)
    print("\n".join(report.table(rows, costs)))
    print("\n".join(left_out))
    if asked.output is not None:
        asked.output.write_text(report.as_json(rows, costs, left_out))
    return 0 if all(costs.values()) else 1


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench-spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", default=["*"], help="names or patterns of rows")
    parser.add_argument("--records", type=int, default=10_000_000, help="of 100 bytes")
    parser.add_argument("--rounds", type=int, default=3, help="that count; one before warms up")
    parser.add_argument("-o", "--output", type=Path, help="a file for all rounds, as JSON")
    return parser.parse_args(words)


def _found(what: str, find: Callable[[], _FoundT], left_out: list[str]) -> _FoundT | None:
    try:
        return find()
    except UnavailableError as error:
        left_out.append(f"left out: rows that need {what}: {error}")
        return None


@contextmanager
def _brokers(folder: Path, kafka: Path | None) -> Iterator[dict[str, Target]]:
    with ExitStack() as stack:
        brokers = {OURS: start_polylog(folder / OURS)}
        stack.callback(brokers[OURS].stop)
        if kafka is not None:
            brokers[KAFKA] = start_kafka(kafka, folder / KAFKA)
            stack.callback(brokers[KAFKA].stop)
        yield brokers


@contextmanager
def _session(jars: Sequence[Path] | None) -> Iterator["SparkSession"]:
    paths = [str(_ROOT), str(_PACKAGE), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(each for each in paths if each)  # of its workers
    options = {"spark.ui.showConsoleProgress": "false", "spark.driver.memory": "3g"}
    if jars is not None:
        options["spark.jars"] = ",".join(map(str, jars))
    spark = pipeline.session("local[2]", options=options)
    try:
        spark.sparkContext.setLogLevel("ERROR")
        pipeline.register(spark)
        spark.dataSource.register(CeilingDataSource)
        yield spark
    finally:
        spark.stop()


def _rows(place: Place, files: Path) -> Iterator[Row]:
    yield from reads.rows(place, files)
    yield from streams.rows(place)
    yield from archives.rows(place)
    yield from writes.rows(place)
    yield from scans.rows(place, files)


def _measure(
    place: Place, rows: list[Row], rounds: int, left_out: list[str]
) -> dict[str, list[Cost]]:
    """Run all rows again and again; one that fails is not run again, and has no figures."""
    gateway: Any = place.spark.sparkContext._gateway  # noqa: SLF001 - the only way to its process
    jvm: int = gateway.proc.pid
    costs: dict[str, list[Cost]] = {each.name: [] for each in rows}
    failed: set[str] = set()
    for turn in range(rounds + 1):
        _say(f"round {turn} of {rounds}" if turn else "warming up")
        for row in rows:
            if row.name in failed:
                continue
            try:
                with row.ready() as job:
                    cost = measured(job, jvm, place.brokers[row.broker].pid)
            except Exception as error:  # noqa: BLE001 - the others are worth their figures
                traceback.print_exception(error)
                left_out.append(f"failed: {row.name}: {str(error).splitlines()[0]}")
                failed.add(row.name)
                costs[row.name].clear()
                continue
            _say(f"  {row.name}: {cost.seconds:.2f} s")
            if turn:  # the first round warms the JVM and the page cache
                costs[row.name].append(cost)
    return costs


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
