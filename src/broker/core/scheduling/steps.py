"""Long work on the event loop, in steps of at most 2 ms, with other work in between.

All long work of a loop waits in one queue, and in each turn of the loop one piece of work makes a
step, first come, first served. So a hundred long responses delay a short one as much as a single
one does; each of the long ones takes longer instead.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from heapq import merge
from itertools import groupby, islice
from typing import TypeVar
from weakref import WeakKeyDictionary

_T = TypeVar("_T")
_OrderedT = TypeVar("_OrderedT", str, tuple[str, int])


async def next_step() -> None:
    """Let other work run; return when it is this work's turn to make a step."""
    loop = asyncio.get_running_loop()
    queue = _queues.get(loop)
    if queue is None:
        queue = _queues[loop] = _Queue()
    await queue.wait(loop)


async def complete_in_steps(slices: Generator[None, None, _T]) -> _T:
    """Run a generator that yields between two steps; other work runs then. Return its result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: _T = end.value
            return result
        await next_step()


class in_steps(AsyncIterator[_T]):  # noqa: N801 (it is called like the functions beside it)
    """Yield the items one by one; other work runs after every `per_step` of them.

    (An asynchronous generator that is left by an exception has to be closed by the loop.)
    """

    __slots__ = ("_items", "_next", "_per_step", "_place")

    def __init__(self, items: Iterable[_T], per_step: int) -> None:
        """Begin with the first item."""
        self._items = enumerate(items, 1)
        self._place = 0  # how many items there were
        self._next = self._per_step = per_step  # how many there are when the step is over

    async def __anext__(self) -> _T:
        """Return the next item, in another step if this one is over."""
        if self._place == self._next:
            self._next += self._per_step
            await next_step()
        for self._place, item in self._items:  # noqa: B020 (an attribute of it)
            return item
        raise StopAsyncIteration


async def in_parts(items: Iterable[_T], per_part: int) -> AsyncIterator[list[_T]]:
    """Yield lists of `per_part` items; other work runs between two of them."""
    rest = iter(items)
    part = list(islice(rest, per_part))
    while part:
        yield part
        is_last = len(part) < per_part
        part = [] if is_last else list(islice(rest, per_part))
        if part:
            await next_step()


async def ascending(items: Iterable[_OrderedT], per_step: int) -> Iterator[_OrderedT]:
    """Return each distinct item once, in order; the sorting is done in steps."""
    runs = [sorted(part) async for part in in_parts(items, per_step)]
    return (item for item, _ in groupby(merge(*runs)))


class StepBudget:
    """A step's budget for work items of different cost: other work runs when it is spent."""

    __slots__ = ("_left", "_per_step")

    def __init__(self, per_step: int) -> None:
        """Start a step with this many units."""
        self._left = self._per_step = per_step

    async def spend(self, count: int) -> None:
        """Spend units of the budget; wait for the next step when none are left."""
        self._left -= count
        if self._left <= 0:
            self._left = self._per_step
            await next_step()


class NextStep(asyncio.Future[None]):
    """The wait of long work for its next step; its request still counts as running."""


class _Queue:
    """The work that waits for a step in one loop."""

    __slots__ = ("_is_taken", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[NextStep] = deque()
        self._is_taken = False  # one of the works makes a step in this turn or in the next one

    async def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_taken:
            self._is_taken = True
            try:
                await asyncio.sleep(0)
            finally:
                self._admit_next()
            return
        waiter = NextStep(loop=loop)
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            if waiter.done() and not waiter.cancelled():  # else it was not its turn
                self._admit_next()

    def _admit_next(self) -> None:
        """Call when a work makes its step: the first of the others makes one in the next turn."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else its request was cancelled
                waiter.set_result(None)
                return
        self._is_taken = False


_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
