"""One broker's native logs and poller, as the leader or the follower of partitions."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from broker.model.address import Address
from tests.support.native_log import Logs
from tests.support.native_wire import Wire

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog


class Side:
    """Logs in a directory of their own, under a poller of their own."""

    def __init__(self, path: Path) -> None:
        """Serve nothing."""
        path.mkdir()
        self.logs = Logs(path)
        self.wire = Wire(self.logs)
        self.found: list[PartitionLog] = []
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    def create(self, count: int) -> None:
        """Create partitions from 0 on."""
        self.found = [self.logs.create(each) for each in range(count)]

    def drive(self) -> None:
        """Let the running loop serve the poller."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.wire.poller.epoll_fd, self.wire.poller)
        self.logs.turn.schedule = lambda: loop.call_soon(self.wire.poller.end)

    def listen(self, port: int = 0) -> Address:
        """Accept connections in the running loop; return where."""
        self._listening = socket.create_server(("127.0.0.1", port))
        self._listening.setblocking(False)
        self._accepting = asyncio.ensure_future(self._accept(self._listening))
        return Address(*self._listening.getsockname()[:2])

    async def hang_up(self) -> None:
        """Accept no more connections, and end those that there are."""
        assert self._accepting is not None
        assert self._listening is not None
        self._accepting.cancel()
        await asyncio.wait([self._accepting])
        self._listening.close()
        self.wire.poller.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            accepted, _ = await loop.sock_accept(listening)
            self.wire.poller.add(accepted.detach(), "127.0.0.1", None)

    async def aclose(self) -> None:
        """Close everything that a loop has driven."""
        asyncio.get_running_loop().remove_reader(self.wire.poller.epoll_fd)
        if self._accepting is not None:
            with suppress(OSError):
                await self.hang_up()
        self.close()

    def close(self) -> None:
        """Close everything."""
        self.wire.close()
        self.logs.commit.stop()
        self.logs.turn.poll_synced()
