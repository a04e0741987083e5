"""Topics in Spark, in one interleaved run: medians of several rounds, then the goals.

Our source, sink and archive are compared with "ceiling", which passes Arrow batches from memory to
Spark (no Python source can be faster); "stock", Spark's own Kafka connector with its defaults;
"stock tuned", the connector with its best settings; and Apache Kafka with the same records. The
connector and Kafka are downloaded by Maven; if they are not available, their rows are left out.

Processor time is that of the JVM, of Python (workers and driver) and of the broker of the row, per
row or trigger.
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
from benchmarks.spark.rows import KAFKA, OURS, PARTITIONS, Environment, Row
from broker import pipeline
from broker.model.address import Address
from broker.pipeline.jobs import snapshot
from tests.compatibility.java import spark_connector
from tests.compatibility.java import tools as java_tools
from tests.compatibility.programs import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FoundT = TypeVar("_FoundT")
_ROOT = Path(__file__).parents[2]
_PACKAGE = Path(pipeline.__file__).parents[2]  # the installation, or the sources


def main(arguments: list[str]) -> int:
    """Measure and print; return 1 if a row has failed."""
    parsed = _arguments(arguments)
    left_out: list[str] = []
    jars = _find_optional("Spark's Kafka connector", spark_connector.find, left_out)
    kafka = _find_optional("Apache Kafka", lambda: java_tools.find().libs, left_out)
    with (
        tempfile.TemporaryDirectory() as folder,
        _brokers(Path(folder), kafka) as brokers,
        _session(jars) as spark,
    ):
        _say("filling topics")
        sizes = {"small": (parsed.records, 100), "large": (parsed.records // 10, 1000)}
        sizes[streams.TINY] = (streams.TRIGGERS * PARTITIONS, 100)
        records: dict[str, int] = {}
        for broker in brokers.values():
            address = Address("127.0.0.1", broker.port)
            for name, (count, size) in sizes.items():
                records[name] = filling.fill(
                    address, name, partitions=PARTITIONS, records=count, size=size
                )
        environment = Environment(spark, Path(folder), brokers, records, has_stock=jars is not None)
        files = Path(folder) / "snapshot"
        snapshot.create(files, Path(folder) / OURS, str(environment.address(OURS)))
        rows = [
            each
            for each in _rows(environment, files)
            if any(fnmatch(each.name, pattern) for pattern in parsed.rows)
        ]
        costs = _measure(environment, rows, parsed.rounds, left_out)
    print("\n".join(report.table(rows, costs)))
    print("\n".join(left_out))
    if parsed.output is not None:
        parsed.output.write_text(report.as_json(rows, costs, left_out))
    return 0 if all(costs.values()) else 1


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench SUITE=spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", default=["*"], help="names or patterns of rows")
    parser.add_argument("--records", type=int, default=10_000_000, help="of 100 bytes")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds; one more warms up")
    parser.add_argument("-o", "--output", type=Path, help="a JSON file for all rounds")
    return parser.parse_args(arguments)


def _find_optional(what: str, find: Callable[[], _FoundT], left_out: list[str]) -> _FoundT | None:
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
    os.environ["PYTHONPATH"] = os.pathsep.join(
        each for each in paths if each
    )  # for Spark's workers
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


def _rows(environment: Environment, files: Path) -> Iterator[Row]:
    yield from reads.rows(environment, files)
    yield from streams.rows(environment)
    yield from archives.rows(environment)
    yield from writes.rows(environment)
    yield from scans.rows(environment, files)


def _measure(
    environment: Environment, rows: list[Row], rounds: int, left_out: list[str]
) -> dict[str, list[Cost]]:
    """Run all rows in each round; a row that fails is not run again and has no figures."""
    gateway: Any = environment.spark.sparkContext._gateway  # noqa: SLF001 - the only access to its process
    jvm: int = gateway.proc.pid
    costs: dict[str, list[Cost]] = {each.name: [] for each in rows}
    failed: set[str] = set()
    for number in range(rounds + 1):
        _say(f"round {number} of {rounds}" if number else "warming up")
        for row in rows:
            if row.name in failed:
                continue
            try:
                with row.ready() as job:
                    cost = measured(job, jvm, environment.brokers[row.broker].pid)
            except Exception as error:  # noqa: BLE001 - other rows are still measured
                traceback.print_exception(error)
                left_out.append(f"failed: {row.name}: {str(error).splitlines()[0]}")
                failed.add(row.name)
                costs[row.name].clear()
                continue
            _say(f"  {row.name}: {cost.seconds:.2f} s")
            if number:  # the first round warms the JVM and the page cache
                costs[row.name].append(cost)
    return costs


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
