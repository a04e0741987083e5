"""A peer on loopback that answers as a test tells it, for tests of clients."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from broker import codec
from broker.codec import Fields
from broker.model.address import Address

# API name, version, body → the body of the answer; None closes the connection.
Answer = Callable[[str, int, Fields], Fields | None]


class ScriptedBroker:
    """Answers requests of any number of connections, and records them."""

    def __init__(self, answer: Answer, versions: dict[str, range] | None = None) -> None:
        """Listen; `versions` replaces the advertised versions of some APIs."""
        self.answer = answer
        self.versions = versions or {}
        self.asked: list[tuple[str, int, Fields]] = []
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def address(self) -> Address:
        """Return its address."""
        return Address("127.0.0.1", self._listening.getsockname()[1])

    def of(self, api: str) -> list[Fields]:
        """Return the recorded requests of one API."""
        return [body for name, _, body in self.asked if name == api]

    def close(self) -> None:
        """Close everything and wait for the threads."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                self._open.append(connection)
                self._threads.append(threading.Thread(target=self._serve, args=[connection]))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        received = b""
        with connection, suppress(OSError):
            while part := connection.recv(1 << 16):
                received += part
                frames, end = codec.frames(received)
                for frame in frames:
                    reply = self._reply(bytes(frame))
                    if reply is None:
                        return
                    connection.sendall(reply)
                received = received[end:]

    def _reply(self, frame: bytes) -> bytes | None:
        request = codec.read_request(frame)
        header = request.header
        name = codec.API_KEYS[header.api_key]
        self.asked.append((name, header.api_version, request.body))
        body = self._versions() if name == "ApiVersions" else None
        body = body or self.answer(name, header.api_version, request.body)
        if body is None:
            return None
        return codec.response_frame(
            name, header.api_version, body, correlation_id=header.correlation_id
        )

    def _versions(self) -> Fields:
        api_keys = []
        for key, name in codec.API_KEYS.items():
            versions = self.versions.get(name, range(100))
            if versions:
                api_keys.append(
                    {
                        "api_key": key,
                        "min_version": versions.start,
                        "max_version": versions.stop - 1,
                    }
                )
        return {"api_keys": api_keys}


@contextmanager
def scripted_broker(
    answer: Answer, versions: dict[str, range] | None = None
) -> Iterator[ScriptedBroker]:
    """A peer that is closed at the end."""
    broker = ScriptedBroker(answer, versions)
    try:
        yield broker
    finally:
        broker.close()


def metadata_of(
    address: Address, topics: dict[str, str], partition_count: int = 1, error_code: int = 0
) -> Fields:
    """Return a Metadata response: one broker leads every partition of topics by name and id."""
    return {
        "brokers": [{"node_id": 1, "host": address.host, "port": address.port}],
        "topics": [
            {
                "error_code": error_code,
                "name": name,
                "topic_id": bytes.fromhex(topic_id) or bytes(16),
                "partitions": [
                    {"partition_index": each, "leader_id": 1} for each in range(partition_count)
                ],
            }
            for name, topic_id in topics.items()
        ],
    }
