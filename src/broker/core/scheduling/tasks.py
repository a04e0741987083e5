"""Tasks that nobody awaits, or that outlive their requesters, until they have ended."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class Tasks:
    """Holds tasks until they have ended; their requesters may be cancelled."""

    def __init__(self, bytes_max: int = 0) -> None:
        """Start without tasks.

        Args:
            bytes_max: how many bytes the tasks whose requesters are gone may hold together.
        """
        self._running: set[asyncio.Task[Any]] = set()
        self._bytes_max = bytes_max
        self._orphaned = 0  # bytes of those tasks

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin work that nobody has to wait for; asyncio logs an error that ends it."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def run_to_completion(self, work: Awaitable[_T], size: int = 0) -> _T:
        """Run work until it has ended; return its result to the requester, if it still waits.

        Work of `size` bytes is cancelled with its requester if there is no room for it.
        """
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._orphaned + size > self._bytes_max:
                task.cancel()
            elif not task.done():
                self._orphaned += size
                task.add_done_callback(lambda _: self._release(size))
            raise

    async def stop(self) -> None:
        """Cancel the work that has not ended, and wait for that."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _release(self, size: int) -> None:
        self._orphaned -= size

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not warn when the requester has gone
