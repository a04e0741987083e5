"""A stream on its connection: order, back-pressure, reported events, and its end."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.cursus.protocol import Cursus
from broker._native.protocols.cursus.stream import CursusStream, StreamEvent
from tests.support.cursus_client import Message, batch, read_batch
from tests.support.native_log import Logs, appended, records
from tests.support.native_wire import Client, Wire

UNSENT_MAX = 256 << 10
READ_BYTES = 128 << 10
LEAST_RECORD = 50  # bytes of an empty record in a frame
NEVER_MS = 10**9
AT_ONCE_MS = -1
Reported = list[StreamEvent]


class Streaming:
    """A wire that speaks Cursus, and the streams that a test opens on it."""

    def __init__(self, logs: Logs, log: PartitionLog) -> None:
        """Serve one partition."""
        self.wire = Wire(logs)
        self.log = log
        self.reported: Reported = []
        self.on_told: Callable[[CursusStream, StreamEvent], object] = lambda _stream, _what: None
        self.wire.serve(log)
        self.wire.poller.serve_with(
            {"cursus": Cursus(None)},
            self.wire.slow.extend,
            lambda _, reason: self.wire.closed.append(reason),
        )

    def connect(self) -> Client:
        """Open a connection."""
        return self.wire.connect()

    def open(self, client: Client, offset: int = 0, **fields: Any) -> CursusStream:
        """Send a STREAM and begin the stream that answers it."""
        self.ask(client)
        stream = self.made(offset, **fields)
        self.begin(stream)
        return stream

    def ask(self, client: Client) -> None:
        """Send a STREAM, which then waits in `slow`."""
        client.send(framed(b"STREAM topic=topic partition=0 group=g"))

    def begin(self, stream: CursusStream) -> None:
        """Answer the oldest request with a stream."""
        self.wire.slow.pop(0).begin(stream)
        self.wire.run()

    def made(self, offset: int = 0, **fields: Any) -> CursusStream:
        """Make a stream of the partition."""
        options = {
            "is_original": False,
            "is_committed": True,
            "records_max": 1000,
            "keepalive_ms": 0,
            **fields,
        }
        return CursusStream(self.log, offset, b"topic", notify=self.tell, **options)

    def tell(self, stream: CursusStream, what: StreamEvent) -> None:
        """Record the events of a stream."""
        self.reported.append(what)
        self.on_told(stream, what)

    def append(self, *batches: bytes) -> None:
        """Append batches, and run the loop."""
        for each in batches:
            appended(self.log, each)
        self.wire.logs.turn.request_end()
        self.wire.run()


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def offsets_of(frames: list[bytes]) -> list[int]:
    """Return the offsets of all records in some frames; keepalives have none."""
    bodies = [frame[4:] for frame in frames if len(frame) > 4]
    return [message.offset for body in bodies for message in read_batch(body).messages]


@pytest.fixture
def streaming(logs: Logs, log: PartitionLog) -> Iterator[Streaming]:
    """One partition whose batches are visible at once."""
    made = Streaming(logs, log)
    yield made
    made.wire.close()


@pytest.fixture
def client(streaming: Streaming) -> Client:
    """One connection."""
    return streaming.connect()


def test_existing_records_are_sent_at_once_and_new_ones_when_the_log_grows(
    streaming: Streaming, client: Client
) -> None:
    streaming.append(records(2))
    stream = streaming.open(client)
    assert offsets_of(client.frames()) == [0, 1]

    streaming.append(records(1), records(2))

    assert offsets_of(client.frames()) == [2, 3, 4]
    assert stream.next_offset == 5
    assert stream.is_open


def test_every_stream_of_a_log_is_woken(streaming: Streaming) -> None:
    clients = [streaming.connect() for _ in range(3)]
    for each in clients:
        streaming.open(each)

    streaming.append(records(1))

    assert [offsets_of(each.frames()) for each in clients] == [[0], [0], [0]]


def test_a_peer_that_does_not_read_is_sent_no_more_than_the_unsent_limit(
    streaming: Streaming, client: Client
) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    streaming.append(*(records(1, size=10_000) for _ in range(500)))

    stream = streaming.open(client)

    # The sockets hold more, but far less than the log.
    assert stream.next_offset * 10_000 < UNSENT_MAX + READ_BYTES + (1 << 20)
    found: list[bytes] = []

    def has_all() -> bool:
        found.extend(client.frames())
        return len(offsets_of(found)) == 500

    streaming.wire.run_until(has_all)
    assert offsets_of(found) == list(range(500))


def unread(client: Client) -> None:
    """Let the sockets hold little of what a client does not read."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


def read_all(streaming: Streaming, client: Client, count: int) -> list[int]:
    """Read until that many records have arrived; return their offsets."""
    found: list[bytes] = []

    def has_all() -> bool:
        found.extend(client.frames())
        return len(offsets_of(found)) >= count

    streaming.wire.run_until(has_all)
    return offsets_of(found)


def test_records_whose_frames_are_large_are_not_all_queued_at_once(
    streaming: Streaming, client: Client
) -> None:
    unread(client)
    body = records(40_000, size=0)
    streaming.append(body)

    stream = streaming.open(client)

    # In addition there is a frame of a thousand records, and what the sockets hold.
    assert stream.next_offset * LEAST_RECORD < UNSENT_MAX + len(body) + (1 << 20)
    assert stream.next_offset < 40_000
    assert read_all(streaming, client, 40_000) == list(range(40_000))


def test_decompressed_records_can_be_dropped_and_are_requested_again(
    streaming: Streaming, client: Client
) -> None:
    plain = records(900, size=1000)[61:]
    streaming.on_told = lambda stream, what: (
        stream.decompress(streaming.log.read(0, 1), plain)
        if what is StreamEvent.COMPRESSED
        else None
    )
    unread(client)
    streaming.append(records(900, size=1000, codec=1))
    stream = streaming.open(client, records_max=100)
    assert stream.decompressed_bytes == len(plain)

    stream.drop_decompressed()

    assert stream.decompressed_bytes == 0
    assert read_all(streaming, client, 900) == list(range(900))
    assert streaming.reported == [StreamEvent.COMPRESSED, StreamEvent.COMPRESSED]
    assert stream.decompressed_bytes == 0


def test_a_stream_reader_may_pause_as_long_as_an_idle_connection(
    streaming: Streaming, client: Client
) -> None:
    unread(client)
    streaming.append(*(records(1, size=10_000) for _ in range(200)))
    streaming.open(client)

    streaming.wire.poller.sweep(NEVER_MS, AT_ONCE_MS, AT_ONCE_MS)
    assert streaming.wire.closed == []

    streaming.wire.poller.sweep(AT_ONCE_MS, NEVER_MS, NEVER_MS)
    assert streaming.wire.closed == ["stalled: it does not read its replies"]


def test_a_stream_begins_after_the_responses_to_earlier_requests(logs: Logs) -> None:
    streaming = Streaming(logs, logs.create(4))
    client = streaming.connect()
    client.send(framed(batch("topic", 0, [Message(b"a")])))
    streaming.ask(client)
    stream = streaming.made(1)
    streaming.wire.run_until(lambda: bool(streaming.wire.slow))

    streaming.begin(stream)
    stream.end(b"the end", is_last=True)
    [acknowledged, last] = client.wait_frames(2)

    assert b'"status":"OK"' in acknowledged
    assert last == framed(b"the end")
    streaming.wire.close()


def test_a_final_frame_ends_a_stream_and_queued_requests_are_served_then(
    streaming: Streaming, client: Client
) -> None:
    stream = streaming.open(client)
    client.send(framed(b"LIST"))
    assert streaming.wire.slow == []

    stream.end(b"the end", is_last=False)
    streaming.wire.run()

    assert client.frames() == [framed(b"the end")]
    [pending] = streaming.wire.slow
    assert pending.body == b"LIST"
    assert streaming.reported == [StreamEvent.CLOSED]
    assert not stream.is_open


def test_a_last_frame_closes_the_connection(streaming: Streaming, client: Client) -> None:
    stream = streaming.open(client)

    stream.end(b"the end", is_last=True)
    streaming.wire.run()

    assert client.frames() == [framed(b"the end")]
    assert client.is_closed


def test_a_stream_may_end_without_a_frame(streaming: Streaming, client: Client) -> None:
    streaming.open(client).end(None, is_last=True)
    streaming.wire.run()

    assert client.frames() == []
    assert client.is_closed


def test_calls_on_an_ended_stream_have_no_effect(streaming: Streaming, client: Client) -> None:
    stream = streaming.open(client)
    stream.end(b"the end", is_last=False)

    stream.end(b"again", is_last=True)
    stream.resume_at(7)
    stream.decompress(b"", b"")
    streaming.append(records(1))

    assert client.frames() == [framed(b"the end")]
    assert not client.is_closed


def test_a_half_closed_peer_ends_the_stream(streaming: Streaming, client: Client) -> None:
    streaming.open(client)

    client.close()

    assert streaming.reported == [StreamEvent.CLOSED]
    assert streaming.wire.closed == ["closed by the peer"]
    streaming.append(records(1))


def test_a_peer_that_disconnected_before_its_stream_began_gets_none(
    streaming: Streaming, client: Client
) -> None:
    streaming.ask(client)
    client.socket.shutdown(socket.SHUT_WR)
    streaming.wire.run()

    streaming.begin(streaming.made())

    assert streaming.reported == [StreamEvent.CLOSED]
    assert client.is_closed


def test_a_reported_event_stops_the_stream_until_it_is_told_where_to_continue(
    streaming: Streaming, client: Client
) -> None:
    streaming.append(records(2))
    stream = streaming.open(client)
    client.frames()
    streaming.append(records(2, codec=1), records(1))
    assert streaming.reported == [StreamEvent.COMPRESSED]
    streaming.append(records(1))
    assert client.frames() == []

    stream.resume_at(4)
    streaming.wire.run()

    assert offsets_of(client.frames()) == [4, 5]


def test_decompressed_records_are_sent_in_order_with_the_others(
    streaming: Streaming, client: Client
) -> None:
    plain = records(3)[61:]
    streaming.on_told = lambda stream, what: (
        stream.decompress(streaming.log.read(1, 1), plain)
        if what is StreamEvent.COMPRESSED
        else None
    )
    streaming.append(records(1), records(3, codec=1), records(1))

    streaming.open(client)

    assert offsets_of(client.frames()) == [0, 1, 2, 3, 4]
    assert streaming.reported == [StreamEvent.COMPRESSED]


def test_bytes_that_are_not_a_batch_are_unreadable(streaming: Streaming, client: Client) -> None:
    streaming.append(records(1, codec=1))
    stream = streaming.open(client)

    stream.decompress(b"", b"")

    assert streaming.reported == [StreamEvent.COMPRESSED, StreamEvent.UNREADABLE]
    assert stream.skip_offset == 1


def test_a_stream_below_the_log_start_is_out_of_range(streaming: Streaming, client: Client) -> None:
    streaming.append(records(3))
    streaming.log.move_log_start(2)

    streaming.open(client, 1)

    assert streaming.reported == [StreamEvent.OUT_OF_RANGE]


def test_every_stream_is_notified_when_the_broker_stops(streaming: Streaming) -> None:
    for _ in range(2):
        streaming.open(streaming.connect())

    streaming.wire.poller.stop_streams()

    assert streaming.reported == [StreamEvent.STOPPED, StreamEvent.STOPPED]


def test_an_exception_in_the_event_callback_closes_the_connection(
    streaming: Streaming, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_stream: CursusStream, what: StreamEvent) -> None:
        if what is StreamEvent.COMPRESSED:
            raise ValueError("a fault")

    streaming.on_told = fail
    streaming.append(records(1, codec=1))

    streaming.open(client)

    assert client.is_closed
    assert streaming.reported == [StreamEvent.COMPRESSED, StreamEvent.CLOSED]
    assert "a notification failed" in caplog.text


def test_keepalives_are_sent_only_when_nothing_else_was_sent(
    streaming: Streaming, client: Client
) -> None:
    streaming.open(client, keepalive_ms=30)

    assert client.wait_frames(2)[:2] == [bytes(4), bytes(4)]


def test_a_request_can_begin_only_one_stream(streaming: Streaming, client: Client) -> None:
    streaming.ask(client)
    [pending] = streaming.wire.slow
    pending.begin(streaming.made())

    with pytest.raises(RuntimeError, match="answered already"):
        pending.begin(streaming.made())
