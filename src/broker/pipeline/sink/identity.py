"""Identifies the query, batch and plan of a task.

Spark runs a failed batch again with the same query id and batch id, which are local properties of
the job. They are not part of Spark's public interface, so exactly-once delivery must fail if they
are missing.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from broker.model.errors import ConfigError
from broker.pipeline.sink.options import SinkOptions

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
# Settings that affect the division of rows into tasks.
PLANNING: Final = (
    "spark.default.parallelism",
    "spark.sql.adaptive.enabled",
    "spark.sql.adaptive.coalescePartitions.enabled",
    "spark.sql.execution.sortBeforeRepartition",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.minPartitionNum",
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.internal.stateStore.partitions",
)
# In addition a local master, whose cores are the default number of tasks of a source. The address
# of a cluster has no effect: a query may move to another cluster between two attempts.
MASTER: Final = "spark.master"
_LOCAL: Final = "local"
_HASH_BYTES = 8


class Batch(NamedTuple):
    """A batch of a query, repeated until it is written.

    Attributes:
        query: the id of the stream's checkpoint, or the writeId.
        number: the batch id in the query.
        tasks: the number of tasks; None: unknown.
        plan: a hash of everything that determines the rows of each task.
    """

    query: str
    number: int
    tasks: int | None
    plan: str


def batch_of(
    options: SinkOptions,
    columns: Mapping[str, str],
    property_of: Callable[[str], str | None],
    *,
    is_stream: bool,
) -> Batch:
    """Return the batch of a task.

    Args:
        options: of the sink.
        columns: names and types of the rows.
        property_of: returns a local property of Spark.
        is_stream: whether Spark numbers the batches; otherwise the options number them.

    Raises:
        ConfigError: the property with the batch id, or the option writeId, is missing.
    """
    plan = _plan(options, columns, property_of)
    if not is_stream:
        if options.write_id is None:
            raise ConfigError(
                "delivery=exactly-once of a batch job needs option writeId, a name that is the same"
                " when the job is run again, and unique among jobs"
            )
        return Batch(options.write_id, options.write_batch, options.tasks, plan)
    query, number = property_of(QUERY_ID), property_of(BATCH_ID)
    if not query or number is None or not number.isdecimal():
        raise ConfigError(
            f"Spark does not set the id of the batch ({QUERY_ID}={query!r}, {BATCH_ID}={number!r}):"
            " without it rows cannot be written exactly once; delivery=at-least-once needs neither"
        )
    return Batch(query, int(number), options.tasks, plan)


def _plan(
    options: SinkOptions,
    columns: Mapping[str, str],
    property_of: Callable[[str], str | None],
) -> str:
    settings = {name: property_of(name) for name in PLANNING}
    master = property_of(MASTER) or ""
    if master.startswith(_LOCAL):
        settings[MASTER] = master
    determining = {"columns": list(columns.items()), "topic": options.topic, "settings": settings}
    text = json.dumps(determining, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).hexdigest()
