"""Requests that become many objects take turns: together they never take more than so much memory.

They are served in the order in which they came. One that is larger than all may be alone is served
alone.
"""

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker.model.errors import PeerError


class Admission:
    """What requests that are under way take, and who waits until there is less of it."""

    def __init__(self, bytes_max: int, waiting_bytes_max: int) -> None:
        """Begin with none.

        Args:
            bytes_max: what those under way may take together.
            waiting_bytes_max: how many bytes of requests may wait.
        """
        self._bytes_max = bytes_max
        self._waiting_bytes_max = waiting_bytes_max
        self._taken = 0
        self._waiting_bytes = 0
        self._waiting: deque[tuple[int, Future[None]]] = deque()

    @asynccontextmanager
    async def turn(self, size: int, weight: int) -> AsyncIterator[None]:
        """Wait until a request of `size` bytes that takes `weight` may be served.

        Raises:
            PeerError: too much waits already.
        """
        if self._waiting or not self._fits(weight):
            await self._wait(size, weight)
        else:
            self._taken += weight
        try:
            yield
        finally:
            self._taken -= weight
            self._admit()

    def _fits(self, weight: int) -> bool:
        return self._taken == 0 or self._taken + weight <= self._bytes_max

    async def _wait(self, size: int, weight: int) -> None:
        """Wait for a turn, which is taken when it comes."""
        if self._waiting_bytes + size > self._waiting_bytes_max:
            raise PeerError(f"more than {self._waiting_bytes_max} bytes of long requests wait")
        turn = get_running_loop().create_future()
        self._waiting.append((weight, turn))
        self._waiting_bytes += size
        try:
            await turn
        except BaseException:
            # Whoever asked has gone; if its turn had come just then, it is the next one's.
            if turn.done() and not turn.cancelled():
                self._taken -= weight
            self._admit()
            raise
        finally:
            self._waiting_bytes -= size

    def _admit(self) -> None:
        while self._waiting:
            weight, turn = self._waiting[0]
            if not turn.done():
                if not self._fits(weight):
                    return
                self._taken += weight
                turn.set_result(None)
            self._waiting.popleft()
