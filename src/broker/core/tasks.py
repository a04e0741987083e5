"""Work that ends once it has begun, even when the connection that asked for it is gone."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class Tasks:
    """Holds what runs until it has ended: who waits may give up."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        """Start with nothing to do."""
        self._running: set[asyncio.Task[Any]] = set()

    async def run_to_completion(self, work: Coroutine[None, None, _T]) -> _T:
        """Run work to its end; what it returns or raises, for who still waits."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # the asker was told, or has gone: asyncio need not warn of it
