"""The leader of partitions that a native fetcher copies: it reads requests, a test answers them."""

import socket
from typing import Any

from broker import codec
from broker._native.replication.fetcher import ReplicaEvent, ReplicaFetcher
from broker.codec import Fields
from tests.support.native_log import TOPIC_ID, placed, records
from tests.support.native_wire import Wire

SESSION_ID = 77
BROKER_ID = 3
BROKER_EPOCH = 1 << 40


class Asked:
    """A request, as the leader reads it."""

    def __init__(self, frame: bytes) -> None:
        """Parse a frame without its size."""
        request = codec.read_request(frame)
        self.header = request.header
        self.body: Any = request.body

    @property
    def session(self) -> tuple[int, int]:
        """The id and the epoch of its session."""
        return self.body["session_id"], self.body["session_epoch"]

    @property
    def named(self) -> list[tuple[int, int]]:
        """Partition and offset of the positions that it names."""
        return [
            (each["partition"], each["fetch_offset"])
            for topic in self.body["topics"]
            for each in topic["partitions"]
        ]

    @property
    def forgotten(self) -> list[int]:
        """The partitions that end in the session."""
        return [
            each for topic in self.body["forgotten_topics_data"] for each in topic["partitions"]
        ]


class Leader:
    """The far end of connections of one fetcher."""

    def __init__(self, wire: Wire, **settings: int) -> None:
        """Make the fetcher, without a connection."""
        self.wire = wire
        self.lost: list[str] = []
        self.reported = 0  # how often the fetcher has said that it has events
        sizes = {
            "wait_ms": 500,
            "bytes_min": 1,
            "bytes_max": 10 << 20,
            "partition_bytes_max": 1 << 20,
            "timeout_ms": 30_000,
        }
        self.fetcher = ReplicaFetcher(
            wire.logs.turn,
            BROKER_ID,
            BROKER_EPOCH,
            self._has_events,
            self.lost.append,
            **{**sizes, **settings},
        )
        self.socket: socket.socket | None = None
        self._received = bytearray()

    def _has_events(self) -> None:
        self.reported += 1

    def connect(self) -> None:
        """Let the fetcher have a connection."""
        self.close()
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        self.socket = near
        self._received.clear()
        self.fetcher.connect(self.wire.poller, far.detach(), "leader")
        self.wire.run()

    def close(self) -> None:
        """Close this end."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
            self.wire.run()

    def requests(self) -> list[Asked]:
        """Return what was asked since the last call."""
        self.wire.run()
        self._receive()
        found, end = codec.frames(bytes(self._received))
        asked = [Asked(bytes(each)) for each in found]
        del self._received[:end]
        return asked

    def request(self) -> Asked:
        """Return the one request, which was sent now or will be after syncs."""
        found: list[Asked] = []

        def has_one() -> bool:
            found.extend(self.requests())
            return bool(found)

        self.wire.run_until(has_one)
        (asked,) = found
        return asked

    def answer(self, asked: Asked, *partitions: Fields, **fields: Any) -> None:
        """Answer a request with these partitions of one topic."""
        self.send(reply(asked.header.correlation_id, *partitions, **fields))

    def send(self, data: bytes) -> None:
        """Send bytes, and let them be served."""
        assert self.socket is not None
        view = memoryview(data)
        while view:
            try:
                view = view[self.socket.send(view) :]
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                return  # the fetcher has closed it
            self.wire.run()

    def events(self) -> list[tuple[ReplicaEvent, int | None, int, int, int]]:
        """Return the events since the last call, with partitions instead of logs."""
        return [
            (kind, None if log is None else log.partition, epoch, first, second)
            for kind, log, epoch, first, second in self.fetcher.take_events()
        ]

    def _receive(self) -> None:
        try:
            while self.socket is not None and (data := self.socket.recv(1 << 20)):
                self._received += data
        except (BlockingIOError, ConnectionResetError):
            pass


def reply(correlation_id: int, *partitions: Fields, **fields: Any) -> bytes:
    """Return the frame of a response with these partitions of one topic."""
    topics = [{"topic_id": TOPIC_ID, "partitions": list(partitions)}] if partitions else []
    body = {"session_id": SESSION_ID, "responses": topics, **fields}
    return codec.response_frame("Fetch", 17, body, correlation_id=correlation_id)


def part(partition: int, data: bytes | None = b"", **fields: Any) -> Fields:
    """Return a partition of a response."""
    return {
        "partition_index": partition,
        "error_code": 0,
        "high_watermark": 0,
        "last_stable_offset": 0,
        "log_start_offset": 0,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": data,
        **fields,
    }


def batch(base_offset: int, count: int = 1, *, epoch: int = 0, size: int = 8) -> bytes:
    """Return a batch as a leader has it in its log."""
    return placed(records(count, size=size), base_offset, epoch)
