"""Archives a topic to a table of Parquet files, each record exactly once.

    next offsets in the table ─→ ranges of offsets ─→ a task each: Fetch → Parquet ─→ commit: files
    and next offsets atomically ─→ … until the end offsets of the start are reached

The next offsets are stored in the table itself, in the commit that added the files. So there is no
checkpoint that could be older or newer than the table. After a kill at any time a run continues
where the last commit ended; files that no commit names are ignored. Rows do not pass through
Spark's JVM: tasks only return the names of the files that they have written.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from broker.client.fetch import Range
from broker.client.metadata import Cluster, Topic
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.model.clock import Clock, SystemClock
from broker.model.report import Report
from broker.pipeline.jobs.archive_files import COLUMNS, ArchivedFile, FileWriter
from broker.pipeline.jobs.archive_tables import Table, open_table
from broker.pipeline.jobs.rows import ArchivedPartition
from broker.pipeline.limits import ARCHIVE_COMMIT_RECORDS, ARCHIVE_FILE_BYTES, ARCHIVE_TASK_RECORDS
from broker.pipeline.reaching import cluster_of
from broker.pipeline.source.planning import limited, split
from broker.pipeline.source.topics import DataLoss

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from broker.client.security import SecuritySettings


class ArchiveOptions(NamedTuple):
    """The topic and the table of an archive.

    Attributes:
        bootstrap: bootstrap servers, HOST:PORT,HOST:PORT.
        topic: its name.
        folder: of the table; created if it does not exist.
        table_format: "delta" or "parquet".
        file_bytes: the size at which a file is closed; `compact` merges smaller ones.
        task_records: the offsets of a task, at most.
        commit_records: the offsets of a commit, at most, but at least one per partition.
        fails_on_data_loss: whether it is an error if records were deleted before they were
            archived.
        security: TLS and the login; None: neither.
        timeout_seconds: how long an answer is waited for; None: as long as clients do.
    """

    bootstrap: str
    topic: str
    folder: Path
    table_format: str = "delta"
    file_bytes: int = ARCHIVE_FILE_BYTES
    task_records: int = ARCHIVE_TASK_RECORDS
    commit_records: int = ARCHIVE_COMMIT_RECORDS
    fails_on_data_loss: bool = True
    security: "SecuritySettings | None" = None
    timeout_seconds: float | None = None


def archive(
    spark: "SparkSession",
    options: ArchiveOptions,
    *,
    progress: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> Report:
    """Archive the committed records of a topic up to its current end.

    Returns:
        A row per partition: start and end offset, records, files and their bytes.

    Raises:
        ConfigError: the table belongs to another topic, or has another format.
        DataLoss: records that the table does not have were deleted.
        RequestError, Unreachable: errors of the broker.
        Unsupported: deltalake or pyarrow is not installed.
    """
    clock = clock or SystemClock()
    started_ms = clock.monotonic_ms()
    cluster = cluster_of(options.bootstrap, options.security, options.timeout_seconds)
    topic = cluster.topics([options.topic])[options.topic]
    table = open_table(options.folder, options.table_format, topic)
    starts = _start_offsets(cluster, topic, table, fails=options.fails_on_data_loss)
    found = list_offsets(
        cluster, {(topic.name, each): LATEST for each in topic.partitions}, is_committed=True
    )
    ends = {each: max(place.offset, starts[each]) for each, place in found.items()}
    written: list[ArchivedFile] = []
    position, commits = dict(starts), 0
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
        (number, starts[name, number], end, *_totals(written, number))
        for (name, number), end in sorted(ends.items())
    ]
    seconds = (clock.monotonic_ms() - started_ms) / 1000
    totals = {
        "topic": topic.name,
        "table": str(options.folder),
        "records": sum(each.rows for each in written),
        "files": len(written),
        "bytes": sum(each.size for each in written),
        "commits": commits,
        "seconds": seconds,
    }
    return Report(ArchivedPartition._fields, rows, totals)


def compact(
    folder: Path,
    table_format: str,
    *,
    file_bytes: int = ARCHIVE_FILE_BYTES,
    clock: Clock | None = None,
) -> Report:
    """Merge the small files of a table within each day; records do not change.

    Raises:
        ConfigError: there is no such table.
        Unsupported: deltalake or pyarrow is not installed.
    """
    clock = clock or SystemClock()
    table = open_table(folder, table_format, None)
    removed, added = table.compact(file_bytes, clock.wall_ms())
    totals = {"table": str(folder), "files_merged": removed, "files_written": added}
    return Report((), [], totals)


def _start_offsets(
    cluster: Cluster, topic: Topic, table: Table, *, fails: bool
) -> dict[tuple[str, int], int]:
    """Return the first offset to archive of each partition."""
    wanted = {(topic.name, each): EARLIEST for each in topic.partitions}
    earliest = {each: found.offset for each, found in list_offsets(cluster, wanted).items()}
    starts: dict[tuple[str, int], int] = {}
    for (name, number), first in earliest.items():
        there = table.next_offset(number)
        if there is not None and there < first and fails:
            raise DataLoss(
                f"{table.folder} continues at offset {there} of {name}-{number}, but its first"
                f" record is {first} now: retention has deleted {first - there} offsets; allow this"
                " (--allow-data-loss), or archive more often"
            )
        starts[name, number] = first if there is None else max(there, first)
    return starts


def _write(
    spark: "SparkSession", options: ArchiveOptions, table: Table, ranges: list[Range]
) -> list[ArchivedFile]:
    """Write each range in a task."""
    folder, file_bytes = table.staging(uuid.uuid4().hex), options.file_bytes
    brokers = options.bootstrap, options.security, options.timeout_seconds

    def write(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for number in batch.column(0).to_pylist():
                writer = FileWriter(folder, file_bytes)
                yield writer.write(cluster_of(*brokers), ranges[number])

    count = len(ranges)
    if not count:
        return []
    rows = spark.range(0, count, 1, count).mapInArrow(write, COLUMNS).collect()
    return [ArchivedFile(*row) for row in rows]


def _totals(files: list[ArchivedFile], partition: int) -> tuple[int, int, int]:
    own = [each for each in files if each.partition == partition]
    return sum(each.rows for each in own), len(own), sum(each.size for each in own)
