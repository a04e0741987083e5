"""The services of a process: started in order, stopped in reverse."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from broker.core.service import Service
from broker.model import limits

_log = logging.getLogger(__name__)


class Part(Service):
    """A part of the process without a class of its own: what starts, runs and stops it."""

    def __init__(
        self,
        name: str,
        *,
        start: Callable[[], None] | None = None,
        run: Callable[[], Coroutine[Any, Any, None]] | None = None,
        stop: Callable[[], Awaitable[None] | None] | None = None,
    ) -> None:
        """Keep its functions; what it has none for is not done."""
        self.name = name
        self._start = start
        self._run = run
        self._stop = stop

    def start(self) -> None:
        """Call its function, if any."""
        if self._start is not None:
            self._start()

    async def run(self) -> None:
        """Await its coroutine, if any."""
        if self._run is not None:
            await self._run()

    async def stop(self) -> None:
        """Call its function, if any, and wait for it."""
        if self._stop is not None:
            stopping = self._stop()
            if stopping is not None:
                await stopping


class Services:
    """All services, in the order in which they start."""

    def __init__(self, services: Sequence[Service]) -> None:
        """Keep them; nothing is started."""
        self._services = tuple(services)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start all of them, in order; raise what the first failing one raises."""
        for each in self._services:
            each.start()

    def run(self, when_failed: Callable[[], None]) -> None:
        """Begin their background work; an error that ends one of them is logged.

        Then `when_failed` is called if it is an essential one.
        """
        for each in self._services:
            task = asyncio.ensure_future(each.run())
            task.add_done_callback(partial(_note_end, each, when_failed))
            self._tasks.append(task)

    def cancel(self) -> None:
        """Ask the background work to end."""
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        """Wait until the cancelled work has ended, then stop all services in reverse.

        An error is logged and raised; the services before it are not stopped, because a stop may
        write that everything after it has been written.
        """
        if self._tasks:  # the compactor's process is ended, too
            await asyncio.wait(self._tasks, timeout=limits.STOP_SECONDS)
        for each in reversed(self._services):
            try:
                await each.stop()
            except Exception:
                _log.error("service has not stopped: service=%s", each.name)
                raise


def _note_end(service: Service, when_failed: Callable[[], None], task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is None:
        return
    what_follows = "the broker stops" if service.is_essential else "it is not restarted"
    _log.error(
        "background work has failed: service=%s follows=%s",
        service.name,
        what_follows,
        exc_info=error,
    )
    if service.is_essential:
        when_failed()
