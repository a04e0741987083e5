"""Which task this is: of which batch of which query, and of which plan.

Spark runs a batch that failed again under the same query id and batch id; both come as local
properties of the job. They are not part of Spark's public interface, so that they are missing must
be an error wherever rows are to be written exactly once.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from broker.model.errors import ConfigError
from broker.pipeline.sink.options import SinkOptions

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
# Settings by which Spark decides how rows fall into tasks.
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
# Besides, a local master: its cores are the default for how many tasks a source has. Which cluster
# it is decides nothing: a query may move from one to another between two attempts.
MASTER: Final = "spark.master"
_LOCAL: Final = "local"
_HASH_BYTES = 8


class Batch(NamedTuple):
    """What one run of a query writes, again and again until it is written.

    Attributes:
        query: the id of the stream's checkpoint, or the writeId.
        number: which batch of the query.
        tasks: how many tasks it has; None: nobody has said.
        plan: a hash of what decides which rows a task has.
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
    """Return which batch a task belongs to.

    Args:
        options: of the sink.
        columns: names and types of the rows.
        property_of: Spark's local properties.
        is_stream: whether Spark numbers the batches; else the job says which of its own this is.

    Raises:
        ConfigError: the property is missing that says which batch this is, or the writeId is.
    """
    plan = _plan(options, columns, property_of)
    if not is_stream:
        if options.write_id is None:
            raise ConfigError(
                "delivery=exactly-once of a batch job needs option writeId, a name that is the same"
                " when the job is run again, and another for every other job"
            )
        return Batch(options.write_id, options.write_batch, options.tasks, plan)
    query, number = property_of(QUERY_ID), property_of(BATCH_ID)
    if not query or number is None or not number.isdecimal():
        raise ConfigError(
            f"Spark does not say which batch this is ({QUERY_ID}={query!r}, {BATCH_ID}={number!r}):"
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
    deciding = {"columns": list(columns.items()), "topic": options.topic, "settings": settings}
    text = json.dumps(deciding, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).hexdigest()
