"""A small blocking Kafka client: one socket, any message, no retries.

It sends exactly what a test gives it, without the precautions of a real client. Messages are
encoded by the package's own tables, which other tests compare with other decoders; frames and
headers are written here, so that they can be written wrongly.
"""

import socket
import struct
from collections import deque
from typing import Any, Self

from broker.codec import schema

API_KEY_BY_NAME = {name: key for key, name in schema.API_KEYS.items()}
TIMEOUT_S = 60.0
SIZE = struct.Struct(">i")
REQUEST_HEAD = struct.Struct(">hhi")


class ConnectionClosedError(Exception):
    """The broker closed the connection."""


class WireClient:
    """One connection."""

    def __init__(
        self,
        address: str,
        timeout_s: float = TIMEOUT_S,
        *,
        client_id: str = "wire",
        source: str = "",
    ) -> None:
        """Connect, from an address of this host if one is given."""
        self._source = (source, 0)
        self._address = address
        self._client_id = client_id.encode()
        self._timeout_s = timeout_s
        self._correlation_id = 0
        self._connect()

    def _connect(self) -> None:
        host, _, port = self._address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), self._timeout_s, self._source)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._waiting: deque[tuple[str, int, int]] = deque()

    def reconnect(self) -> None:
        """Connect again; responses not received are lost."""
        self.close()
        self._connect()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def request(self, name: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its response."""
        self.send(name, version, body)
        return self.receive()

    def send(self, name: str, version: int, body: dict[str, Any]) -> None:
        """Send a request; `receive` returns the responses in this order."""
        self.send_frame(self.encoded(name, version, body))
        self._waiting.append((name, version, self._correlation_id))

    def send_together(self, *requests: tuple[str, int, dict[str, Any]]) -> None:
        """Send requests at once; a Produce with acks=0 has no response to `receive`."""
        data = b""
        for name, version, body in requests:
            frame = self.encoded(name, version, body)
            data += SIZE.pack(len(frame)) + frame
            if body.get("acks") != 0:
                self._waiting.append((name, version, self._correlation_id))
        self.send_bytes(data)

    def encoded(self, name: str, version: int, body: dict[str, Any]) -> bytes:
        """Return a request without its size."""
        message = schema.request(API_KEY_BY_NAME[name])
        return self.frame(name, version, message.encode(version, body))

    def receive(self) -> dict[str, Any]:
        """Return the response to the oldest unanswered request."""
        name, version, expected_id = self._waiting.popleft()
        frame = self.receive_frame()
        (correlation_id,) = SIZE.unpack_from(frame)
        assert correlation_id == expected_id
        key = API_KEY_BY_NAME[name]
        start = 4 + (schema.response_header_version(key, version) > 0)
        value, end = schema.response(key).decode(version, frame, start)
        assert end == len(frame), f"{name} v{version} has bytes left over"
        return value

    def frame(self, name: str, version: int, body: bytes) -> bytes:
        """Return a request without its size; the version may be any."""
        key = API_KEY_BY_NAME[name]
        highest = max(schema.request(key).versions)
        self._correlation_id += 1
        return (
            REQUEST_HEAD.pack(key, version, self._correlation_id)
            + len(self._client_id).to_bytes(2)
            + self._client_id
            + b"\x00" * (schema.request_header_version(key, min(version, highest)) > 1)
            + body
        )

    def send_frame(self, frame: bytes) -> None:
        """Send a frame with its size before it."""
        self.send_bytes(SIZE.pack(len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send raw bytes."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionClosedError from error

    def receive_frame(self) -> bytes:
        """Return the next frame without its size."""
        (size,) = SIZE.unpack(self._take(SIZE.size))
        return self._take(size)

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError as error:
                raise ConnectionClosedError from error
            if not data:
                raise ConnectionClosedError
            self._received += data
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def expect_closed(self) -> None:
        """Fail unless the broker closes the connection without a response."""
        try:
            frame = self.receive_frame()
        except ConnectionClosedError:
            return
        raise AssertionError(f"answered instead of closed: {frame[:60].hex()}")
