"""Listening sockets: the options of an accepted connection."""

import asyncio
import errno
import socket
from typing import Any, cast

import pytest

from broker.core.metrics.counters import Counters
from broker.core.security.quotas.connections import ConnectionLimits
from broker.model import limits
from broker.model.address import Address
from broker.model.config import load
from broker.server.listener import Acceptor, Listener, Throttled
from broker.server.waiting_logins import WaitingLogins


class FakePoller:
    """Keeps accepted connections."""

    def __init__(self) -> None:
        """Begin without any."""
        self.connections: dict[int, Any] = {}
        self.accepted: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()

    def add(self, fd: int, *_: object, **_named: object) -> None:
        """Take over a descriptor."""
        self.accepted.set_result(socket.socket(fileno=fd))


def acceptor_of(loop: asyncio.AbstractEventLoop, poller: FakePoller) -> Acceptor:
    """Return what accepts for a poller, without a limit that is reached."""
    unlimited = ConnectionLimits(load([]), lambda _: None, lambda: 0)
    return Acceptor(
        loop,
        cast("Any", poller),
        lambda *_: None,
        lambda: 10,
        WaitingLogins(loop),
        unlimited,
        Throttled(loop),
        Counters(),
    )


def test_accepted_connections_use_tcp_keepalive() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        listener = Listener(Address("127.0.0.1", 0, ""), None)
        poller = FakePoller()
        listener.serve(acceptor_of(loop, poller))
        with socket.create_connection(("127.0.0.1", listener.port), 20):
            accepted = await asyncio.wait_for(poller.accepted, 60)
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            for option, value in (
                (socket.TCP_KEEPIDLE, limits.KEEPALIVE_IDLE_SECONDS),
                (socket.TCP_KEEPINTVL, limits.KEEPALIVE_SECONDS),
                (socket.TCP_KEEPCNT, limits.KEEPALIVE_PROBES),
            ):
                assert accepted.getsockopt(socket.IPPROTO_TCP, option) == value
        listener.close(loop)

    asyncio.run(scenario())


def test_without_a_descriptor_the_listener_waits_and_logs_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept = socket.socket.accept
    tries: list[socket.socket] = []

    def fail(one: socket.socket) -> None:
        tries.append(one)
        raise OSError(errno.EMFILE, "Too many open files")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        listener = Listener(Address("127.0.0.1", 0, ""), None)
        poller = FakePoller()
        monkeypatch.setattr(limits, "ACCEPT_AGAIN_SECONDS", 0.01)
        monkeypatch.setattr(socket.socket, "accept", fail)
        with socket.create_connection(("127.0.0.1", listener.port), 20):
            listener.serve(acceptor_of(loop, poller))
            end = loop.time() + 60
            turns = 0
            while len(tries) < 3 and loop.time() < end:
                await asyncio.sleep(0)
                turns += 1
            monkeypatch.setattr(socket.socket, "accept", accept)
            (await asyncio.wait_for(poller.accepted, 60)).close()
        listener.close(loop)
        assert turns > 10 * len(tries)  # the loop was not notified in each of them

    asyncio.run(scenario())

    assert len(tries) == 3
    assert caplog.text.count("connections refused: count=1 reason=accept failed") == 1


def test_a_connection_that_cannot_be_taken_over_is_closed_and_not_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        listener = Listener(Address("127.0.0.1", 0, ""), None)
        poller = FakePoller()
        own = ConnectionLimits(load(["max.connections.per.ip=1"]), lambda _: None, lambda: 0)
        acceptor = acceptor_of(loop, poller)._replace(limits=own)
        take = poller.add

        def fail(*_: object, **_named: object) -> None:
            poller.add = take  # type: ignore[method-assign]
            raise OSError(errno.ENOSPC, "No space left on device")

        poller.add = fail  # type: ignore[method-assign]
        listener.serve(acceptor)
        with socket.create_connection(("127.0.0.1", listener.port), 20) as first:
            first.setblocking(False)
            assert await asyncio.wait_for(loop.sock_recv(first, 1), 60) == b""
        with socket.create_connection(("127.0.0.1", listener.port), 20):
            (await asyncio.wait_for(poller.accepted, 60)).close()
        listener.close(loop)

    asyncio.run(scenario())

    assert "connections refused: count=1 reason=it cannot be served" in caplog.text
