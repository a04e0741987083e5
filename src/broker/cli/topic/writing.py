"""Records on their way to a topic: gathered per partition, each written exactly once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from broker import codec
from broker.client.admin import topic_config
from broker.client.metadata import Cluster, Partition
from broker.client.produce import Producer
from broker.client.transactions import new_producer_id
from broker.model.errors import (
    ConfigError,
    ErrorCode,
    LimitExceeded,
    PolylogError,
    RequestError,
    Unreachable,
)
from broker.model.limits import MESSAGE_BYTES_MAX

ACKS: Final = {"all": -1, "1": 1}
_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_GATHERED_BYTES: Final = 1 << 20
_MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_NOT_IN_SYNC: Final = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
_RECORD_BYTES: Final = 64  # of a record without key and value, about

Record = tuple[bytes | None, bytes | None, Any, int | None]  # key, value, headers, timestamp


def compression_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add -z, which it takes as `compression`."""
    return click.option(
        "-z",
        "--compression",
        type=click.Choice(_COMPRESSIONS),
        default="none",
        help="Compress batches (default: none).",
    )(function)


class Writer:
    """Writes records to one topic.

    Attributes:
        written: how many were acknowledged.
        written_bytes: of their batches.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: int,
        *,
        compression: str = "none",
        acks: str = "all",
        on_offset: Callable[[int, int], None] | None = None,
    ) -> None:
        """Ask for a producer id; on_offset is called with partition and offset of each record."""
        self.written = 0
        self.written_bytes = 0
        self._topic = topic
        self._partitions = partitions
        self._compression = compression
        self._acks = ACKS[acks]
        self._on_offset = on_offset
        self._producer = Producer(cluster, new_producer_id(cluster))
        self._batch_bytes_max = _batch_bytes_max(cluster, topic)
        self._gathered: dict[int, list[Record]] = {}
        self._size = 0
        self._sticky = 0

    def add(self, record: Record, partition: int | None = None) -> None:
        """Take a record; it is written with others, or by `flush`.

        Raises:
            RequestError, Unreachable: as Producer.send, about this one or one before.
        """
        key, value, _, _ = record
        if partition is None:
            partition = self._sticky if key is None else codec.partition(key, self._partitions)
        elif not 0 <= partition < self._partitions:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{self._topic} has no partition {partition}: it has {self._partitions}",
            )
        self._gathered.setdefault(partition, []).append(record)
        self._size += len(key or b"") + len(value or b"") + _RECORD_BYTES
        if self._size >= _GATHERED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered; RequestError, Unreachable as `add`."""
        if not self._gathered:
            return
        try:
            batches = self._encoded()
        except LimitExceeded as error:
            raise LimitExceeded(
                f"a record is too large: {error.reason}: raise it with `broker topic alter"
                f" {self._topic} --config {_MAX_MESSAGE_BYTES}=BYTES`"
            ) from None
        self._gathered, self._size = {}, 0
        # Records without a key stay together until they are written, as in Kafka's producer.
        self._sticky = (self._sticky + 1) % self._partitions
        self._producer.send(batches, acks=self._acks, on_written=self._note)

    def _encoded(self) -> dict[Partition, list[bytes]]:
        return {
            (self._topic, partition): self._producer.encode(
                (self._topic, partition),
                records,
                compression=self._compression,
                batch_bytes_max=self._batch_bytes_max,
            )
            for partition, records in self._gathered.items()
        }

    def _note(self, partition: Partition, batch: bytes, base_offset: int) -> None:
        [header] = codec.scan_headers(batch)
        self.written += header.record_count
        self.written_bytes += len(batch)
        if self._on_offset is not None:
            for index in range(header.record_count):
                self._on_offset(partition[1], base_offset + index if base_offset >= 0 else -1)


def _batch_bytes_max(cluster: Cluster, topic: str) -> int:
    """Return the size of a batch that a topic takes; the default if it is not for this user."""
    try:
        found = topic_config(cluster, topic, _MAX_MESSAGE_BYTES)
    except RequestError:
        found = None
    return MESSAGE_BYTES_MAX if found is None else int(found)


@contextmanager
def input_of(writer: Writer) -> Iterator[None]:
    """Say what to do, and how many records were written before the one that fails in a block.

    Raises:
        PolylogError: a record is invalid and others were written; ConfigError would mean that
            nothing was done.
        RequestError, Unreachable: as Writer.add.
    """
    try:
        yield
    except (ConfigError, LimitExceeded, RequestError, Unreachable) as error:
        text = str(error)
        if isinstance(error, RequestError) and error.code in _NOT_IN_SYNC:
            text += (
                ": `broker cluster health` says which replicas are missing, or which disk is full"
            )
        if writer.written:
            text += f"; the {writer.written:,} records before it were written"
        if isinstance(error, RequestError):
            raise RequestError(error.code, text) from None
        is_invalid = isinstance(error, ConfigError | LimitExceeded)
        kind = type(error) if not is_invalid else PolylogError if writer.written else ConfigError
        raise kind(text) from None
