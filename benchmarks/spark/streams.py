"""Streams into Spark's noop sink: large triggers, and what a trigger costs that reads next to none.

Of a stream only its triggers count, not how long it takes to start and to stop.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.end_to_end.targets import BenchmarkError
from benchmarks.spark.rows import KAFKA, OURS, PARTITIONS, Job, Place, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TINY: Final = "tiny"  # a topic of which a trigger reads one record per partition
TRIGGERS: Final = 40
_ROWS_PER_TRIGGER: Final = 1_000_000
_TIMEOUT_S: Final = 600


def rows(place: Place) -> Iterator[Row]:
    """Yield ours and stock, which read the same broker."""
    sources = {"": OURS} | ({"stock ": KAFKA} if place.has_stock else {})
    for whose, source in sources.items():
        large, tiny = partial(_large, place, source), partial(_tiny, place, source)
        yield Row(f"{whose}stream", place.records["small"], large)
        yield Row(f"{whose}trigger", TRIGGERS, tiny, is_per_trigger=True)


@contextmanager
def _large(place: Place, source: str) -> Iterator[Job]:
    """Sum of the times of all triggers."""

    def job() -> float:
        found = _run(place, source, "small", min(_ROWS_PER_TRIGGER, place.records["small"] // 2))
        return sum(map(_seconds, found))

    try:
        yield job
    finally:
        shutil.rmtree(place.folder / "checkpoint", ignore_errors=True)


@contextmanager
def _tiny(place: Place, source: str) -> Iterator[Job]:
    """As long as all triggers would take if each took as long as the one in the middle."""

    def job() -> float:
        found = _run(place, source, TINY, PARTITIONS)
        if len(found) != TRIGGERS:
            raise BenchmarkError(f"{len(found)} triggers, expected {TRIGGERS}")
        return median(map(_seconds, found)) * TRIGGERS

    try:
        yield job
    finally:
        shutil.rmtree(place.folder / "checkpoint", ignore_errors=True)


def _run(place: Place, source: str, topic: str, limit: int) -> Sequence[Mapping[str, Any]]:
    """Read a topic from its beginning; return what Spark says of each trigger with rows."""
    options = place.options(OURS) | {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(limit),
    }
    frame: DataFrame = place.spark.readStream.format(source).options(**options).load()
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(place.folder / "checkpoint")).start()
    if not query.awaitTermination(_TIMEOUT_S):
        query.stop()
        raise BenchmarkError(f"a stream from {source} took more than {_TIMEOUT_S} s")
    found = [each for each in query.recentProgress if each["numInputRows"]]
    count = sum(each["numInputRows"] for each in found)
    if count != place.records[topic]:
        raise BenchmarkError(f"a stream from {source} read {count} of {place.records[topic]} rows")
    return found


def _seconds(progress: Mapping[str, Any]) -> float:
    return float(progress["durationMs"]["triggerExecution"]) / 1000
