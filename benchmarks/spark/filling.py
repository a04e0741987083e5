"""Creates, fills, counts and deletes topics of a benchmark."""

import random
from typing import Final

from benchmarks.end_to_end.targets import BenchmarkError
from broker import codec
from broker.client.admin import create_topic
from broker.client.connection import Client
from broker.client.metadata import Cluster
from broker.client.offsets import LATEST, list_offsets
from broker.client.produce import Producer
from broker.client.retry import check
from broker.client.transactions import ProducerId
from broker.model.address import Address

_BATCH_BYTES: Final = 512 << 10
_DIFFERENT: Final = 8  # batches, so that Parquet's dictionary encoding does not help
_DELETE_TOPICS_VERSION = 5
_NO_PRODUCER_ID: Final = ProducerId(-1, -1)
_TIMEOUT_MS: Final = 60_000
# Dirty pages of a deleted topic must not be written back while others are measured.
_CONFIGS: Final = {"file.delete.delay.ms": "1000"}


def make(address: Address, topic: str, partitions: int) -> None:
    """Create an empty topic."""
    create_topic(Cluster((address,)), topic, partitions, _CONFIGS)


def fill(address: Address, topic: str, *, partitions: int, records: int, size: int) -> int:
    """Create a topic and write records with values of `size` bytes; return their number."""
    make(address, topic, partitions)
    count = max(min(_BATCH_BYTES // (size + 10), records // partitions), 1)
    batches = _batches(size, count)
    rounds = max(records // (count * partitions), 1)
    producer = Producer(Cluster((address,)), _NO_PRODUCER_ID)
    for number in range(rounds):
        for partition in range(partitions):
            producer.send({(topic, partition): [batches[number % len(batches)]]})
    return rounds * count * partitions


def written(address: Address, topic: str, partitions: int) -> int:
    """Return the number of offsets in a topic."""
    wanted = {(topic, each): LATEST for each in range(partitions)}
    return sum(each.offset for each in list_offsets(Cluster((address,)), wanted).values())


def delete(address: Address, topic: str) -> None:
    """Delete a topic."""
    with Client(address) as client:
        body: codec.Fields = {"topic_names": [topic], "timeout_ms": _TIMEOUT_MS}
        answer = client.request("DeleteTopics", _DELETE_TOPICS_VERSION, body)
        check(answer["responses"][0]["error_code"], f"{address}: {topic}")


def _batches(size: int, count: int) -> list[bytes]:
    """Return batches of values that compress to about half."""
    made = random.Random(9)
    found = []
    for _ in range(_DIFFERENT):
        values = [made.randbytes(size // 2).hex().encode() for _ in range(count)]
        encoded = codec.encode(values, batch_bytes_max=2 * _BATCH_BYTES, timestamp_ms=None)
        if len(encoded) != 1:
            raise BenchmarkError(f"{count} values of {size} bytes made {len(encoded)} batches")
        found += encoded
    return found
