"""Streams to Spark's noop sink: large triggers, and the cost of triggers with few records.

Only triggers are measured, not the start and stop of a stream.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.end_to_end.targets import BenchmarkError
from benchmarks.spark.rows import KAFKA, OURS, PARTITIONS, Environment, Job, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TINY: Final = "tiny"  # a topic of which a trigger reads one record per partition
TRIGGERS: Final = 40
_ROWS_PER_TRIGGER: Final = 1_000_000
_TIMEOUT_S: Final = 600


def rows(environment: Environment) -> Iterator[Row]:
    """Yield the rows of our source and of stock, which read the same broker."""
    sources = {"": OURS} | ({"stock ": KAFKA} if environment.has_stock else {})
    for whose, source in sources.items():
        large, tiny = partial(_large, environment, source), partial(_tiny, environment, source)
        yield Row(f"{whose}stream", environment.records["small"], large)
        yield Row(f"{whose}trigger", TRIGGERS, tiny, is_per_trigger=True)


@contextmanager
def _large(environment: Environment, source: str) -> Iterator[Job]:
    """Prepare a stream; its time is the sum of all triggers."""

    def job() -> float:
        found = _run(
            environment, source, "small", min(_ROWS_PER_TRIGGER, environment.records["small"] // 2)
        )
        return sum(map(_seconds, found))

    try:
        yield job
    finally:
        shutil.rmtree(environment.folder / "checkpoint", ignore_errors=True)


@contextmanager
def _tiny(environment: Environment, source: str) -> Iterator[Job]:
    """Prepare a stream; its time is the median trigger times the number of triggers."""

    def job() -> float:
        found = _run(environment, source, TINY, PARTITIONS)
        if len(found) != TRIGGERS:
            raise BenchmarkError(f"{len(found)} triggers, expected {TRIGGERS}")
        return median(map(_seconds, found)) * TRIGGERS

    try:
        yield job
    finally:
        shutil.rmtree(environment.folder / "checkpoint", ignore_errors=True)


def _run(
    environment: Environment, source: str, topic: str, limit: int
) -> Sequence[Mapping[str, Any]]:
    """Read a topic from its beginning; return Spark's progress of each trigger with rows."""
    options = environment.options(OURS) | {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(limit),
    }
    frame: DataFrame = environment.spark.readStream.format(source).options(**options).load()
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(environment.folder / "checkpoint")).start()
    if not query.awaitTermination(_TIMEOUT_S):
        query.stop()
        raise BenchmarkError(f"a stream from {source} took more than {_TIMEOUT_S} s")
    found = [each for each in query.recentProgress if each["numInputRows"]]
    count = sum(each["numInputRows"] for each in found)
    if count != environment.records[topic]:
        raise BenchmarkError(
            f"a stream from {source} read {count} of {environment.records[topic]} rows"
        )
    return found


def _seconds(progress: Mapping[str, Any]) -> float:
    return float(progress["durationMs"]["triggerExecution"]) / 1000
