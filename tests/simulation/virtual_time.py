"""An event loop in virtual time: a queue of callbacks.

Everything that happens in a simulation is a callback here, ordered by its time, then by when it was
scheduled; so a seed is one history. Clients and Python paths of the broker are coroutines, which
wait for `Answer`s.
"""

from asyncio import Future
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, Generic, TypeVar, cast

AnswerT = TypeVar("AnswerT")


class VirtualTime:
    """The current time, and the callbacks by their time."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def after(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call back after a delay; the callback itself checks whether it is still wanted."""
        heappush(self._queue, (self.now_ms + delay_ms, next(self._order), callback))

    def run_until(self, end_ms: int) -> None:
        """Run everything that is due up to a time."""
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            due_ms, _, callback = heappop(queue)
            self.now_ms = max(self.now_ms, due_ms)
            callback()
        self.now_ms = end_ms

    def answer(self) -> "Answer[Any]":
        """Return a future."""
        return Answer(self)

    def create_future(self) -> Future[Any]:
        """Return a future under the name that an event loop has for it."""
        return cast("Future[Any]", Answer(self))

    async def sleep(self, delay_ms: int) -> None:
        """Wait."""
        woken: Answer[None] = Answer(self)
        self.after(delay_ms, partial(woken.give, None))
        await woken


class Answer(Generic[AnswerT]):
    """Replaces asyncio.Future: a waiter continues in its own turn."""

    __slots__ = ("_callbacks", "_is_done", "_result", "_time")

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._is_done = False
        self._result: AnswerT | None = None
        self._callbacks: list[Callable[[AnswerT], None]] = []

    def done(self) -> bool:
        return self._is_done

    def set_result(self, result: AnswerT) -> None:
        assert not self._is_done, f"answered twice: {self._result}, then {result}"
        self._is_done, self._result = True, result
        for callback in self._callbacks:
            self._call_soon(callback, result)

    def give(self, result: AnswerT) -> None:
        """Set the result, unless it is set already."""
        if not self._is_done:
            self.set_result(result)

    def then(self, callback: Callable[[AnswerT], None]) -> None:
        """Call back with the result, now or later, in its own turn."""
        if self._is_done:
            self._call_soon(callback, self._result)  # type: ignore[arg-type]
        else:
            self._callbacks.append(callback)

    def _call_soon(self, callback: Callable[[AnswerT], None], result: AnswerT) -> None:
        self._time.after(0, partial(callback, result))

    def __await__(self) -> "Generator[Answer[AnswerT], None, AnswerT]":
        if not self._is_done:
            yield self
        return self._result  # type: ignore[return-value]


class Task:
    """A running coroutine; it can be killed at any moment."""

    def __init__(self, work: Coroutine[Answer[Any], None, Any], result: Answer[Any]) -> None:
        self._work = work
        self._result = result
        self.is_alive = True
        self._go_on(None)

    def kill(self) -> None:
        """Do not continue, as a process that was killed."""
        self.is_alive = False

    def _go_on(self, _: Any) -> None:
        if not self.is_alive:
            return
        try:
            awaited = self._work.send(None)
        except StopIteration as stop:
            self.is_alive = False
            self._result.give(stop.value)
        else:
            awaited.then(self._go_on)
