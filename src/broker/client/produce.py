"""Encoded batches to the leaders of their partitions, each exactly once.

A batch of a producer id carries its sequence number, so a leader recognises it when it is sent
again: a request whose answer was lost is simply repeated, whatever became of it. One request is on
its way to a leader at a time, with one batch per partition, as the protocol asks for.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker import codec
from broker.client.metadata import Cluster, by_leader
from broker.client.offsets import Partition
from broker.client.retry import check, patiently
from broker.client.transactions import ProducerId
from broker.model.address import Address
from broker.model.errors import RequestError, Unreachable
from broker.model.limits import CLIENT_PRODUCE_BYTES, CLIENT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from broker.codec import Fields

_VERSIONS = range(3, 10)  # 3: batches of magic 2; from 13 on topics have ids instead of names
_ALL_REPLICAS = -1
_SEQUENCE_END: Final = 1 << 31
_OFFSET_0: Final = bytes(8)  # the first field of a batch
_DUPLICATE: Final = codec.error_named("DUPLICATE_SEQUENCE_NUMBER").code


class Written(NamedTuple):
    """Where a batch went; base_offset is -1 where it had been written before and nobody knows."""

    partition: Partition
    base_offset: int


class Sequences:
    """The number that the next record of a producer has in each partition."""

    def __init__(self) -> None:
        """Begin with 0 everywhere: a new producer id, or a new epoch of it."""
        self._next: dict[Partition, int] = {}

    def take(self, partition: Partition, count: int) -> int:
        """Return the number of the next record, and count so many records on."""
        first = self._next.get(partition, 0)
        self._next[partition] = (first + count) % _SEQUENCE_END
        return first


class Producer:
    """What one producer id writes; not for several threads.

    Attributes:
        producer: what the batches have to carry.
        sequences: likewise.
        transactional_id: of the transaction that the batches belong to; None: of none.
    """

    def __init__(
        self, cluster: Cluster, producer: ProducerId, transactional_id: str | None = None
    ) -> None:
        """Keep whom to be; nothing is sent yet."""
        self.producer = producer
        self.sequences = Sequences()
        self.transactional_id = transactional_id
        self._cluster = cluster

    def send(self, batches: Mapping[Partition, Sequence[bytes]]) -> list[Written]:
        """Write batches, those of a partition in their order, and wait until all are safe.

        Args:
            batches: whole record batches, as `codec.encode` makes them, per topic and partition.

        Raises:
            RequestError: a leader refuses a batch; the message names address and partition. Some
                of the others may be written.
            Unreachable: a leader does not answer for as long as the cluster's patience goes.
        """
        written: list[Written] = []
        for turn in _turns(batches):
            written += self._send_turn(turn)
        return written

    def _send_turn(self, batches: dict[Partition, bytes]) -> list[Written]:
        """Send at most one batch per partition, again and again what has failed."""
        left = dict(batches)
        written: list[Written] = []

        def once() -> None:
            try:
                for address, partitions in by_leader(self._cluster, list(left)):
                    for each in self._ask(address, {key: left[key] for key in partitions}):
                        written.append(each)
                        del left[each.partition]
            except (RequestError, Unreachable):
                for topic in {topic for topic, _ in left}:
                    self._cluster.forget_leaders(topic)
                raise

        patiently(once, give_up_seconds=self._cluster.give_up_seconds)
        return written

    def _ask(self, address: Address, batches: dict[Partition, bytes]) -> Iterator[Written]:
        """Yield what was written; then raise if something was not."""
        body: Fields = {
            "transactional_id": self.transactional_id,
            "acks": _ALL_REPLICAS,
            "timeout_ms": CLIENT_TIMEOUT_SECONDS * 1000,
            "topic_data": [
                {
                    "name": name,
                    "partition_data": [
                        {"index": number, "records": records}
                        for (topic, number), records in batches.items()
                        if topic == name
                    ],
                }
                for name in dict.fromkeys(topic for topic, _ in batches)
            ],
        }
        with self._cluster.lease(address) as client:
            answer = client.request("Produce", client.version("Produce", _VERSIONS), body)
        refused: list[tuple[Partition, Fields]] = []
        for topic in answer["responses"]:
            for each in topic["partition_responses"]:
                partition = topic["name"], each["index"]
                if each["error_code"] in {0, _DUPLICATE}:
                    yield Written(partition, each["base_offset"])
                else:
                    refused.append((partition, each))
        for (name, number), each in refused:
            text = f": {each['error_message']}" if each["error_message"] else ""
            check(each["error_code"], f"{address}: a batch for {name}-{number}{text}")


def _turns(batches: Mapping[Partition, Sequence[bytes]]) -> Iterator[dict[Partition, bytes]]:
    """Deal the batches out to requests: one per partition, no more bytes than one should have."""
    queues = {key: list(reversed(value)) for key, value in batches.items() if value}
    while queues:
        turn: dict[Partition, bytes] = {}
        size = 0
        for key in list(queues):
            if turn and size + len(queues[key][-1]) > CLIENT_PRODUCE_BYTES:
                yield turn
                turn, size = {}, 0
            turn[key] = _from_offset_0(queues[key].pop())
            size += len(turn[key])
            if not queues[key]:
                del queues[key]
        yield turn


def _from_offset_0(batch: bytes) -> bytes:
    """Return a batch whose base offset, which no CRC covers, is 0: Kafka refuses any other."""
    return batch if batch.startswith(_OFFSET_0) else _OFFSET_0 + batch[len(_OFFSET_0) :]
