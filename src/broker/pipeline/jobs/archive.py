"""A topic into a table of Parquet files, each record exactly once.

    what the table has ─→ ranges of offsets ─→ a task each: Fetch → Parquet ─→ commit: files and
    the next offsets at once ─→ … until the offsets are reached that were the last at the start

Where to go on stands in the table itself, in the commit that added the files. So there is no
checkpoint that could be older or newer than the table, and whatever is killed whenever: files that
no commit names do not count, and a run begins where the last commit ends. The rows never pass
through Spark's JVM: its tasks say only which files they have written.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.client.fetch import Range
from broker.client.metadata import Cluster, Topic
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.model.address import parse_addresses
from broker.model.clock import Clock, SystemClock
from broker.model.limits import (
    ARCHIVE_COMMIT_RECORDS,
    ARCHIVE_FILE_BYTES,
    ARCHIVE_TASK_RECORDS,
)
from broker.model.report import Report
from broker.pipeline.jobs.archive_files import COLUMNS, ArchivedFile, FileWriter
from broker.pipeline.jobs.archive_tables import Table, open_table
from broker.pipeline.source.planning import limited, split
from broker.pipeline.source.topics import DataLoss

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_COLUMNS: Final = ("partition", "from", "to", "records", "files", "bytes")


class ArchiveOptions(NamedTuple):
    """What to archive where.

    Attributes:
        bootstrap: brokers to begin with, HOST:PORT,HOST:PORT.
        topic: its name.
        folder: of the table; made if it is not there.
        table_format: "delta" or "parquet".
        file_bytes: a file ends when it has as many; the smaller ones are joined by compaction.
        task_records: a task has no more offsets.
        commit_records: a commit has no more offsets, but one per partition.
        fails_on_data_loss: whether it is an error that records are gone that were to be archived.
    """

    bootstrap: str
    topic: str
    folder: Path
    table_format: str = "delta"
    file_bytes: int = ARCHIVE_FILE_BYTES
    task_records: int = ARCHIVE_TASK_RECORDS
    commit_records: int = ARCHIVE_COMMIT_RECORDS
    fails_on_data_loss: bool = True


def archive(
    spark: "SparkSession",
    options: ArchiveOptions,
    *,
    progress: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> Report:
    """Bring a table up to the end that the topic has now, of committed records.

    Returns:
        A row per partition: from which offset to which, records, files and their bytes.

    Raises:
        ConfigError: the table is another topic's, or not one of this format.
        DataLoss: records are gone, from the broker or under way, that the table has not.
        RequestError, Unreachable: the broker.
        Unsupported: deltalake or pyarrow is not installed.
    """
    clock = clock or SystemClock()
    begun = clock.monotonic_ms()
    cluster = Cluster(parse_addresses(options.bootstrap))
    topic = cluster.topics([options.topic])[options.topic]
    table = open_table(options.folder, options.table_format, topic)
    begins = _begins(cluster, topic, table, fails=options.fails_on_data_loss)
    found = list_offsets(
        cluster, {(topic.name, each): LATEST for each in topic.partitions}, is_committed=True
    )
    ends = {each: max(place.offset, begins[each]) for each, place in found.items()}
    written: list[ArchivedFile] = []
    position, commits = dict(begins), 0
    while position != ends:
        following = limited(position, ends, options.commit_records)
        ranges = [
            Range(topic.name, topic.topic_id, number, position[name, number], end)
            for (name, number), end in following.items()
        ]
        files = _write(spark, options, table, split(ranges, None, options.task_records))
        next_offsets = {number: end for (_, number), end in following.items()}
        table.commit(files, next_offsets, clock.wall_ms())
        written += files
        position, commits = following, commits + 1
        left = sum(ends.values()) - sum(position.values())
        progress(
            f"commit {commits}: {sum(each.rows for each in files)} records, {left} offsets left"
        )
    rows = [
        (number, begins[name, number], end, *_totals(written, number))
        for (name, number), end in sorted(ends.items())
    ]
    seconds = (clock.monotonic_ms() - begun) / 1000
    totals = {
        "topic": topic.name,
        "table": str(options.folder),
        "records": sum(each.rows for each in written),
        "files": len(written),
        "bytes": sum(each.size for each in written),
        "commits": commits,
        "seconds": seconds,
    }
    return Report(_COLUMNS, rows, totals)


def compact(
    folder: Path,
    table_format: str,
    *,
    file_bytes: int = ARCHIVE_FILE_BYTES,
    clock: Clock | None = None,
) -> Report:
    """Join the small files of a table, each day's by themselves; the records stay as they are.

    Raises:
        ConfigError: there is no such table.
        Unsupported: deltalake or pyarrow is not installed.
    """
    clock = clock or SystemClock()
    table = open_table(folder, table_format, None)
    removed, added = table.compact(file_bytes, clock.wall_ms())
    totals = {"table": str(folder), "files joined": removed, "files made of them": added}
    return Report((), [], totals)


def _begins(
    cluster: Cluster, topic: Topic, table: Table, *, fails: bool
) -> dict[tuple[str, int], int]:
    """Where each partition goes on, or begins."""
    wanted = {(topic.name, each): EARLIEST for each in topic.partitions}
    earliest = {each: found.offset for each, found in list_offsets(cluster, wanted).items()}
    begins: dict[tuple[str, int], int] = {}
    for (name, number), first in earliest.items():
        there = table.next_offset(number)
        if there is not None and there < first and fails:
            raise DataLoss(
                f"{table.folder} goes on at offset {there} of {name}-{number}, but its first record"
                f" is {first} now: {first - there} offsets are lost to retention; say that this may"
                " be (--allow-data-loss), or archive more often"
            )
        begins[name, number] = first if there is None else max(there, first)
    return begins


def _write(
    spark: "SparkSession", options: ArchiveOptions, table: Table, ranges: list[Range]
) -> list[ArchivedFile]:
    """Let a task write each range."""
    folder = table.staging(uuid.uuid4().hex)
    bootstrap, file_bytes = parse_addresses(options.bootstrap), options.file_bytes

    def write(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for number in batch.column(0).to_pylist():
                writer = FileWriter(folder, file_bytes)
                yield writer.write(Cluster(bootstrap), ranges[number])

    count = len(ranges)
    if not count:
        return []
    rows = spark.range(0, count, 1, count).mapInArrow(write, COLUMNS).collect()
    return [ArchivedFile(*row) for row in rows]


def _totals(files: list[ArchivedFile], partition: int) -> tuple[int, int, int]:
    own = [each for each in files if each.partition == partition]
    return sum(each.rows for each in own), len(own), sum(each.size for each in own)
