"""The native connections without a broker: one process, socket pairs, turns ended by the test.

Requests that the native paths leave to Python are collected in `slow`; a test answers them itself.
"""

import select
import socket
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker._native.log.partition_log import PartitionLog
from broker._native.log.topic_table import TopicTable
from broker._native.protocols.kafka.fetch import FetchSessions
from broker._native.protocols.kafka.protocol import Kafka
from broker._native.wire.poller import Poller
from broker.codec import schema
from broker.model.limits import FETCH_PARTITIONS_HELD_MAX
from tests.support.native_log import TOPIC_ID, WAIT_MS, Logs

if TYPE_CHECKING:
    from broker._native.protocols.kafka.replica_fetch import ReplicaSessions
    from broker._native.wire.connection import Connection
    from broker._native.wire.pending_reply import PendingReply
    from tests.support.tls_client import TlsClient

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
API_VERSIONS = 18
PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
LIST_OFFSETS_VERSIONS = range(12)
NEVER_FLEXIBLE = 32_767
HEAD = struct.Struct(">ihhih4s")
SIZE = struct.Struct(">i")
SIZES = struct.Struct(">ii")
CLIENT_ID = b"test"
SESSIONS_MAX = 3
SESSION_IDLE_MS = 120_000
FETCH_BYTES_MAX = 55 << 20
FRAME_BYTES_MAX = 4 << 20
_RECEIVED = bytearray(1 << 20)  # one for all: with sanitizers to allocate it takes a millisecond

Fields = dict[str, Any]


def request(key: int, version: int, body: Fields, correlation_id: int = 0) -> bytes:
    """Return a request as a frame."""
    encoded = schema.request(key).encode(version, body)
    if schema.request_header_version(key, version) > 1:
        encoded = b"\0" + encoded
    size = HEAD.size - SIZE.size + len(encoded)
    return HEAD.pack(size, key, version, correlation_id, len(CLIENT_ID), CLIENT_ID) + encoded


def response(key: int, version: int, frame: bytes) -> tuple[int, Fields]:
    """Return a response frame's correlation id and body; no bytes may be left over."""
    size, correlation_id = SIZES.unpack_from(frame)
    assert size == len(frame) - SIZE.size
    start = SIZES.size + (schema.response_header_version(key, version) > 0)
    body, end = schema.response(key).decode(version, frame, start)
    assert end == len(frame)
    return correlation_id, body


def produce(
    version: int,
    *batches: tuple[int, bytes | None],
    acks: int = -1,
    correlation_id: int = 0,
    transactional_id: str | None = None,
) -> bytes:
    """Return a Produce request of (partition, records) to one topic."""
    partitions = [{"index": partition, "records": data} for partition, data in batches]
    topic = {"name": "topic", "topic_id": TOPIC_ID, "partition_data": partitions}
    body = {
        "acks": acks,
        "timeout_ms": 1000,
        "transactional_id": transactional_id,
        "topic_data": [topic],
    }
    return request(PRODUCE, version, body, correlation_id)


def fetch(
    version: int, *wanted: Fields | tuple[int, int], correlation_id: int = 0, **fields: Any
) -> bytes:
    """Return a Fetch request of partitions of one topic, each as fields or (partition, offset)."""
    partitions = [
        each
        if isinstance(each, dict)
        else {"partition": each[0], "fetch_offset": each[1], "partition_max_bytes": 1 << 20}
        for each in wanted
    ]
    topic = {"topic": "topic", "topic_id": TOPIC_ID, "partitions": partitions}
    body = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "topics": [topic] if partitions else [],
        "session_epoch": -1,
        **fields,
    }
    return request(FETCH, version, body, correlation_id)


class Client:
    """The remote end of a connection."""

    def __init__(
        self,
        wire: "Wire",
        near: socket.socket,
        far: socket.socket,
        session: object,
        host: str = "here",
    ) -> None:
        """Send through `near` and receive from it."""
        self.wire = wire
        self.socket = near
        self.connection: Connection = wire.poller.add(far.detach(), host, session)
        self._received = bytearray()

    def send(self, data: bytes) -> None:
        """Send, and let it be served, however little the sockets hold at once."""
        view = memoryview(data)
        while view:
            try:
                sent = self.socket.send(view)
            except BlockingIOError:
                sent = 0
            except (BrokenPipeError, ConnectionResetError):
                return  # the broker has closed; the test will see that
            view = view[sent:]
            self.wire.run()

    def frames(self) -> list[bytes]:
        """Return the complete frames received since the last call."""
        found = []
        self._receive()
        while len(self._received) >= SIZE.size:
            end = SIZE.size + SIZE.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            found.append(bytes(self._received[:end]))
            del self._received[:end]
        return found

    def wait_frames(self, count: int) -> list[bytes]:
        """Return the expected number of frames, which arrive now or after syncs."""
        found: list[bytes] = []

        def has_all() -> bool:
            found.extend(self.frames())
            return len(found) >= count

        self.wire.run_until(has_all)
        return found

    def frame(self) -> bytes:
        """Return the one expected frame, which arrives now or after syncs."""
        (found,) = self.wait_frames(1)
        return found

    def ask(self, data: bytes) -> Fields:
        """Send one request and return the body of its response."""
        _, key, version, correlation_id, *_ = HEAD.unpack_from(data)
        self.send(data)
        answered, body = response(key, version, self.frame())
        assert answered == correlation_id
        return body

    @property
    def is_closed(self) -> bool:
        """Return whether the broker has closed the connection."""
        self._receive()
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Half-close, then close this end, and let the broker see it."""
        self.socket.shutdown(socket.SHUT_WR)
        self.wire.run()
        self.socket.close()

    def _receive(self) -> None:
        while True:
            try:
                count = self.socket.recv_into(_RECEIVED)
            except (BlockingIOError, ConnectionResetError):
                return
            if count == 0:
                return
            self._received += memoryview(_RECEIVED)[:count]


class Wire:
    """A poller, its topics and its connections."""

    def __init__(
        self,
        logs: Logs,
        *,
        sessions_max: int = SESSIONS_MAX,
        session_idle_ms: int = SESSION_IDLE_MS,
        fetch_partitions_max: int = FETCH_PARTITIONS_HELD_MAX,
        replicas: "ReplicaSessions | None" = None,
    ) -> None:
        """Serve the logs that `serve` adds."""
        self.logs = logs
        self.table = TopicTable()
        self.sessions = FetchSessions(
            sessions_max, session_idle_ms, FETCH_BYTES_MAX, fetch_partitions_max, replicas
        )
        self.poller = Poller(logs.turn, self.table)
        self.slow: list[PendingReply] = []
        self.closed: list[str] = []
        self.clients: list[Client | TlsClient] = []
        self._wants_turn = False
        self._poll = select.poll()
        self._poll.register(self.poller.epoll_fd, select.POLLIN)
        self.serve_with(self.slow.extend, lambda _, reason: self.closed.append(reason))
        logs.turn.schedule = self._schedule

    def serve_with(
        self,
        dispatch: Callable[[list["PendingReply"]], object],
        on_close: Callable[["Connection", str], object],
        protocol: object = None,
    ) -> None:
        """Speak Kafka, and hand other requests to `dispatch`."""
        rows = [api_row(key) for key in (PRODUCE, FETCH, LIST_OFFSETS, API_VERSIONS)]
        self.kafka = Kafka(protocol, rows, self.sessions, frame_bytes_max=FRAME_BYTES_MAX)
        self.poller.serve_with({"kafka": self.kafka}, dispatch, on_close)

    def _schedule(self) -> None:
        self._wants_turn = True

    def serve(self, *logs: PartitionLog | None) -> None:
        """Add the topic with these logs."""
        self.table.add("topic", TOPIC_ID, list(logs))

    def log(self, partition: int = 0) -> PartitionLog:
        """Return the log of a served partition."""
        entry = self.table.find("topic")
        assert entry
        log = entry.logs[partition]
        assert log
        return log

    def connect(self, session: object = None, host: str = "here") -> Client:
        """Open a connection from an address."""
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        client = Client(self, near, far, session, host)
        self.clients.append(client)
        return client

    @property
    def is_ready(self) -> bool:
        """Return whether the event loop would call the poller now."""
        return bool(self._poll.poll(0))

    def run(self) -> None:
        """Run the event loop until nothing is left to do."""
        while self._wants_turn or self.is_ready:
            if self._wants_turn:
                self._wants_turn = False
                self.poller.end()
            else:
                self.poller()

    def run_until(self, is_reached: Callable[[], bool]) -> None:
        """Run the event loop until the condition holds."""
        deadline = time.monotonic() + WAIT_MS / 1000
        self.run()
        while not is_reached():
            assert time.monotonic() < deadline, "it did not arrive in time"
            self._poll.poll(WAIT_MS)
            self.run()

    def close(self) -> None:
        """Close everything."""
        self.poller.close()
        self.poller.end()
        for client in self.clients:
            client.socket.close()
        # No descriptor may wait for the garbage collector.
        self.clients.clear()
        self.poller.serve_with({}, _ignore, _ignore)
        self.logs.turn.events.clear()
        self.logs.turn.schedule = None


def _ignore(*_: object) -> None:
    pass


def api_row(key: int) -> tuple[int, int, int, int]:
    """Return a key with its versions and the first flexible one."""
    message = schema.request(key)
    flexible = NEVER_FLEXIBLE if message.first_flexible is None else message.first_flexible
    return key, 0, message.versions.stop - 1, flexible


def partition(body: Fields, place: int = 0) -> Fields:
    """Return one partition of a response to a request for one topic."""
    (topic,) = body["responses"]
    partitions = topic.get("partitions") or topic.get("partition_responses")
    return partitions[place]


def base_offset(client: Client, data: bytes) -> int:
    """Send a Produce request; return the base offset of its batch."""
    answer = partition(client.ask(data))
    assert answer["error_code"] == 0
    return int(answer["base_offset"])


def session_of(client: Client, *wanted: tuple[int, int], version: int = 11) -> int:
    """Begin a session; return its id."""
    body = client.ask(fetch(version, *wanted, session_epoch=0))
    assert body["error_code"] == 0
    return int(body["session_id"])


def incremental(
    session: int, epoch: int, *wanted: tuple[int, int], forgotten: tuple[int, ...] = ()
) -> bytes:
    """Return a fetch within a session."""
    topics = [{"topic": "topic", "partitions": list(forgotten)}] if forgotten else []
    return fetch(11, *wanted, session_id=session, session_epoch=epoch, forgotten_topics_data=topics)


def changed(body: Fields) -> list[int]:
    """Return the partitions in a response."""
    assert body["error_code"] == 0
    return [each["partition_index"] for topic in body["responses"] for each in topic["partitions"]]
