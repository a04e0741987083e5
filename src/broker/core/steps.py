"""Long work on the loop, in steps of at most 2 ms: others have their turn between them.

All long work of a loop waits in one queue, and in one turn of the loop one of those that wait makes
a step, first come, first served: a hundred long answers hold up a short one as much as one of them
does, and take longer each.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from heapq import merge
from itertools import groupby, islice
from typing import TypeVar
from weakref import WeakKeyDictionary

_T = TypeVar("_T")
_OrderedT = TypeVar("_OrderedT", str, tuple[str, int])


async def next_step() -> None:
    """Let others have their turn; return when it is this work's turn to make a step."""
    loop = asyncio.get_running_loop()
    queue = _queues.get(loop)
    if queue is None:
        queue = _queues[loop] = _Queue()
    await queue.wait(loop)


async def in_steps(items: Iterable[_T], per_step: int) -> AsyncIterator[_T]:
    """Hand out items; after so many of them others have a turn of the loop."""
    for place, item in enumerate(items, 1):
        yield item
        if place % per_step == 0:
            await next_step()


async def in_parts(items: Iterable[_T], per_part: int) -> AsyncIterator[list[_T]]:
    """Hand out so many items at once; others have a turn of the loop before the next ones."""
    rest = iter(items)
    part = list(islice(rest, per_part))
    while part:
        yield part
        is_last = len(part) < per_part
        part = [] if is_last else list(islice(rest, per_part))
        if part:
            await next_step()


async def ascending(items: Iterable[_OrderedT], per_step: int) -> Iterator[_OrderedT]:
    """Each item once, in order, put in order in steps."""
    runs = [sorted(part) async for part in in_parts(items, per_step)]
    return (item for item, _ in groupby(merge(*runs)))


class StepBudget:
    """For pieces of work of different sizes: others have a turn after so many units of it."""

    __slots__ = ("_left", "_per_step")

    def __init__(self, per_step: int) -> None:
        """Begin a step of so many units."""
        self._left = self._per_step = per_step

    async def spend(self, count: int) -> None:
        """Count units that have been done."""
        self._left -= count
        if self._left <= 0:
            self._left = self._per_step
            await next_step()


class NextStep(asyncio.Future[None]):
    """The wait of long work for its next step: its request is still being processed."""


class _Queue:
    """The work that waits for a step in one loop."""

    __slots__ = ("_is_taken", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[NextStep] = deque()
        self._is_taken = False  # somebody makes a step in the next turn of the loop

    async def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_taken:
            waiter = NextStep(loop=loop)
            self._waiting.append(waiter)
            await waiter
        else:
            self._is_taken = True
            loop.call_soon(self._admit, loop)
            await asyncio.sleep(0)

    def _admit(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the turn in which one makes its step: let the first of the others have the next."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else whoever asked has gone
                waiter.set_result(None)
                loop.call_soon(self._admit, loop)
                return
        self._is_taken = False


_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
