"""Decoding and encoding of whole messages, compared with kio (reads in Rust) and kafka-python 3.

A group is one row of the table: all of its members process the same bytes. Times are processor
time. The garbage collector is enabled, since its cost for thousands of new objects is part of a
decode.
"""

import io
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from kafka.protocol.consumer import JoinGroupResponse, OffsetCommitRequest
from kafka.protocol.metadata import MetadataResponse
from kio.schema.join_group.v9.response import JoinGroupResponse as KioJoinGroupResponse
from kio.schema.metadata.v12.response import MetadataResponse as KioMetadataResponse
from kio.schema.offset_commit.v8.request import OffsetCommitRequest as KioOffsetCommitRequest
from kio.serial import entity_reader, entity_writer
from pytest_benchmark.fixture import BenchmarkFixture

from broker.codec import schema
from broker.codec.schema import Fields, Message

pytestmark = pytest.mark.benchmark(timer=time.process_time)

MEMBER_ID = "consumer-{}-8d1c2a0e-1111-2222-3333-444455556666"
METADATA: Fields = {
    "brokers": [
        {
            "node_id": node,
            "host": f"broker-{node}.example.com",
            "port": 9092,
            "rack": f"rack-{node}",
        }
        for node in range(3)
    ],
    "cluster_id": "Xh2Lk3mPQ0aYb1cZd4eFgA",
    "controller_id": 1,
    "topics": [
        {
            "name": f"topic-{topic:03}",
            "topic_id": bytes([topic] * 16),
            "partitions": [
                {
                    "partition_index": index,
                    "leader_id": index % 3,
                    "leader_epoch": 7,
                    "replica_nodes": [index % 3, (index + 1) % 3, (index + 2) % 3],
                    "isr_nodes": [index % 3, (index + 1) % 3, (index + 2) % 3],
                }
                for index in range(8)
            ],
        }
        for topic in range(100)
    ],
}
JOIN_GROUP: Fields = {
    "generation_id": 5,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "leader": MEMBER_ID.format(0),
    "member_id": MEMBER_ID.format(0),
    "members": [
        {
            "member_id": MEMBER_ID.format(member),
            "metadata": b"\0\1\0\0\0\1\0\5topic\xff\xff\xff\xff\0\0\0\0",
        }
        for member in range(50)
    ],
}
OFFSET_COMMIT: Fields = {
    "group_id": "group",
    "generation_id_or_member_epoch": 5,
    "member_id": MEMBER_ID.format(1),
    "topics": [
        {
            "name": f"topic-{topic}",
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": 123_456 + index,
                    "committed_leader_epoch": 7,
                }
                for index in range(10)
            ],
        }
        for topic in range(10)
    ],
}


class Row(NamedTuple):
    """A message, and its classes in the other libraries."""

    name: str
    message: Message
    version: int
    body: Fields
    kio: Any
    kafka_python: Any


ROWS = [
    Row(
        "Metadata v12 of 100 topics",
        schema.response(3),
        12,
        METADATA,
        KioMetadataResponse,
        MetadataResponse,
    ),
    Row(
        "JoinGroup v9 of 50 members",
        schema.response(11),
        9,
        JOIN_GROUP,
        KioJoinGroupResponse,
        JoinGroupResponse,
    ),
    Row(
        "OffsetCommit v8 of 100 partitions",
        schema.request(8),
        8,
        OFFSET_COMMIT,
        KioOffsetCommitRequest,
        OffsetCommitRequest,
    ),
]
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
every_peer = pytest.mark.parametrize("peer", ["polylog", "kio", "kafka-python"])


def reader(row: Row, peer: str, data: bytes) -> Callable[[], Any]:
    """Return a function that decodes the bytes with a library."""
    if peer == "kio":
        read = entity_reader(row.kio)
        return lambda: read(data, 0)[0]
    if peer == "kafka-python":
        read_body = row.kafka_python[row.version].decode
        return lambda: read_body(data)
    return lambda: row.message.decode(row.version, data)[0]


def writer(row: Row, peer: str, data: bytes) -> Callable[[], bytes]:
    """Return a function that encodes the same bytes with a library, from its own objects."""
    value = reader(row, peer, data)()
    if peer == "kio":
        write = entity_writer(row.kio)

        def write_to_buffer() -> bytes:
            buffer = io.BytesIO()
            write(buffer, value)
            return buffer.getvalue()

        return write_to_buffer
    if peer == "kafka-python":
        write_body: Callable[[], bytes] = value.encode
        return write_body
    return lambda: row.message.encode(row.version, value)


@every_row
@every_peer
def test_decode(benchmark: BenchmarkFixture, row: Row, peer: str) -> None:
    """Decode bytes to Python objects."""
    benchmark.group, benchmark.name = f"decode {row.name}", peer

    benchmark(reader(row, peer, row.message.encode(row.version, row.body)))


@every_row
@every_peer
def test_encode(benchmark: BenchmarkFixture, row: Row, peer: str) -> None:
    """Encode Python objects to bytes."""
    benchmark.group, benchmark.name = f"encode {row.name}", peer
    data = row.message.encode(row.version, row.body)

    assert benchmark(writer(row, peer, data)) == data
