"""A topic full of records, sent as fast as a broker takes them."""

from collections.abc import Iterator

from broker import codec
from broker.client.connection import Client
from broker.client.retry import check
from broker.model.address import Address

_BATCH_BYTES = 512 << 10
_CREATE_TOPICS_VERSION, _PRODUCE_VERSION = 5, 9
_TIMEOUT_MS = 60_000


def fill(address: Address, topic: str, *, partitions: int, records: int, size: int) -> int:
    """Make a topic and write records with values of so many bytes; return how many there are."""
    with Client(address) as client:
        wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
        body: codec.Fields = {"topics": [wanted], "timeout_ms": _TIMEOUT_MS}
        answer = client.request("CreateTopics", _CREATE_TOPICS_VERSION, body)
        check(answer["topics"][0]["error_code"], f"{address}: {topic}")
        [batch], count = _batch(size)
        rounds = max(records // (count * partitions), 1)
        for _ in range(rounds):
            for partition in range(partitions):
                _produce(client, topic, partition, batch)
    return rounds * count * partitions


def _batch(size: int) -> tuple[list[bytes], int]:
    count = _BATCH_BYTES // (size + 10)
    values = [bytes([32 + (place + each) % 90 for each in range(size)]) for place in range(count)]
    return codec.encode(values, batch_bytes_max=2 * _BATCH_BYTES, timestamp_ms=None), count


def _produce(client: Client, topic: str, partition: int, batch: bytes) -> None:
    answer = client.request(
        "Produce",
        _PRODUCE_VERSION,
        {
            "acks": -1,
            "timeout_ms": _TIMEOUT_MS,
            "topic_data": [
                {"name": topic, "partition_data": [{"index": partition, "records": batch}]}
            ],
        },
    )
    for code in _codes(answer):
        check(code, f"{client.address}: {topic}-{partition}")


def _codes(answer: codec.Fields) -> Iterator[int]:
    for topic in answer["responses"]:
        for each in topic["partition_responses"]:
            yield each["error_code"]
