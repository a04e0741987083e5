"""Clients that append to many streams and ask for them, with many commands on their way at once."""

import hashlib
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Self

from benchmarks.end_to_end.targets import HOST, BenchmarkError

TOPIC = "events"
TIMEOUT_SECONDS = 60.0
CONNECTIONS = 8
COMMANDS_ON_THEIR_WAY = 500  # of each connection
BACKOFF_SECONDS = 0.005  # before a request is tried again
LENGTH_BYTES = 4


def key_of(number: int) -> str:
    """Return the key of a stream: neighbours in time are not neighbours in the file."""
    return hashlib.blake2b(number.to_bytes(8, "big"), digest_size=8).hexdigest()


def append_command(number: int, version: int) -> str:
    """Return the command that appends an event of 100 bytes."""
    return (
        f"APPEND_STREAM topic={TOPIC} key={key_of(number)} version={version} event_type=Load"
        f" schema_version=1 producerId=load message={'x' * 100}"
    )


class Connection:
    """One blocking connection."""

    def __init__(self, port: int) -> None:
        """Connect."""
        self._socket = socket.create_connection((HOST, port), TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._bytes = self._socket.makefile("rb", 1 << 16)

    def send(self, commands: Sequence[str]) -> None:
        """Send commands without waiting for answers."""
        frames = [len(each).to_bytes(LENGTH_BYTES, "big") + each.encode() for each in commands]
        self._socket.sendall(b"".join(frames))

    def answer(self) -> bytes:
        """Return the next frame."""
        size = int.from_bytes(self._bytes.read(LENGTH_BYTES), "big")
        frame: bytes = self._bytes.read(size)
        return frame

    def ask(self, command: str) -> bytes:
        """Send a command and return its answer."""
        self.send([command])
        return self.answer()

    def close(self) -> None:
        """Close it."""
        self._bytes.close()
        self._socket.close()


class Clients:
    """Several connections to one broker."""

    def __init__(
        self, port: int, count: int = CONNECTIONS, on_their_way: int = COMMANDS_ON_THEIR_WAY
    ) -> None:
        """Connect."""
        self._connections = [Connection(port) for _ in range(count)]
        self._on_their_way = on_their_way

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections."""
        for each in self._connections:
            each.close()

    def ask_all(self, commands: Iterable[str]) -> None:
        """Send commands, many at once; each must be carried out."""
        parts = _parts(commands, self._on_their_way)
        while waiting := list(islice(parts, len(self._connections))):
            pairs = list(zip(self._connections, waiting, strict=False))
            for connection, part in pairs:
                connection.send(part)
            for connection, part in pairs:
                for _ in part:
                    answer = connection.answer()
                    if not answer.startswith(b"OK "):
                        raise BenchmarkError(f"the broker answered {answer.decode()}")


def _parts(commands: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(commands)
    while part := list(islice(iterator, size)):
        yield part


def first_answer(port: int, number: int, since: float) -> float:
    """Return the seconds until the version of a stream is answered, tried again as clients do."""
    connection = Connection(port)
    try:
        while not connection.ask(f"STREAM_VERSION topic={TOPIC} key={key_of(number)}").startswith(
            b"OK version="
        ):
            time.sleep(BACKOFF_SECONDS)
        return time.monotonic() - since
    finally:
        connection.close()
