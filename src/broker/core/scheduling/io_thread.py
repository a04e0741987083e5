"""The one Python thread that may wait for the disk: metadata, checkpoints, small files.

It runs one piece of work at a time, in the order of submission, so data that only this thread uses
needs no lock.
"""

from asyncio import get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


class IoThread:
    """Runs blocking work outside the event loop."""

    def __init__(self, name: str = "broker-io") -> None:
        """Create the executor; the thread starts with its first work."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run work in the thread; return its result or raise its exception."""
        return await get_running_loop().run_in_executor(self._executor, work)

    def stop(self) -> None:
        """Finish the submitted work and end the thread."""
        self._executor.shutdown()
