"""The batches of a producer, and their way to the leaders of their partitions, each exactly once.

A batch contains its producer id and sequence number, so a leader recognises it when it is sent
again: a request without a response is repeated, whether it was served or not. There is one request
in flight to a leader, with one batch per partition, as the protocol requires.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from broker import codec
from broker.client.connection import Api
from broker.client.metadata import Cluster, Partition, by_topic
from broker.client.retry import check
from broker.client.transactions import ProducerId
from broker.model.address import Address
from broker.model.limits import CLIENT_PRODUCE_BYTES, CLIENT_TIMEOUT_SECONDS, MESSAGE_BYTES_MAX

if TYPE_CHECKING:
    import pyarrow as pa

    from broker.codec import bodies
    from broker.codec.encoding import Row

# Since version 3 batches have magic 2; since 13 topics have ids, not names.
_PRODUCE: "Api[bodies.ProduceRequest, bodies.ProduceResponse]" = Api("Produce", range(3, 10))
_ALL_REPLICAS = -1
_SEQUENCE_END: Final = 1 << 31
_OFFSET_0: Final = bytes(8)  # the first field of a batch
_DUPLICATE: Final = codec.error_named("DUPLICATE_SEQUENCE_NUMBER").code


class Producer:
    """A producer; not thread-safe.

    Attributes:
        producer: the producer id and epoch of its batches.
        next_sequences: the sequence number of the next record in each partition; 0 if missing.
        transactional_id: of the transaction that the batches belong to; None: no transaction.
    """

    def __init__(
        self, cluster: Cluster, producer: ProducerId, transactional_id: str | None = None
    ) -> None:
        """Keep the producer id without sending anything."""
        self.producer = producer
        self.transactional_id = transactional_id
        self._cluster = cluster
        self.next_sequences: dict[Partition, int] = {}

    def encode(
        self,
        partition: Partition,
        records: "Sequence[Row] | pa.RecordBatch",
        *,
        compression: str = "none",
        batch_bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> list[bytes]:
        """Return records of one partition as batches, to be sent in this order.

        Args:
            partition: topic and number.
            records: see codec.encode.
            compression: the same.
            batch_bytes_max: the same.

        Raises:
            LimitExceeded: a record does not fit into a batch.
        """
        sequence = self.next_sequences.get(partition, 0)
        self.next_sequences[partition] = (sequence + len(records)) % _SEQUENCE_END
        return codec.encode(
            records,
            compression=compression,
            batch_bytes_max=batch_bytes_max,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
            is_transactional=self.transactional_id is not None,
        )

    def send(
        self,
        batches: Mapping[Partition, Sequence[bytes]],
        *,
        acks: int = _ALL_REPLICAS,
        on_written: Callable[[Partition, bytes, int], None] | None = None,
    ) -> None:
        """Write batches, in order within a partition, and wait until all are acknowledged.

        Args:
            batches: whole record batches, as `codec.encode` makes them, per topic and partition.
            acks: -1: all replicas in sync have them; 1: the leader has them.
            on_written: called with partition, batch and the offset of its first record, which is
                -1 if the leader has recognised a repetition and does not know the offset.

        Raises:
            RequestError: a leader refuses a batch; the message names address and partition. Some
                of the others may be written.
            Unreachable: a leader does not respond within the cluster's `give_up_seconds`.
        """
        for each in _rounds(batches):
            self._send_round(each, acks, on_written or _ignore)

    def _send_round(
        self,
        left: dict[Partition, bytes],
        acks: int,
        on_written: Callable[[Partition, bytes, int], None],
    ) -> None:
        """Send at most one batch per partition; retry those that fail."""

        def body(partitions: list[Partition]) -> "bodies.ProduceRequest":
            return {
                "transactional_id": self.transactional_id,
                "acks": acks,
                "timeout_ms": CLIENT_TIMEOUT_SECONDS * 1000,
                "topic_data": [
                    {
                        "name": name,
                        "partition_data": [
                            {"index": each, "records": left[name, each]} for each in numbers
                        ],
                    }
                    for name, numbers in by_topic(partitions).items()
                ],
            }

        def read(address: Address, answer: "bodies.ProduceResponse") -> None:
            refused: list[tuple[Partition, bodies.ProduceResponsePartitionResponse]] = []
            for topic in answer["responses"]:
                for each in topic["partition_responses"]:
                    partition = topic["name"], each["index"]
                    if each["error_code"] in {0, _DUPLICATE}:
                        on_written(partition, left.pop(partition), each["base_offset"])
                    else:
                        refused.append((partition, each))
            for (name, number), each in refused:
                text = f": {each['error_message']}" if each["error_message"] else ""
                check(each["error_code"], f"{address}: a batch for {name}-{number}{text}")

        self._cluster.ask_leaders(left, _PRODUCE, body, read)


def _ignore(partition: Partition, batch: bytes, base_offset: int) -> None:
    """Note nothing."""


def _rounds(batches: Mapping[Partition, Sequence[bytes]]) -> Iterator[dict[Partition, bytes]]:
    """Split batches into rounds of one per partition and at most CLIENT_PRODUCE_BYTES."""
    queues = {key: list(reversed(value)) for key, value in batches.items() if value}
    while queues:
        round_: dict[Partition, bytes] = {}
        size = 0
        for key in list(queues):
            if round_ and size + len(queues[key][-1]) > CLIENT_PRODUCE_BYTES:
                yield round_
                round_, size = {}, 0
            round_[key] = _from_offset_0(queues[key].pop())
            size += len(round_[key])
            if not queues[key]:
                del queues[key]
        yield round_


def _from_offset_0(batch: bytes) -> bytes:
    """Return the batch with base offset 0, because Kafka refuses others; the CRC excludes it."""
    return batch if batch.startswith(_OFFSET_0) else _OFFSET_0 + batch[len(_OFFSET_0) :]
