"""A program that runs a replay or a dedupe and kills itself -9 in its second slice or batch.

    python -m tests.pipeline.job_driver ADDRESS replay FOLDER TARGET PLACE
    python -m tests.pipeline.job_driver ADDRESS dedupe FOLDER TARGET PLACE SOURCE

FOLDER is the archive, or the checkpoint. In a task PLACE is "sending" (half of its rows), "before
the end" of its transaction, or "after the end" (its driver does not know yet). In the driver it is
"between" (the slice or batch is written, nobody knows yet) and, of a dedupe, "draft" (what is to be
written lies in a folder that is not valid yet) or "kept" (it is, and nothing is written).
"""

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from broker.client.transactions import Transactions
from broker.pipeline.jobs import dedupe, replay
from broker.pipeline.sink import task
from broker.pipeline.sink.writer import PolylogWriter
from broker.pipeline.source.polylog import PolylogDataSource
from tests.pipeline.conftest import start_spark
from tests.pipeline.killing import die, remember_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPLAY_PLACES = ("sending", "after the end", "between", "before the end")
DEDUPE_PLACES = ("after the end", "kept", "sending", "between", "draft", "before the end")
SLICE_RECORDS = 200  # of each partition
BATCH_RECORDS = 400
_PLACE = "polylog.test.place"  # a local property: tasks of the second slice or batch have it


class DyingWriter(PolylogWriter):
    """The unchanged sink, before the time to die."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        place = context.getLocalProperty(_PLACE)
        if place == "sending":
            vars(task)["SINK_CHUNK_BYTES"] = 1  # every batch is sent separately
            iterator = dying(iterator)
        if place in {"before the end", "after the end"}:
            die_at_the_end(before=place == "before the end")
        return super().write(iterator)


def dying(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield half of the rows of a task that has any."""
    for batch in batches:
        for start in range(0, max(batch.num_rows // 2, 1), 20):
            yield batch.slice(start, 20)
        die()


def die_at_the_end(before: bool) -> None:
    """Make the first commit of a transaction the last action."""
    end = Transactions.end

    def ending(transactions: Transactions, *, is_committed: bool) -> None:
        if before:
            die()
        end(transactions, is_committed=is_committed)
        die()

    setattr(Transactions, "end", ending)  # noqa: B010 - a method is not to be assigned to


class DyingSource(PolylogDataSource):
    """The format with that sink."""

    def writer(self, schema: StructType, overwrite: bool) -> DyingWriter:
        return DyingWriter(dict(self.options), schema, overwrite)


def replay_options(address: str, folder: Path, target: str) -> replay.ReplayOptions:
    return replay.ReplayOptions(folder, "parquet", address, target, slice_records=SLICE_RECORDS)


def dedupe_options(address: str, folder: Path, target: str, source: str) -> dedupe.DedupeOptions:
    return dedupe.DedupeOptions(
        address, source, target, "key", "1 hour", folder, batch_records=BATCH_RECORDS
    )


def die_in_a_replay(place: str) -> None:
    """Make the second slice the last."""
    write, numbers = replay._write, count(1)

    def writing(spark: "SparkSession", *arguments: Any) -> None:
        is_it = next(numbers) == 2
        if is_it:
            spark.sparkContext.setLocalProperty(_PLACE, place)
        write(spark, *arguments)
        if is_it:
            die()

    vars(replay)["_write"] = writing


def die_in_a_dedupe(place: str) -> None:
    """Let the second batch be the last."""
    keep, numbers = dedupe._deduplicated, count(1)

    def keeping(batch: Any, *arguments: Any) -> Any:
        is_it = next(numbers) == 2
        if is_it and place == "draft":
            setattr(Path, "rename", lambda *_: die())  # noqa: B010 - as above
        kept = keep(batch, *arguments)
        if is_it and place == "kept":
            die()
        if is_it:
            batch.sparkSession.sparkContext.setLocalProperty(_PLACE, place)
        return kept

    vars(dedupe)["_deduplicated"] = keeping


def main(address: str, job: str, folder: str, target: str, place: str, *source: str) -> None:
    remember_driver()
    spark = start_spark()
    spark.dataSource.register(DyingSource)
    if job == "replay":
        die_in_a_replay(place)
        replay.replay(spark, replay_options(address, Path(folder), target))
    else:
        die_in_a_dedupe(place)
        written = count(1)
        dedupe.dedupe(
            spark,
            dedupe_options(address, Path(folder), target, *source),
            progress=lambda _: die() if next(written) == 2 else None,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
