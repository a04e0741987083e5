"""RustLog as its clients speak it: frames, requests and answers of the binary form, and JSON.

Written from the protocol's description alone; nothing here imports the package under test.
"""

import json
import socket
import struct
from typing import Any, NamedTuple, Self

TIMEOUT_S = 60.0
FRAME_MAX = 10_485_760
_SIZE = struct.Struct(">I")


class ConnectionEndedError(Exception):
    """The broker closed the connection."""


class RefusedError(Exception):
    """The broker answered with an error."""

    def __init__(self, code: int, text: str) -> None:
        """Keep both."""
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


class Fetched(NamedTuple):
    """Records, the first of which is at the fetched offset, and the next offset."""

    records: list[bytes]
    next_offset: int


def frame(payload: bytes) -> bytes:
    """Return a payload with its length."""
    return _SIZE.pack(len(payload)) + payload


def string(text: str) -> bytes:
    """Return a text with its length."""
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def produce(topic: str, partition: int, records: list[bytes]) -> bytes:
    """Return a Produce request."""
    run = b"".join(_SIZE.pack(len(each)) + each for each in records)
    return b"\x01" + string(topic) + struct.pack(">II", partition, len(records)) + run


def fetch(topic: str, partition: int, offset: int, max_bytes: int, group: str = "") -> bytes:
    """Return a Fetch request."""
    return (
        b"\x02" + string(group) + string(topic) + struct.pack(">IQI", partition, offset, max_bytes)
    )


def commit(group: str, topic: str, partition: int, offset: int) -> bytes:
    """Return an OffsetCommit request."""
    return b"\x03" + string(group) + string(topic) + struct.pack(">IQ", partition, offset)


def offset_fetch(group: str, topic: str, partition: int) -> bytes:
    """Return an OffsetFetch request."""
    return b"\x04" + string(group) + string(topic) + struct.pack(">I", partition)


def create_topic(topic: str, partitions: int) -> bytes:
    """Return a CreateTopic request."""
    return b"\x05" + string(topic) + struct.pack(">I", partitions)


def describe_partition(topic: str, partition: int) -> bytes:
    """Return a DescribePartition request."""
    return b"\x08" + string(topic) + struct.pack(">I", partition)


PING = b"\xff"
LIST_TOPICS = b"\x06"
METRICS = b"\x09"


def read_produced(payload: bytes) -> tuple[int, int]:
    """Parse a response to Produce: base offset and count."""
    kind, base_offset, count = struct.unpack(">BQI", _good(payload))
    assert kind == 1
    return base_offset, count


def read_fetched(payload: bytes) -> Fetched:
    """Parse a response to Fetch."""
    kind, count = struct.unpack_from(">BI", _good(payload))
    assert kind == 2
    position, records = 5, []
    for _ in range(count):
        (size,) = _SIZE.unpack_from(payload, position)
        records.append(payload[position + 4 : position + 4 + size])
        position += 4 + size
    (next_offset,) = struct.unpack_from(">Q", payload, position)
    assert len(payload) == position + 8
    return Fetched(records, next_offset)


def read_error(payload: bytes) -> tuple[int, str]:
    """Parse an error: code and message."""
    kind, code, size = struct.unpack_from(">BHH", payload)
    assert kind == 0xFE
    assert len(payload) == 5 + size
    return code, payload[5:].decode()


def _good(payload: bytes) -> bytes:
    if payload[0] == 0xFE:
        raise RefusedError(*read_error(payload))
    return payload


class RustLogClient:
    """One blocking connection, one request at a time, as in the original's examples."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        """Connect."""
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.socket.close()

    def ask(self, payload: bytes) -> bytes:
        """Send a request and return the payload of its response."""
        self.send(frame(payload))
        return self.receive()

    def send(self, data: bytes) -> None:
        """Send raw bytes."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionEndedError from error

    def receive(self) -> bytes:
        """Return the next frame's payload."""
        (size,) = _SIZE.unpack(self._take(_SIZE.size))
        assert 1 <= size <= FRAME_MAX
        return self._take(size)

    def _take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            try:
                data = self.socket.recv(size - len(taken))
            except ConnectionResetError as error:
                raise ConnectionEndedError from error
            if not data:
                raise ConnectionEndedError(f"after {len(taken)} of {size} bytes")
            taken += data
        return bytes(taken)

    def expect_closed(self) -> None:
        """Fail unless the broker closes the connection without another byte."""
        try:
            payload = self.receive()
        except ConnectionEndedError:
            return
        raise AssertionError(f"answered instead of closed: {payload[:60]!r}")

    def ping(self) -> None:
        """Check that the broker answers."""
        assert self.ask(PING) == PING

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        assert _good(self.ask(create_topic(topic, partitions))) == b"\x05\x01"

    def produce(self, topic: str, records: list[bytes], partition: int = 0) -> int:
        """Append records; return the offset of the first."""
        base_offset, count = read_produced(self.ask(produce(topic, partition, records)))
        assert count == len(records)
        return base_offset

    def fetch(
        self, topic: str, offset: int, max_bytes: int = 1 << 20, partition: int = 0, group: str = ""
    ) -> Fetched:
        """Read records."""
        return read_fetched(self.ask(fetch(topic, partition, offset, max_bytes, group)))

    def read_all(self, topic: str, offset: int = 0, partition: int = 0) -> dict[int, bytes]:
        """Read to the end as the example consumer does: record i of a response is at start + i."""
        found: dict[int, bytes] = {}
        while True:
            records, next_offset = self.fetch(topic, offset, partition=partition)
            found.update(enumerate(records, offset))
            if next_offset == offset:
                return found
            offset = next_offset

    def commit(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        """Commit an offset."""
        assert _good(self.ask(commit(group, topic, partition, offset))) == b"\x03\x01"

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        """Return the committed offset."""
        payload = _good(self.ask(offset_fetch(group, topic, partition)))
        if payload == b"\x04\x00":
            return None
        assert payload[:2] == b"\x04\x01"
        return int.from_bytes(payload[2:])

    def high_watermark(self, topic: str, partition: int = 0) -> int:
        """Return the next offset to be read."""
        payload = _good(self.ask(describe_partition(topic, partition)))
        assert payload[:-8] == b"\x08" + string(topic) + struct.pack(">I", partition)
        return int.from_bytes(payload[-8:])

    def ask_json(self, request: dict[str, Any]) -> Any:
        """Send a JSON request and return the response as a value."""
        return json.loads(self.ask(json.dumps(request).encode()))
