"""Writes an archive to a topic: each record once, with key, headers, timestamp and order.

    archive ─ filter ─→ slices of offsets, one after the other ─→ a task per partition, in the order
    of the offsets ─→ the sink, exactly once

A slice is a batch of the sink. A replay that is started again continues with the last slice that
was started, and in it with the tasks that had not completed. The id of a replay is computed from
its source and target: the same replay is not written twice, a different one is written.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.client.metadata import Cluster
from broker.codec.packages import import_optional
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ConfigError, ErrorCode, RequestError
from broker.model.report import Report
from broker.pipeline.jobs.archive_tables import open_table
from broker.pipeline.jobs.rows import ReplayedPartition
from broker.pipeline.limits import REPLAY_SLICE_RECORDS, REPLAY_SLICE_SECONDS
from broker.pipeline.reaching import cluster_of, options_of
from broker.pipeline.schema import ORIGINAL_TIMESTAMP
from broker.pipeline.sink.marker_topic import MarkerTopic
from broker.pipeline.sink.options import SinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from broker.client.security import SecuritySettings

_ID_BYTES: Final = 10


class ReplayOptions(NamedTuple):
    """The archive and the topic of a replay.

    Attributes:
        folder: of the archive.
        table_format: "delta" or "parquet".
        bootstrap: bootstrap servers, HOST:PORT,HOST:PORT.
        topic: the target; it must exist.
        where: an SQL condition over the columns of the archive; None: all records.
        keeps_partitions: whether a record goes to its original partition; otherwise to that of its
            key.
        records_per_second: the limit of all tasks together; None: no limit.
        replay_id: the id; None: computed from the fields above.
        slice_records: the number of offsets of a partition in one transaction.
        security: TLS and the login; None: neither.
        timeout_seconds: how long an answer is waited for; None: as long as clients do.
    """

    folder: Path
    table_format: str
    bootstrap: str
    topic: str
    where: str | None = None
    keeps_partitions: bool = True
    records_per_second: int | None = None
    replay_id: str | None = None
    slice_records: int = REPLAY_SLICE_RECORDS
    security: "SecuritySettings | None" = None
    timeout_seconds: float | None = None


class _Part(NamedTuple):
    """The records of a partition to replay: offsets first to last."""

    partition: int
    records: int
    first: int
    last: int


def replay(
    spark: "SparkSession",
    options: ReplayOptions,
    *,
    progress: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> Report:
    """Write the records of an archive to a topic.

    Returns:
        A row per partition of the archive: start and end offset, and the number of records.

    Raises:
        ConfigError: no such archive, an invalid condition, or a topic with fewer partitions than
            the archive.
        RequestError, Unreachable: errors of the broker; there is no such topic.
        MarkerMismatch: another replay has the same id.
    """
    clock = clock or SystemClock()
    started_ms = clock.monotonic_ms()
    records = _records(spark, options)
    parts = _parts(records)
    cluster = cluster_of(options.bootstrap, options.security, options.timeout_seconds)
    there = len(cluster.topics([options.topic])[options.topic].partitions)
    if options.keeps_partitions and any(each.partition >= there for each in parts):
        raise ConfigError(
            f"topic {options.topic!r} has {there} partitions, the archive has records of partition"
            f" {max(each.partition for each in parts)}: add partitions, or partition by key"
        )
    replay_id = options.replay_id or _id_of(options, parts)
    size = _slice_size(options, len(parts))
    slices = range(
        min((each.first for each in parts), default=0) // size,
        max((each.last + 1 for each in parts), default=0) // size + 1,
    )
    first = _first_slice(cluster, options, replay_id, slices.start)
    for number in slices[max(first - slices.start, 0) :] if parts else ():
        _write(spark, options, records, replay_id, number, size, len(parts))
        progress(f"slice {number - slices.start + 1} of {len(slices)} is written")
    rows = [(each.partition, each.first, each.last + 1, each.records) for each in parts]
    totals = {
        "archive": str(options.folder),
        "topic": options.topic,
        "id": replay_id,
        "records": sum(each.records for each in parts),
        "slices": len(slices) if parts else 0,
        "slices_already_written": max(first - slices.start, 0) if parts else 0,
        "seconds": (clock.monotonic_ms() - started_ms) / 1000,
    }
    return Report(ReplayedPartition._fields, rows, totals)


def _records(spark: "SparkSession", options: ReplayOptions) -> "DataFrame":
    open_table(options.folder, options.table_format, None)  # completes an interrupted commit
    if options.table_format == "delta":
        delta = import_optional("deltalake", "a Delta table").DeltaTable(str(options.folder))
        files = delta.file_uris()
    else:
        files = [str(each) for each in sorted(options.folder.glob("date=*"))]
    if not files:
        raise ConfigError(f"{options.folder} has no records")
    found = spark.read.option("basePath", str(options.folder)).parquet(*files)
    if options.where is None:
        return found
    errors = import_optional("pyspark.errors", "a replay")
    try:
        return found.where(options.where)
    except (errors.AnalysisException, errors.ParseException) as error:
        raise ConfigError(f"condition {options.where!r}: {error}") from error


def _parts(records: "DataFrame") -> list[_Part]:
    sql = import_optional("pyspark.sql.functions", "a replay")
    found = records.groupBy("partition").agg(sql.count("*"), sql.min("offset"), sql.max("offset"))
    return sorted(_Part(*row) for row in found.collect())


def _id_of(options: ReplayOptions, parts: list[_Part]) -> str:
    identity = [
        str(options.folder.resolve()),
        options.topic,
        options.where,
        options.keeps_partitions,
        parts,
    ]
    text = json.dumps(identity).encode()
    return f"replay-{hashlib.blake2b(text, digest_size=_ID_BYTES).hexdigest()}"


def _slice_size(options: ReplayOptions, part_count: int) -> int:
    """Return the offsets of a slice: few enough that a rate limit does not delay a transaction."""
    if options.records_per_second is None:
        return options.slice_records
    slow = options.records_per_second * REPLAY_SLICE_SECONDS // max(part_count, 1)
    return max(min(options.slice_records, slow), 1)


def _first_slice(cluster: Cluster, options: ReplayOptions, replay_id: str, first: int) -> int:
    """Return the slice to continue with: the last one that was started, if any."""
    sink = SinkOptions.of(_sink_options(options), is_stream=False)
    try:
        plan = MarkerTopic(cluster, sink.marker_topic, replay_id).read().plan
    except RequestError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return first
        raise
    return first if plan is None else plan.number


def _sink_options(options: ReplayOptions) -> dict[str, str]:
    return {
        **options_of(options.bootstrap, options.security, options.timeout_seconds),
        "topic": options.topic,
        "delivery": "exactly-once",
    }


def _write(  # noqa: PLR0913, PLR0917 - a slice and all of its options
    spark: "SparkSession",
    options: ReplayOptions,
    records: "DataFrame",
    replay_id: str,
    number: int,
    size: int,
    tasks: int,
) -> None:
    columns = ["key", "value", "headers", ORIGINAL_TIMESTAMP, "partition"]
    if not options.keeps_partitions:
        columns.remove("partition")
    given = _sink_options(options) | {
        "writeId": replay_id,
        "writeBatch": str(number),
        "tasks": str(tasks),
    }
    if options.records_per_second is not None:
        at_once = min(tasks, spark.sparkContext.defaultParallelism)
        given["maxRowsPerSecondPerTask"] = str(max(options.records_per_second // at_once, 1))
    (
        records.where(f"offset >= {number * size} AND offset < {(number + 1) * size}")
        .repartition(tasks, "partition")
        .sortWithinPartitions("partition", "offset")
        .selectExpr(*columns)
        .write.format("polylog")
        .mode("append")
        .options(**given)
        .save()
    )
