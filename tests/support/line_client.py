"""A small blocking V1 client: bytes in, lines out, no retries."""

import socket
from typing import Self

TIMEOUT_S = 60.0


class LineClient:
    """One connection."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        """Connect."""
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._lines.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self.socket.sendall(data)

    def line(self) -> bytes:
        """Return the next response with its newline; empty when the broker has closed."""
        try:
            return self._lines.readline()
        except ConnectionResetError:
            return b""

    def ask(self, line: bytes) -> bytes:
        """Send a line and return its response, both without their newlines."""
        self.send(line + b"\n")
        answer = self.line()
        assert answer.endswith(b"\n"), answer
        return answer[:-1]

    def command(self, text: str) -> str:
        """Send a command with its arguments; return its response after `V1|1|`."""
        command, _, args = text.partition(" ")
        answer = self.ask(f"V1|1|{command}|{args}".encode()).decode()
        assert answer.startswith("V1|1|"), answer
        return answer.removeprefix("V1|1|")

    def end(self) -> bytes:
        """Half-close; return everything that the broker still sends."""
        self.socket.shutdown(socket.SHUT_WR)
        try:
            return self._lines.read()
        except ConnectionResetError:
            return b""
