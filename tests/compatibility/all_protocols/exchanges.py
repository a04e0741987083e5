"""A write and the reads behind it in one send on one connection, in each protocol.

An exchange is a session of such sends to partition 0 of a topic, for ascending offsets; each
asserts that its reads see what the same send has written.
"""

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

from tests.support import wire_requests
from tests.support.cursus_client import CursusClient, Message, batch, read_batch
from tests.support.line_client import LineClient
from tests.support.native_log import records
from tests.support.rustlog_client import RustLogClient, fetch, frame, produce, read_fetched
from tests.support.wire_client import WireClient

Send: TypeAlias = Callable[[int], None]  # the write that gets this offset, and the reads behind it


class Exchange(NamedTuple):
    """One way of writing and reading.

    Attributes:
        name: of the protocol and its way.
        acks: what its writes ask for, as the protocol says it; empty: they do not say it.
        begin: opens a connection for an address and a topic.
        is_forwarded: whether a broker that does not lead the partition serves it, too.
    """

    name: str
    acks: str
    begin: "Callable[[str, str, str], Iterator[Send]]"
    is_forwarded: bool = True

    def run(self, address: str, topic: str, offsets: Iterable[int]) -> None:
        """Exchange once per offset."""
        with contextmanager(self.begin)(address, topic, self.acks) as send:
            for offset in offsets:
                send(offset)


def framed(body: bytes | str) -> bytes:
    """Return a Cursus frame."""
    data = body.encode() if isinstance(body, str) else body
    return struct.pack(">I", len(data)) + data


def _v1(address: str, topic: str, acks: str) -> Iterator[Send]:
    asked = f" acks={acks}" if acks else ""
    with LineClient(address) as client:

        def send(offset: int) -> None:
            client.send(
                f"V1|1|PRODUCE|{topic} key:v{offset}{asked}\n"
                f"V1|2|CONSUME|{topic} 0 {offset}\n".encode()
            )
            written = client.line()
            assert written.startswith(b"V1|1|OK|partition=0 offset=%d hw=" % offset), written
            assert client.line() == b"V1|2|OK|messages=%d:v%d hw=%d\n" % (offset, offset, offset)

        yield send


def _cursus(address: str, topic: str, write: bytes) -> Iterator[Send]:
    with CursusClient(address) as client:

        def send(offset: int) -> None:
            consume = f"CONSUME topic={topic} partition=0 offset={offset} group=g-{topic}"
            client.socket.sendall(
                framed(write) + framed(consume) + framed(f"LIST_OFFSETS topic={topic}")
            )
            written, read, ends = (client.frame() for _ in range(3))
            assert written is not None
            assert json.loads(written)["status"] == "OK"
            assert read is not None
            assert [each.payload for each in read_batch(read).messages] == [b"value"]
            assert ends is not None
            assert str(offset + 1) in ends.decode()

        yield send


def _cursus_batch(address: str, topic: str, acks: str) -> Iterator[Send]:
    return _cursus(address, topic, batch(topic, 0, [Message(b"value")], acks=acks.encode()))


def _cursus_publish(address: str, topic: str, acks: str) -> Iterator[Send]:
    text = f"PUBLISH topic={topic} partition=0 producerId=p acks={acks} message=value"
    return _cursus(address, topic, text.encode())


def _rustlog(address: str, topic: str, _acks: str) -> Iterator[Send]:
    with RustLogClient(address) as client:

        def send(offset: int) -> None:
            write, read = produce(topic, 0, [b"value"]), fetch(topic, 0, offset, 1000)
            client.socket.sendall(frame(write) + frame(read))
            client.receive()
            assert read_fetched(client.receive()).records == [b"value"]

        yield send


def _rustlog_json(address: str, topic: str, _acks: str) -> Iterator[Send]:
    with RustLogClient(address) as client:

        def send(offset: int) -> None:
            ask = {"topic": topic, "partition": 0, "offset": offset, "max_bytes": 1000}
            read = json.dumps({"Fetch": ask}).encode()
            client.socket.sendall(frame(produce(topic, 0, [b"value"])) + frame(read))
            client.receive()
            assert json.loads(client.receive())["Fetch"]["next_offset"] == offset + 1

        yield send


def _kafka(version: int, address: str, topic: str, acks: str) -> Iterator[Send]:
    written = wire_requests.produce_body(topic, [(0, records())], acks=int(acks))
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    ends = {"replica_id": -1, "topics": [{"name": topic, "partitions": [asked]}]}
    with WireClient(address) as client:

        def send(offset: int) -> None:
            wanted = wire_requests.fetch_body(topic, 0, offset, 1 << 20)
            client.send_together(
                ("Produce", 9, written),
                ("Fetch", version, wanted | {"max_wait_ms": 0, "session_epoch": -1}),
                ("ListOffsets", 4, ends),
            )
            if acks != "0":
                produced = client.receive()["responses"][0]["partition_responses"][0]
                assert (produced["error_code"], produced["base_offset"]) == (0, offset)
            fetched, listed = client.receive(), client.receive()
            [response] = fetched["responses"]
            assert response["partitions"][0]["records"], offset
            assert response["partitions"][0]["high_watermark"] == offset + 1
            assert listed["topics"][0]["partitions"][0]["offset"] == offset + 1

        yield send


def _kafka_old(address: str, topic: str, acks: str) -> Iterator[Send]:
    return _kafka(2, address, topic, acks)


def _kafka_new(address: str, topic: str, acks: str) -> Iterator[Send]:
    return _kafka(12, address, topic, acks)


EXCHANGES: Final = (
    *(Exchange("v1", acks, _v1) for acks in ("", "0", "all")),
    *(Exchange("cursus-batch", acks, _cursus_batch) for acks in ("1", "0", "-1")),
    *(Exchange("cursus-publish", acks, _cursus_publish) for acks in ("1", "0", "-1")),
    Exchange("rustlog", "", _rustlog),
    Exchange("rustlog-json", "", _rustlog_json),
    *(Exchange("kafka-2", acks, _kafka_old, is_forwarded=False) for acks in ("-1", "1", "0")),
    *(Exchange("kafka-12", acks, _kafka_new, is_forwarded=False) for acks in ("-1", "1", "0")),
)
