"""Copies a topic to another one without duplicate records.

    topic ─→ stream ─ one record of each identity within a time ─→ a folder per batch ─→ the sink,
    in the order of the offsets

Two records are duplicates if they have the same identity: key, value, both, or a header. A record
without an identity (no key, no such header) is never a duplicate. The identities seen are Spark's
state in the checkpoint. Spark keeps an arbitrary one of the duplicates in a batch. If a batch were
run again and another one were kept, completed tasks and repeated tasks would not be consistent.
Therefore the kept records are first written to a folder, and a batch that has a folder is written
from it. A run that was killed is continued by starting it again.

Records that are older than the newest one by more than the time cannot be compared any more: Spark
drops them, and the report has their number.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.codec.packages import import_optional
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ConfigError
from broker.model.report import Report
from broker.pipeline.jobs.rows import Deduplicated
from broker.pipeline.limits import DEDUPE_BATCH_RECORDS
from broker.pipeline.reaching import cluster_of, options_of
from broker.pipeline.schema import ORIGINAL_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from broker.client.security import SecuritySettings

_HEADER: Final = "header:"
_KEPT: Final = "kept"  # the folder in the checkpoint that has a folder per batch
_POLL_SECONDS: Final = 2  # Spark keeps the progress of the last hundred batches
_IDENTITIES: Final = {"key": "key", "value": "value", "key+value": "struct(key, value)"}


class DedupeOptions(NamedTuple):
    """The topics and the identity of a deduplication.

    Attributes:
        bootstrap: bootstrap servers, HOST:PORT,HOST:PORT.
        source: the topic that is read, from its beginning.
        target: the topic that is written; it must exist.
        by: "key", "value", "key+value" or "header:NAME".
        within: the time between two duplicates, at most, in Spark's notation: "1 hour".
        checkpoint: a folder for the state of the run.
        batch_records: the number of offsets in a batch.
        security: TLS and the login; None: neither.
        timeout_seconds: how long an answer is waited for; None: as long as clients do.
    """

    bootstrap: str
    source: str
    target: str
    by: str
    within: str
    checkpoint: Path
    batch_records: int = DEDUPE_BATCH_RECORDS
    security: "SecuritySettings | None" = None
    timeout_seconds: float | None = None


def dedupe(
    spark: "SparkSession",
    options: DedupeOptions,
    *,
    progress: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> Report:
    """Copy the source up to its current end to the target, without duplicates.

    Returns:
        Totals: records read, written, left out as duplicates, dropped as too old.

    Raises:
        ConfigError: an invalid identity or time, or source and target are the same topic.
        RequestError, Unreachable: errors of the broker; a topic does not exist.
        MarkerMismatch: the checkpoint is older than what was written.
    """
    clock = clock or SystemClock()
    started_ms = clock.monotonic_ms()
    identity = identity_of(options.by)
    if options.source == options.target:
        raise ConfigError(f"topic {options.source!r} cannot be its own target: name another topic")
    cluster = cluster_of(options.bootstrap, options.security, options.timeout_seconds)
    topics = cluster.topics([options.source, options.target])
    keeps = len(topics[options.source].partitions) <= len(topics[options.target].partitions)
    written: list[int] = []  # the records of each batch

    def count(batch_id: int, kept: int) -> None:
        written.append(kept)
        progress(f"batch {batch_id}: {kept} records")

    records = _without_duplicates(_stream(spark, options), identity, options.within)
    query = _start(records, options, count, keeps_partitions=keeps)
    read: dict[int, int] = {}
    late: dict[int, int] = {}
    try:
        while not query.awaitTermination(_POLL_SECONDS):
            _record_progress(query, read, late)
    finally:
        query.stop()
    _record_progress(query, read, late)
    dropped = sum(late.values())
    totals = Deduplicated(
        source=options.source,
        target=options.target,
        records_read=sum(read.values()),
        records_written=sum(written),
        duplicates_left_out=sum(read.values()) - sum(written) - dropped,
        too_old_to_compare=dropped,
        batches=len(written),
        seconds=(clock.monotonic_ms() - started_ms) / 1000,
    )
    problems = []
    if dropped:
        problems.append(
            f"{dropped} records were dropped: they are older than the newest by more than"
            f" {options.within}; use a longer time with a new checkpoint and a new target"
        )
    return Report((), [], totals._asdict(), problems)


def identity_of(by: str) -> str:
    """Return the SQL expression of the identity of a record.

    Raises:
        ConfigError: an unknown identity.
    """
    if by.startswith(_HEADER) and len(by) > len(_HEADER):
        name = by.removeprefix(_HEADER).replace("\\", "\\\\").replace("'", "\\'")
        return f"try_element_at(filter(headers, each -> each.key = '{name}'), 1).value"
    if by not in _IDENTITIES:
        raise ConfigError(
            f"identity {by!r}: expected one of {', '.join(_IDENTITIES)}, {_HEADER}NAME"
        )
    return _IDENTITIES[by]


def _stream(spark: "SparkSession", options: DedupeOptions) -> "DataFrame":
    return (
        spark.readStream.format("polylog")
        .options(**options_of(options.bootstrap, options.security, options.timeout_seconds))
        .option("subscribe", options.source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", str(options.batch_records))
        .load()
        .selectExpr("* EXCEPT (timestamp)", ORIGINAL_TIMESTAMP)
    )


def _without_duplicates(records: "DataFrame", identity: str, within: str) -> "DataFrame":
    errors = import_optional("pyspark.errors", "a dedupe")
    try:
        watched = records.withWatermark("timestamp", within)
    except (errors.AnalysisException, errors.ParseException) as error:
        raise ConfigError(f"time {within!r}: {error}") from error
    # Null equals null in Spark's comparison, so records without an identity get one of their own.
    own = f"if(({identity}) IS NULL, concat(partition, '-', offset), NULL)"
    named = watched.selectExpr("*", f"{identity} AS _identity", f"{own} AS _own")
    return named.dropDuplicatesWithinWatermark(["_identity", "_own"])


def _start(
    records: "DataFrame",
    options: DedupeOptions,
    count: Callable[[int, int], None],
    *,
    keeps_partitions: bool,
) -> "StreamingQuery":
    spark = records.sparkSession
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    columns = ["key", "value", "headers", "timestamp"]
    if keeps_partitions:
        columns.append("partition")

    def write(batch: "DataFrame", batch_id: int) -> None:
        # The query's id is that of the checkpoint, the same in a run that is started again.
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if not query_id:
            raise ConfigError("Spark does not set the id of the query (sql.streaming.queryId)")
        kept = _deduplicated(batch, batch_id, options.checkpoint / _KEPT)
        ordered = kept.repartition(tasks, "partition").sortWithinPartitions("partition", "offset")
        (
            ordered.select(*columns)
            .write.format("polylog")
            .mode("append")
            .options(**options_of(options.bootstrap, options.security, options.timeout_seconds))
            .option("topic", options.target)
            .option("delivery", "exactly-once")
            .option("writeId", f"dedupe-{query_id}")
            .option("writeBatch", str(batch_id))
            .option("tasks", str(tasks))
            .save()
        )
        count(batch_id, kept.count())

    return (
        records.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(options.checkpoint / "query"))
        .trigger(availableNow=True)
        .start()
    )


def _deduplicated(batch: "DataFrame", batch_id: int, folder: Path) -> "DataFrame":
    """Return the records that the first run of a batch kept, in this run or an earlier one."""
    final = folder / str(batch_id)
    if final.exists():
        # The batch must update Spark's state again, whichever duplicates are kept this time: Spark
        # ends a query with a batch that does not.
        batch.write.format("noop").mode("overwrite").save()
    else:
        draft = folder / f"draft-{batch_id}"
        batch.drop("_identity", "_own").write.mode("overwrite").parquet(str(draft))
        draft.rename(final)
    for each in folder.iterdir():
        # Earlier batches have been written, otherwise this one would not have started.
        if each.name.isdecimal() and int(each.name) < batch_id:
            shutil.rmtree(each)
    return batch.sparkSession.read.parquet(str(final))


def _record_progress(query: "StreamingQuery", read: dict[int, int], late: dict[int, int]) -> None:
    """Record for each batch the number of rows read and of rows dropped as too old."""
    for each in query.recentProgress:
        read[each["batchId"]] = each["numInputRows"]
        late[each["batchId"]] = sum(
            operator["numRowsDroppedByWatermark"] for operator in each["stateOperators"]
        )
