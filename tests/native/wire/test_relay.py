"""A relayed stream on its connection: order, back-pressure, its events and its end."""

import socket
from collections.abc import Callable, Iterator

import pytest

from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.cursus.protocol import Cursus
from broker._native.wire.relay import Relay, RelayEvent
from tests.support.native_log import Logs
from tests.support.native_wire import Client, Wire

UNSENT_MAX = 256 << 10


class Relaying:
    """A wire that speaks Cursus, and the relays that a test begins on it."""

    def __init__(self, logs: Logs, log: PartitionLog) -> None:
        """Serve one partition."""
        self.wire = Wire(logs)
        self.events: list[RelayEvent] = []
        self.on_event: Callable[[RelayEvent], object] = lambda _: None
        self.wire.serve(log)
        self.wire.poller.serve_with(
            {"cursus": Cursus(None)},
            self.wire.slow.extend,
            lambda _, reason: self.wire.closed.append(reason),
        )

    def begin(self, client: Client) -> Relay:
        """Send a STREAM and answer it with a relay."""
        client.send(framed(b"STREAM topic=topic partition=0 group=g"))
        relay = Relay(self.tell)
        self.wire.slow.pop(0).begin(relay)
        self.wire.run()
        return relay

    def tell(self, event: RelayEvent) -> None:
        """Record an event."""
        self.events.append(event)
        self.on_event(event)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.fixture
def relaying(logs: Logs, log: PartitionLog) -> Iterator[Relaying]:
    made = Relaying(logs, log)
    yield made
    made.wire.close()


@pytest.fixture
def client(relaying: Relaying) -> Client:
    return relaying.wire.connect()


def test_frames_arrive_in_their_order_with_their_lengths(
    relaying: Relaying, client: Client
) -> None:
    relay = relaying.begin(client)
    assert relay.is_open
    for body in (b"one", b"", b"three"):
        assert relay.send(body)
    relaying.wire.run()
    assert client.frames() == [framed(b"one"), framed(b""), framed(b"three")]
    assert relaying.events == []


def test_a_client_that_does_not_read_makes_the_relay_wait_until_it_reads(
    relaying: Relaying, client: Client
) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    relay = relaying.begin(client)
    body, sent = bytes(100_000), 0
    has_room = True
    while has_room:
        has_room = relay.send(body)
        sent += 1
        relaying.wire.run()
        assert sent < 1000
    assert relaying.events == []
    got = client.wait_frames(sent)
    assert got == [framed(body)] * sent
    relaying.wire.run_until(lambda: bool(relaying.events))
    assert relaying.events == [RelayEvent.ROOM]
    assert relay.send(b"more")


def test_room_is_told_once_for_each_wait(relaying: Relaying, client: Client) -> None:
    relay = relaying.begin(client)
    assert not relay.send(bytes(2 * UNSENT_MAX))
    client.wait_frames(1)
    relaying.wire.run_until(lambda: bool(relaying.events))
    relay.send(b"a")
    relaying.wire.run()
    assert relaying.events == [RelayEvent.ROOM]


@pytest.mark.parametrize("is_last", [False, True])
def test_after_its_last_frame_the_connection_closes_or_serves_the_next_request(
    relaying: Relaying, client: Client, *, is_last: bool
) -> None:
    relay = relaying.begin(client)
    client.send(framed(b"LIST"))  # waits for the end of the stream
    assert relaying.wire.slow == []
    relay.end(b"bye", is_last=is_last)
    relaying.wire.run()
    assert client.frames() == [framed(b"bye")]
    assert relaying.events == [RelayEvent.CLOSED]
    assert not relay.is_open
    assert not relay.send(b"late")
    assert client.is_closed if is_last else len(relaying.wire.slow) == 1


def test_the_end_of_the_client_ends_the_relay(relaying: Relaying, client: Client) -> None:
    relay = relaying.begin(client)
    client.close()
    relaying.wire.run()
    assert relaying.events == [RelayEvent.CLOSED]
    assert not relay.send(b"late")
    relay.end(b"late", is_last=True)


def test_a_stop_may_end_it_at_once(relaying: Relaying, client: Client) -> None:
    relay = relaying.begin(client)
    relaying.on_event = lambda event: (
        relay.end(b"stopped", is_last=True) if event is RelayEvent.STOPPED else None
    )
    relaying.wire.poller.stop_streams()
    relaying.wire.run()
    assert client.frames() == [framed(b"stopped")]
    assert relaying.events == [RelayEvent.STOPPED, RelayEvent.CLOSED]


def test_an_event_that_fails_closes_the_connection_only(relaying: Relaying, client: Client) -> None:
    def fail(event: RelayEvent) -> None:
        if event is RelayEvent.STOPPED:
            raise RuntimeError("planted")

    relaying.on_event = fail
    relaying.begin(client)
    relaying.wire.poller.stop_streams()
    relaying.wire.run()
    assert client.is_closed
