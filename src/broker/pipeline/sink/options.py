"""What the user of the sink asks for, out of the table of options."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from broker.client.metadata import Cluster
from broker.model.address import Address, parse_addresses
from broker.model.errors import ConfigError
from broker.pipeline.options import NO_OPTIONS, Use, parse

EXACTLY_ONCE: Final = "exactly-once"


class SinkOptions(NamedTuple):
    """The options of the sink, by the user's names in the comments.

    Attributes:
        bootstrap: brokers to begin with.
        client_id: what brokers know the tasks by.
        topic: where all rows go; None: where their column says.
        is_exactly_once: whether tasks are transactions with markers.
        write_id: what a batch job is known by, when it is run again.
        write_batch: which part of the job this is, of several that are written one by one.
        tasks: how many tasks a batch has; None: not said.
        marker_topic: where the markers are.
        compression: of batches.
        batch_bytes_max: no batch is larger.
        transaction_ms: the coordinator aborts a task that takes longer.
        give_up_ms: how long a broker that does not answer is waited for.
        ignores_extra_columns: whether columns that no record has are left out.
        tunes_worker: whether tasks may change settings of the process that they run in.
        rows_per_second: of each task; None: as fast as it goes.
    """

    bootstrap: tuple[Address, ...]  # kafka.bootstrap.servers
    client_id: str  # kafka.client.id
    topic: str | None  # topic
    is_exactly_once: bool  # delivery
    write_id: str | None  # writeId
    write_batch: int  # writeBatch
    tasks: int | None  # tasks
    marker_topic: str  # markerTopic
    compression: str  # kafka.compression.type
    batch_bytes_max: int  # kafka.max.request.size
    transaction_ms: int  # kafka.transaction.timeout.ms
    give_up_ms: int  # kafka.delivery.timeout.ms
    ignores_extra_columns: bool  # extraColumns
    tunes_worker: bool  # tuneWorkers
    rows_per_second: int | None  # maxRowsPerSecondPerTask

    @classmethod
    def of(cls, options: Mapping[str, str], *, is_stream: bool) -> Self:
        """Read the options as Spark hands them over: names in any case, values as text.

        Raises:
            ConfigError: one is missing, unknown, or has a value that it cannot have.
        """
        given = parse(options, Use.STREAM_WRITE if is_stream else Use.WRITE)
        servers = given["kafka.bootstrap.servers"]
        if not options:
            raise ConfigError(NO_OPTIONS)
        if servers is None:
            raise ConfigError("option kafka.bootstrap.servers is missing: expected HOST:PORT[,…]")
        return cls(
            bootstrap=parse_addresses(servers),
            client_id=given["kafka.client.id"],
            topic=given["topic"],
            is_exactly_once=given["delivery"] == EXACTLY_ONCE,
            write_id=given.get("writeId"),
            write_batch=given.get("writeBatch", 0),
            tasks=given["tasks"],
            marker_topic=given["markerTopic"],
            compression=given["kafka.compression.type"],
            batch_bytes_max=given["kafka.max.request.size"],
            transaction_ms=given["kafka.transaction.timeout.ms"],
            give_up_ms=given["kafka.delivery.timeout.ms"],
            ignores_extra_columns=given["extraColumns"] == "ignore",
            tunes_worker=given["tuneWorkers"],
            rows_per_second=given["maxRowsPerSecondPerTask"],
        )

    def cluster(self, give_up_ms: int | None = None) -> Cluster:
        """Return the brokers, with the patience that was asked for or another."""
        seconds = (self.give_up_ms if give_up_ms is None else give_up_ms) / 1000
        return Cluster(self.bootstrap, client_id=self.client_id, give_up_seconds=seconds)
