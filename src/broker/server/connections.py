"""The native side of all connections, as a part of the process: opened, drained and closed."""

import asyncio

from broker._native.wire.poller import Poller
from broker.model import limits
from broker.model.clock import Clock


class Connections:
    """All connections of the broker."""

    def __init__(self, poller: Poller, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        """Keep what it needs."""
        self._poller = poller
        self._clock = clock
        self._loop = loop

    def open(self) -> None:
        """Let the loop serve ready sockets."""
        self._loop.add_reader(self._poller.epoll_fd, self._poller)

    async def drain(self) -> None:
        """Wait for syncs and replies of accepted requests, STOP_SECONDS at most."""
        deadline_ms = self._clock.monotonic_ms() + limits.STOP_SECONDS * 1000
        self._poller.stop_streams()
        while (  # noqa: ASYNC110 (nothing to await: the replies are the native side's)
            self._poller.has_pending_replies and self._clock.monotonic_ms() < deadline_ms
        ):
            await asyncio.sleep(0.005)

    async def close(self) -> None:
        """Close all of them."""
        self._poller.close()
        await asyncio.sleep(0)  # the tasks of their requests end
        self._loop.remove_reader(self._poller.epoll_fd)
        self._poller.end()
