"""A topic into another one without the records that came twice.

    topic ─→ stream ─ one of each identity within a time ─→ a folder per batch ─→ the sink, in the
    order of the offsets

Two records are the same when they have the same identity: key, value, both, or a header. A record
without one (no key, no such header) is never taken for another's copy. Which identities were seen
is Spark's state in the checkpoint. Of the copies in one batch Spark keeps any; were it another when
the batch is run again, tasks that had ended and tasks that had not would not fit together. So what
was kept is put into a folder first, and a batch that has its folder is written from there. A run
that was killed is simply started again.

Records that are older than the youngest by more than the time cannot be compared any more: Spark
drops them, and the report says how many.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.client.metadata import Cluster
from broker.codec.packages import needed
from broker.model.address import parse_addresses
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ConfigError
from broker.model.limits import DEDUPE_BATCH_RECORDS
from broker.model.report import Report
from broker.pipeline.schema import TIMESTAMP_AS_IT_WAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_HEADER: Final = "header:"
_KEPT: Final = "kept"  # the folder of the checkpoint with a folder per batch
_LOOK_SECONDS: Final = 2  # Spark remembers the numbers of its last hundred batches
_IDENTITIES: Final = {"key": "key", "value": "value", "key+value": "struct(key, value)"}


class DedupeOptions(NamedTuple):
    """What to clean.

    Attributes:
        bootstrap: brokers to begin with, HOST:PORT,HOST:PORT.
        source: the topic that is read, from its beginning.
        target: the topic that is written; it has to be there.
        by: "key", "value", "key+value" or "header:NAME".
        within: how far apart in time two copies may be, as Spark writes it: "1 hour".
        checkpoint: a folder where the run keeps what it has seen.
        batch_records: how many offsets are a batch.
    """

    bootstrap: str
    source: str
    target: str
    by: str
    within: str
    checkpoint: Path
    batch_records: int = DEDUPE_BATCH_RECORDS


def dedupe(
    spark: "SparkSession",
    options: DedupeOptions,
    *,
    progress: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> Report:
    """Bring the target up to the end that the source has now.

    Returns:
        Totals: records read, written, left out as copies, dropped as too old.

    Raises:
        ConfigError: an identity or a time that is none; source and target are one.
        RequestError, Unreachable: the broker; a topic is not there.
        MarkerMismatch: the checkpoint is older than what was written.
    """
    clock = clock or SystemClock()
    begun = clock.monotonic_ms()
    identity = identity_of(options.by)
    if options.source == options.target:
        raise ConfigError(f"topic {options.source!r} cannot be cleaned into itself: name another")
    cluster = Cluster(parse_addresses(options.bootstrap))
    topics = cluster.topics([options.source, options.target])
    keeps = len(topics[options.source].partitions) <= len(topics[options.target].partitions)
    counts = _Counts(progress)
    records = _first_of_each(_stream(spark, options), identity, options.within)
    query = _start(records, options, counts, keeps_partitions=keeps)
    read: dict[int, int] = {}
    late: dict[int, int] = {}
    try:
        while not query.awaitTermination(_LOOK_SECONDS):
            _look(query, read, late)
    finally:
        query.stop()
    _look(query, read, late)
    dropped = sum(late.values())
    totals = {
        "source": options.source,
        "target": options.target,
        "records read": sum(read.values()),
        "records written": counts.written,
        "copies left out": sum(read.values()) - counts.written - dropped,
        "too old to compare": dropped,
        "batches": counts.batches,
        "seconds": (clock.monotonic_ms() - begun) / 1000,
    }
    problems = []
    if dropped:
        problems.append(
            f"{dropped} records were dropped: they are older than the youngest by more than"
            f" {options.within}; use a longer time with a new checkpoint and a new target"
        )
    return Report((), [], totals, problems)


def identity_of(by: str) -> str:
    """Return the expression of SQL that two copies have in common.

    Raises:
        ConfigError: it is none of those that there are.
    """
    if by.startswith(_HEADER) and len(by) > len(_HEADER):
        name = by.removeprefix(_HEADER).replace("\\", "\\\\").replace("'", "\\'")
        return f"try_element_at(filter(headers, each -> each.key = '{name}'), 1).value"
    if by not in _IDENTITIES:
        raise ConfigError(
            f"identity {by!r}: expected one of {', '.join(_IDENTITIES)}, {_HEADER}NAME"
        )
    return _IDENTITIES[by]


class _Counts:
    """What the batches of this run have written."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self.written = self.batches = 0
        self._progress = progress

    def add(self, batch_id: int, records: int) -> None:
        self.written += records
        self.batches += 1
        self._progress(f"batch {batch_id}: {records} records")


def _stream(spark: "SparkSession", options: DedupeOptions) -> "DataFrame":
    return (
        spark.readStream.format("polylog")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("subscribe", options.source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", str(options.batch_records))
        .load()
        .selectExpr("* EXCEPT (timestamp)", TIMESTAMP_AS_IT_WAS)
    )


def _first_of_each(records: "DataFrame", identity: str, within: str) -> "DataFrame":
    errors = needed("pyspark.errors", "a dedupe")
    try:
        watched = records.withWatermark("timestamp", within)
    except (errors.AnalysisException, errors.ParseException) as error:
        raise ConfigError(f"time {within!r}: {error}") from error
    # Null is equal to null there: what has no identity gets one of its own.
    own = f"if(({identity}) IS NULL, concat(partition, '-', offset), NULL)"
    named = watched.selectExpr("*", f"{identity} AS _identity", f"{own} AS _own")
    return named.dropDuplicatesWithinWatermark(["_identity", "_own"])


def _start(
    records: "DataFrame",
    options: DedupeOptions,
    counts: _Counts,
    *,
    keeps_partitions: bool,
) -> "StreamingQuery":
    spark = records.sparkSession
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    columns = ["key", "value", "headers", "timestamp"]
    if keeps_partitions:
        columns.append("partition")

    def write(batch: "DataFrame", batch_id: int) -> None:
        # The query's id is the checkpoint's: it is the same when the run is started again.
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if not query_id:
            raise ConfigError("Spark does not say which query this is (sql.streaming.queryId)")
        kept = _kept(batch, batch_id, options.checkpoint / _KEPT)
        ordered = kept.repartition(tasks, "partition").sortWithinPartitions("partition", "offset")
        (
            ordered.select(*columns)
            .write.format("polylog")
            .mode("append")
            .option("kafka.bootstrap.servers", options.bootstrap)
            .option("topic", options.target)
            .option("delivery", "exactly-once")
            .option("writeId", f"dedupe-{query_id}")
            .option("writeBatch", str(batch_id))
            .option("tasks", str(tasks))
            .save()
        )
        counts.add(batch_id, kept.count())

    return (
        records.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(options.checkpoint / "query"))
        .trigger(availableNow=True)
        .start()
    )


def _kept(batch: "DataFrame", batch_id: int, folder: Path) -> "DataFrame":
    """Return what the first run of a batch has kept, whichever run this is."""
    final = folder / str(batch_id)
    if final.exists():
        # What was seen is to be known again, whichever of the copies are kept this time: Spark ends
        # a query whose batch has not been through its state.
        batch.write.format("noop").mode("overwrite").save()
    else:
        draft = folder / f"draft-{batch_id}"
        batch.drop("_identity", "_own").write.mode("overwrite").parquet(str(draft))
        draft.rename(final)
    for each in folder.iterdir():
        # What came before is written, or this one would not have been begun.
        if each.name.isdecimal() and int(each.name) < batch_id:
            shutil.rmtree(each)
    return batch.sparkSession.read.parquet(str(final))


def _look(query: "StreamingQuery", read: dict[int, int], late: dict[int, int]) -> None:
    """Note for each batch how many rows were read, and how many of them came too late."""
    for each in query.recentProgress:
        read[each["batchId"]] = each["numInputRows"]
        late[each["batchId"]] = sum(
            operator["numRowsDroppedByWatermark"] for operator in each["stateOperators"]
        )
