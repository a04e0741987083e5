"""Streams of another broker, frame by frame: their ends, and what the client is told."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker._native.wire.relay import RelayEvent
from broker.core.security import Security
from broker.core.session import Session
from broker.protocols.cursus import relays
from broker.protocols.cursus.grammar import Command
from broker.protocols.cursus.relays import open_relay
from tests.support.scripted_upstream import Answered, Upstream, clustered

STREAM = b"STREAM topic=t partition=1 group=g"
AGAIN = b"ERROR: NOT_LEADER LEADER_IS here.example:9092"


class FakeRelay:
    """Records what the client gets."""

    def __init__(self, notify: Callable[[RelayEvent], object]) -> None:
        self.notify = notify
        self.sent: list[bytes] = []
        self.ended: tuple[bytes | None, bool] | None = None
        self.has_room = True

    def send(self, body: bytes) -> bool:
        self.sent.append(body)
        return self.has_room

    def end(self, last: bytes | None, *, is_last: bool) -> None:
        if self.ended is None:
            self.ended = last, is_last


def _session() -> Session:
    broker: Any = SimpleNamespace(node_id=1, security=Security())
    broker._replace = lambda **fields: SimpleNamespace(**{**vars(broker), **fields})
    return Session(broker, "192.0.2.7", "here.example", 9092)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def _relayed(
    monkeypatch: pytest.MonkeyPatch,
    frames: tuple[bytes, ...],
    work: Callable[[FakeRelay, Upstream], Awaitable[None]],
    *,
    is_positional: bool = False,
    streams: int = 0,
) -> None:
    """Relay what the other broker sends in answer to STREAM; without frames, it closes."""
    made: list[FakeRelay] = []

    def make(notify: Callable[[RelayEvent], object]) -> FakeRelay:
        made.append(FakeRelay(notify))
        return made[-1]

    def answer(_: int, body: bytes) -> Answered:
        if body.startswith(b"FORWARDED "):
            return b"OK forwarding=true"
        return list(frames) or None

    async def run() -> None:
        async with Upstream(answer) as upstream:
            session = _session()
            session.broker = clustered(session.broker, upstream.address)
            assert session.broker.links is not None
            session.broker.links._streams = streams
            command = Command("STREAM", {"topic": "t"}, is_positional=is_positional)
            request: Any = SimpleNamespace(session=session, command=command, body=STREAM)
            open_relay(request, 2)
            await work(made[0], upstream)
            session.broker.links.close()

    monkeypatch.setattr(relays, "Relay", make)
    asyncio.run(run())


@pytest.mark.parametrize(
    ("last", "ended"),
    [
        (b"ERROR: GEN_MISMATCH current=2", (b"ERROR: GEN_MISMATCH current=2", False)),
        (
            b"STREAM_CONTROL type=CLOSE reason=replaced offset=4",
            (b"STREAM_CONTROL type=CLOSE reason=replaced offset=4", True),
        ),
        (
            b"STREAM_CONTROL type=CLOSE reason=error offset=4",
            (b"STREAM_CONTROL type=CLOSE reason=error offset=4", False),
        ),
        (b"STREAM_CONTROL type=CLOSE reason=stopped offset=4", (AGAIN, False)),
    ],
)
def test_a_stream_ends_for_the_client_as_at_its_leader_unless_only_the_leader_ends(
    monkeypatch: pytest.MonkeyPatch, last: bytes, ended: tuple[bytes, bool]
) -> None:
    async def work(relay: FakeRelay, upstream: Upstream) -> None:
        await _until(lambda: relay.ended is not None)
        assert relay.ended == ended
        assert relay.sent == []
        assert upstream.bodies[1] == STREAM

    _relayed(monkeypatch, (last,), work)


def test_more_streams_than_this_broker_relays_are_sent_to_the_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(relay: FakeRelay, upstream: Upstream) -> None:
        await _until(lambda: relay.ended is not None)
        leader = f"ERROR: NOT_LEADER LEADER_IS {upstream.address}".encode()
        assert relay.ended == (leader, False)
        assert upstream.bodies == []

    _relayed(monkeypatch, (b"\xba\x7cone",), work, streams=1_000)


@pytest.mark.parametrize("is_positional", [False, True])
def test_a_leader_that_is_gone_ends_the_stream_but_not_the_partition(
    monkeypatch: pytest.MonkeyPatch, *, is_positional: bool
) -> None:
    async def work(relay: FakeRelay, _: Upstream) -> None:
        await _until(lambda: relay.ended is not None)
        assert relay.ended == ((None, True) if is_positional else (AGAIN, False))

    _relayed(monkeypatch, (), work, is_positional=is_positional)


def test_a_leader_that_falls_silent_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "CURSUS_STREAM_SILENT_SECONDS", 0.1)

    async def work(relay: FakeRelay, _: Upstream) -> None:
        await _until(lambda: relay.ended is not None)
        assert relay.sent == [b"\xba\x7cbatch"]
        assert relay.ended == (AGAIN, False)

    _relayed(monkeypatch, (b"\xba\x7cbatch",), work)


def test_no_frame_is_taken_while_the_client_reads_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(relay: FakeRelay, _: Upstream) -> None:
        relay.has_room = False
        await _until(lambda: len(relay.sent) == 1)
        await asyncio.sleep(0.05)
        assert len(relay.sent) == 1
        relay.notify(RelayEvent.ROOM)
        await _until(lambda: len(relay.sent) == 2)

    _relayed(monkeypatch, (b"\xba\x7cone", b"\xba\x7ctwo"), work)


def test_the_end_of_the_client_closes_the_leaders_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(relay: FakeRelay, upstream: Upstream) -> None:
        await _until(lambda: len(relay.sent) == 1)
        relay.notify(RelayEvent.CLOSED)
        await _until(lambda: upstream.closed == 1)

    _relayed(monkeypatch, (b"\xba\x7cone",), work)


def test_a_stop_of_this_broker_sends_the_client_to_the_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(relay: FakeRelay, upstream: Upstream) -> None:
        await _until(lambda: len(relay.sent) == 1)
        relay.notify(RelayEvent.STOPPED)
        leader = f"ERROR: NOT_LEADER LEADER_IS {upstream.address}".encode()
        assert relay.ended == (leader, True)

    _relayed(monkeypatch, (b"\xba\x7cone",), work)
