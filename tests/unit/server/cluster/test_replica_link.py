"""When a link connects to its leader, and which failures it logs."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from broker.core.dialing import Dialer, connect
from broker.model.address import Address
from broker.server.cluster.replica_link import Fetching, ReplicaLink
from tests.support.native_log import TOPIC_ID
from tests.support.replica_side import Side

SOMEWHERE = Address("127.0.0.1", 1)


class Link:
    """A link whose connections fail, as `connect` of a test does."""

    def __init__(self, path: Path) -> None:
        self.side = Side(path / "own")
        self.side.create(1)
        self.side.found[0].follow(0)
        turn, poller = self.side.logs.turn, self.side.wire.poller
        fetching = Fetching(
            *(turn, poller, lambda _: SOMEWHERE, lambda _: None),
            *(3, 500, 1, 10 << 20, 1 << 20, 30_000),
        )
        self.link = ReplicaLink(1, fetching, 7, lambda: None)

    def add(self) -> None:
        self.link.add(self.side.found[0], (TOPIC_ID, 0), 0)

    async def close(self) -> None:
        await self.link.close()
        self.side.close()


class Attempts:
    """Connections that are refused, and when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times: list[float] = []
        monkeypatch.setattr(Dialer, "connect", self._refuse)

    async def _refuse(self, _address: Address) -> Any:
        self.times.append(asyncio.get_running_loop().time())
        raise ConnectionRefusedError("planted")

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.times) < count:
                await asyncio.sleep(0.001)

    @property
    def pauses_ms(self) -> list[float]:
        pairs = zip(self.times[1:], self.times, strict=False)
        return [(after - before) * 1000 for after, before in pairs]


def test_the_pauses_between_attempts_double(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        attempts = Attempts(monkeypatch)
        link = Link(tmp_path)
        await asyncio.sleep(0.01)
        assert attempts.times == []  # there is nothing to copy
        link.add()
        await attempts.until(4)
        await link.close()

        for pause_ms, least_ms in zip(attempts.pauses_ms, (50, 100, 200), strict=True):
            assert pause_ms >= least_ms - 1
        assert caplog.text.count("no connection to a leader") == 1

    asyncio.run(run())


def test_a_registration_ends_the_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr("broker.model.limits.REPLICA_CONNECT_PAUSE_MS", 60_000)
        attempts = Attempts(monkeypatch)
        link = Link(tmp_path)
        link.add()
        await attempts.until(1)
        await asyncio.sleep(0.01)

        link.link.hurry()

        await attempts.until(2)
        await link.close()

    asyncio.run(run())


def test_each_address_of_a_name_is_tried() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            connected = await connect(Address("localhost", port))  # maybe ::1 first
            assert connected.getpeername()[:2] == ("127.0.0.1", port)
            assert not connected.getblocking()
            connected.close()

    asyncio.run(run())


def test_a_refused_connection_is_an_error() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        with pytest.raises(OSError, match=r"refused|Connect"):
            await connect(Address("127.0.0.1", port))

    asyncio.run(run())
