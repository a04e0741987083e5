"""The one Python thread for what may wait for the disk: metadata, checkpoints, small files.

Work runs there one piece at a time, in the order given, so what only this thread touches needs no
lock.
"""

from asyncio import get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


class IoThread:
    """Runs blocking work beside the loop."""

    __slots__ = ("_executor",)

    def __init__(self) -> None:
        """The thread itself starts with its first work."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="broker-io")

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run work in the thread and wait for what it returns or raises."""
        return await get_running_loop().run_in_executor(self._executor, work)

    def stop(self) -> None:
        """Finish what was given and end the thread."""
        self._executor.shutdown()
