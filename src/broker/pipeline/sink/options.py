"""The options of the sink, parsed."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from broker.client.metadata import Cluster
from broker.client.security import SecuritySettings
from broker.model.address import Address, parse_addresses
from broker.model.errors import ConfigError
from broker.pipeline.options import NO_OPTIONS, Use, parse, security_of

EXACTLY_ONCE: Final = "exactly-once"


class SinkOptions(NamedTuple):
    """The options of the sink; comments have their names.

    Attributes:
        bootstrap: bootstrap servers.
        security: TLS and the login; None: neither.
        client_id: the client id of the tasks.
        topic: the topic of all rows; None: that of their column.
        is_exactly_once: whether tasks are transactions with markers.
        write_id: identifies a batch job when it is run again.
        write_batch: the number of this part, if a job is written in several parts.
        tasks: the number of tasks of a batch; None: unknown.
        marker_topic: the topic of the markers.
        compression: of record batches.
        batch_bytes_max: the largest record batch.
        transaction_ms: the transaction timeout of a task.
        give_up_ms: the time to wait for a broker that does not answer.
        ignores_extra_columns: whether columns that a record does not have are ignored.
        tunes_worker: whether tasks may change settings of their worker process.
        rows_per_second: the limit of each task; None: no limit.
    """

    bootstrap: tuple[Address, ...]  # kafka.bootstrap.servers
    security: SecuritySettings | None  # kafka.security.protocol, kafka.ssl.*, kafka.sasl.*
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
    answer_ms: int | None  # kafka.request.timeout.ms
    ignores_extra_columns: bool  # extraColumns
    tunes_worker: bool  # tuneWorkers
    rows_per_second: int | None  # maxRowsPerSecondPerTask

    @classmethod
    def of(cls, options: Mapping[str, str], *, is_stream: bool) -> Self:
        """Parse the options as passed by Spark: names in any case, values as text.

        Raises:
            ConfigError: an option is missing, unknown, or has an invalid value.
        """
        given = parse(options, Use.STREAM_WRITE if is_stream else Use.WRITE)
        servers = given["kafka.bootstrap.servers"]
        if not options:
            raise ConfigError(NO_OPTIONS)
        if servers is None:
            raise ConfigError("option kafka.bootstrap.servers is missing: expected HOST:PORT[,…]")
        return cls(
            bootstrap=parse_addresses(servers),
            security=security_of(given),
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
            answer_ms=given["kafka.request.timeout.ms"],
            ignores_extra_columns=given["extraColumns"] == "ignore",
            tunes_worker=given["tuneWorkers"],
            rows_per_second=given["maxRowsPerSecondPerTask"],
        )

    def cluster(self, give_up_ms: int | None = None) -> Cluster:
        """Return the cluster, with the timeout of the options or another one."""
        seconds = (self.give_up_ms if give_up_ms is None else give_up_ms) / 1000
        return Cluster(
            self.bootstrap,
            client_id=self.client_id,
            give_up_seconds=seconds,
            answer_seconds=self.answer_ms / 1000 if self.answer_ms else None,
            security=self.security,
        )
