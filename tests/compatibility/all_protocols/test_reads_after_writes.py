"""A read sent right after a write on one connection sees it, in every protocol.

Each is sent many times to an existing topic: the read must not overtake the sync. With a
compression type of the topic's own, Python serves the writes.
"""

import json
import struct
from typing import Any

import pytest

from tests.support import wire_requests
from tests.support.broker_process import Broker
from tests.support.cursus_client import CursusClient, Message, batch, read_batch
from tests.support.line_client import LineClient
from tests.support.native_log import records
from tests.support.rustlog_client import RustLogClient, fetch, frame, produce, read_fetched
from tests.support.wire_client import WireClient

TIMES = 20
WAYS = pytest.mark.parametrize("compression", ["producer", "gzip"])


@pytest.fixture
def partition(broker: Broker, topic: str, compression: str) -> str:
    """A topic of one partition, by its name."""
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, compression_type=compression)
    return topic


def framed(body: bytes | str) -> bytes:
    """Return a Cursus frame."""
    data = body.encode() if isinstance(body, str) else body
    return struct.pack(">I", len(data)) + data


@WAYS
@pytest.mark.parametrize("acks", ["", " acks=0", " acks=all"])
def test_a_v1_read_after_a_write_sees_it(broker: Broker, partition: str, acks: str) -> None:
    with LineClient(broker.address) as client:
        for offset in range(TIMES):
            client.send(
                f"V1|1|PRODUCE|{partition} key:v{offset}{acks}\n"
                f"V1|2|CONSUME|{partition} 0 {offset}\n".encode()
            )
            assert client.line() == b"V1|1|OK|partition=0 offset=%d hw=%d\n" % (offset, offset)
            assert client.line() == b"V1|2|OK|messages=%d:v%d hw=%d\n" % (offset, offset, offset)


@WAYS
@pytest.mark.parametrize("acks", ["1", "0"])
@pytest.mark.parametrize("way", ["batch", "PUBLISH"])
def test_a_cursus_read_after_a_write_sees_it(
    broker: Broker, partition: str, acks: str, way: str
) -> None:
    if way == "batch":
        write = batch(partition, 0, [Message(b"value")], acks=acks.encode())
    else:
        write = f"PUBLISH topic={partition} producerId=p acks={acks} message=value".encode()
    with CursusClient(broker.address) as client:
        for offset in range(TIMES):
            consume = f"CONSUME topic={partition} partition=0 offset={offset} group=g-{partition}"
            client.socket.sendall(
                framed(write) + framed(consume) + framed(f"LIST_OFFSETS topic={partition}")
            )
            written, read, ends = (client.frame() for _ in range(3))
            assert written is not None
            assert json.loads(written)["status"] == "OK"
            assert read is not None
            assert [each.payload for each in read_batch(read).messages] == [b"value"]
            assert ends is not None
            assert str(offset + 1) in ends.decode()


@WAYS
@pytest.mark.parametrize("is_json", [False, True])
def test_a_rustlog_read_after_a_write_sees_it(
    broker: Broker, partition: str, *, is_json: bool
) -> None:
    with RustLogClient(broker.address) as client:
        for offset in range(TIMES):
            ask = {"topic": partition, "partition": 0, "offset": offset, "max_bytes": 1000}
            read = (
                json.dumps({"Fetch": ask}).encode()
                if is_json
                else fetch(partition, 0, offset, 1000)
            )
            client.socket.sendall(frame(produce(partition, 0, [b"value"])) + frame(read))
            client.receive()
            answer = client.receive()
            if is_json:
                assert json.loads(answer)["Fetch"]["next_offset"] == offset + 1
            else:
                assert read_fetched(answer).records == [b"value"]


def fetch_body(topic: str, offset: int) -> dict[str, Any]:
    """Return a Fetch of one partition that does not wait."""
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [wanted]}],
    }


@WAYS
@pytest.mark.parametrize("acks", [-1, 1, 0])
@pytest.mark.parametrize("version", [2, 12])
def test_a_kafka_read_after_a_write_sees_it(
    broker: Broker, partition: str, acks: int, version: int
) -> None:
    written = wire_requests.produce_body(partition, [(0, records())], acks=acks)
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    ends = {"replica_id": -1, "topics": [{"name": partition, "partitions": [asked]}]}
    with WireClient(broker.address) as client:
        for offset in range(TIMES):
            client.send_together(
                ("Produce", 9, written),
                ("Fetch", version, fetch_body(partition, offset)),
                ("ListOffsets", 4, ends),
            )
            if acks:
                client.receive()
            fetched, listed = client.receive(), client.receive()
            [response] = fetched["responses"]
            assert response["partitions"][0]["records"], offset
            assert response["partitions"][0]["high_watermark"] == offset + 1
            assert listed["topics"][0]["partitions"][0]["offset"] == offset + 1
