"""Rows from Spark → record batches of partitions."""

from typing import Any

import pyarrow as pa
import pytest

from broker import codec
from broker.client.metadata import Cluster
from broker.client.produce import Producer
from broker.client.transactions import ProducerId
from broker.model.errors import SchemaMismatch
from broker.pipeline.sink.rows import Chunk, Digest, Partitioner, chunks

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows(**columns: list[Any]) -> pa.RecordBatch:
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "headers": HEADERS,
    }
    return pa.record_batch({name: pa.array(each, types[name]) for name, each in columns.items()})


def split(chunk: pa.RecordBatch, topic: str | None = "t", count: int = 4) -> dict[Any, list[bytes]]:
    partitioner = Partitioner(topic, lambda _: count, 0)
    return {
        part.partition: part.rows.column("value").to_pylist() for part in partitioner.split(chunk)
    }


def test_a_row_is_written_to_the_partition_of_its_key_as_with_kafka_clients() -> None:
    keys = [b"%d" % each for each in range(100)]

    found = split(rows(key=keys, value=keys))

    expected: dict[tuple[str, int], list[bytes]] = {}
    for key in keys:
        expected.setdefault(("t", codec.partition(key, 4)), []).append(key)
    assert found == expected  # and in their order


def test_a_partition_column_takes_precedence_over_the_key() -> None:
    found = split(rows(key=[b"a", b"a"], value=[b"1", b"2"], partition=[3, None]))

    assert found == {("t", 3): [b"1"], ("t", codec.partition(b"a", 4)): [b"2"]}


def test_rows_without_a_key_stay_together_and_pieces_are_distributed_round_robin() -> None:
    partitioner = Partitioner("t", lambda _: 3, 0)
    chunk = rows(key=[None, None], value=[b"1", b"2"])

    parts = [list(partitioner.split(chunk)) for _ in range(4)]

    assert [[part.partition[1] for part in each] for each in parts] == [[1], [2], [0], [1]]


def test_rows_are_written_to_the_topics_they_name() -> None:
    found = split(rows(value=[b"1", b"2", b"3"], topic=["a", "b", "a"]), None, 1)

    assert found == {("a", 0): [b"1", b"3"], ("b", 0): [b"2"]}


def test_the_topic_option_takes_precedence_over_the_column() -> None:
    assert split(rows(value=[b"1"], topic=["a"]), "t", 1) == {("t", 0): [b"1"]}


def test_a_row_without_topic_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="1 rows have no topic"):
        split(rows(value=[b"1", b"2"], topic=["a", None]), None)


@pytest.mark.parametrize("partition", [4, -1])
def test_a_partition_that_the_topic_does_not_have_is_refused(partition: int) -> None:
    with pytest.raises(SchemaMismatch, match=f"partition {partition}"):
        split(rows(value=[b"1", b"2"], partition=[0, partition]))


def test_a_record_has_the_key_value_headers_and_timestamp_of_its_row() -> None:
    when = 1_700_000_000_123
    chunk = rows(
        key=[b"k"],
        value=[None],
        headers=[[{"key": "h", "value": b"1"}]],
        timestamp=[when * 1000],
        offset=[77],
    )
    producer = Producer(Cluster([]), ProducerId(9, 2), "q-0")

    [part] = Partitioner("t", lambda _: 1, 0).split(chunk)
    [first], [second] = producer.encode(*part), producer.encode(*part)

    [record] = codec.records(first)
    assert (record.key, record.value, record.headers) == (b"k", None, [(b"h", b"1")])
    assert (record.timestamp, record.offset) == (when, 0)
    header, after = codec.scan_headers(first)[0], codec.scan_headers(second)[0]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 0)
    assert header.attributes == 0x10  # transactional
    assert after.base_sequence == 1


def test_batches_stay_within_their_limit_and_continue_the_sequence() -> None:
    producer = Producer(Cluster([]), ProducerId(9, 0))

    found = producer.encode(("t", 0), rows(value=[b"x" * 100] * 10), batch_bytes_max=500)

    assert len(found) > 1
    assert all(len(each) <= 500 for each in found)
    headers = [codec.scan_headers(each)[0] for each in found]
    starts = [sum(each.record_count for each in headers[:at]) for at in range(len(headers))]
    assert [each.base_sequence for each in headers] == starts


def test_a_digest_is_independent_of_row_order_and_depends_on_the_rows() -> None:
    def digest(*chunks: pa.RecordBatch) -> tuple[int, str]:
        found = Digest()
        for chunk in chunks:
            found.add(chunk)
        return found.rows, found.hexdigest()

    a, b = rows(key=[b"1"], value=[b"a"]), rows(key=[None], value=[b"b"])
    both = rows(key=[None, b"1"], value=[b"b", b"a"])

    assert digest(a, b) == digest(both)
    assert digest(a) != digest(rows(key=[b"a"], value=[b"1"]))
    assert digest(a) != digest(rows(key=[b"2"], value=[b"a"]))
    assert digest(a, a)[1] != digest()[1]


def test_chunks_from_spark_are_joined_until_they_fill_a_request() -> None:
    batch = rows(value=[b"x" * 96] * 10)
    size = batch.nbytes

    found = list(chunks(iter([batch] * 5), bytes_max=2 * size, rows_max=None))

    assert sizes(found) == [[10, 10], [10, 10], [10]]


def test_chunks_have_at_most_the_given_number_of_rows_and_are_not_empty() -> None:
    batches = [rows(value=[]), rows(value=[b"1"] * 10), rows(value=[])]

    found = list(chunks(iter(batches), bytes_max=1 << 20, rows_max=4))

    assert sizes(found) == [[4], [4], [2]]


def sizes(found: list[Chunk]) -> list[list[int]]:
    return [[each.num_rows for each in chunk] for chunk in found]


def test_rows_without_keys_are_split_and_joined_into_pieces_of_a_size() -> None:
    partitioner = Partitioner("t", lambda _: 3, 0)
    batches = [rows(value=[b"x" * 96] * count) for count in (3, 3, 25, 1)]
    chunk: Chunk = batches

    pieces = list(partitioner.pieces(chunk, 1000))

    assert [each.num_rows for each in pieces] == [6, 9, 9, 7, 1]
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches(batches))


@pytest.mark.parametrize("name", ["key", "partition", "topic"])
def test_rows_with_their_own_partitions_are_one_piece(name: str) -> None:
    place: dict[str, list[Any]] = {"key": [b"k"], "partition": [1], "topic": ["t"]}
    chunk = [rows(value=[b"x" * 96], **{name: place[name]}) for _ in range(4)]

    [piece] = Partitioner(None, lambda _: 3, 0).pieces(chunk, 100)

    assert piece.num_rows == 4
