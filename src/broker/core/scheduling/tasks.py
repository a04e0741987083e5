"""Work that is completed once it has begun, even when its requester has disconnected."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

_T = TypeVar("_T")


class Tasks:
    """Holds tasks until they have ended; their requesters may be cancelled."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        """Start without tasks."""
        self._running: set[asyncio.Task[Any]] = set()

    async def run_to_completion(self, work: Awaitable[_T]) -> _T:
        """Run work until it has ended; return its result to the requester, if it still waits."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not warn when the requester has gone
