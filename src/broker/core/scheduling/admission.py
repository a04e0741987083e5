"""The memory budget of requests that decode to many objects, and the order in which they start.

    WAITS ---------> RUNS -----------> PARKED ----------> ENDED
    holds its bytes  counts against    counts against
                     bytes_max         the Parking

A request runs while it is decoded, handled and encoded. From its first wait on (for the disk, for
another thread, for records of a long poll) it counts as parked until it ends: when its wait is
over, it continues without waiting for its turn again.

Requests start in the order of fair clocks (fair_clocks.py), which advance by the weight of each
request. So short requests do not wait for many long ones, and a connection that asks for more than
the others is served after them.
"""

from asyncio import Future, get_running_loop
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import Enum
from heapq import heappop, heappush
from typing import Any, Generic, NamedTuple, TypeVar

from broker.core.scheduling.fair_clocks import FairClocks
from broker.core.scheduling.parking import Parking
from broker.core.scheduling.steps import NextStep
from broker.model.errors import PeerError

_T = TypeVar("_T")


class _State(Enum):
    RUNS = "runs"
    PARKED = "parked"
    ENDED = "ended"


class Share:
    """The share of the memory budget that one request takes until it has ended."""

    __slots__ = ("_ended_running", "_is_needed", "_parking", "_state", "weight")

    def __init__(
        self, weight: int, parking: Parking, ended_running: Callable[[int], None] | None = None
    ) -> None:
        """Start as running; `ended_running` is called with the weight when it stops running."""
        self.weight = weight
        self._parking = parking
        self._ended_running = ended_running
        self._state = _State.RUNS
        self._is_needed = False

    def park(self) -> None:
        """Mark the request as waiting. It stays parked until it ends."""
        self._park(is_poll=False)

    @contextmanager
    def polling(self, wake: Callable[[], None]) -> Iterator[None]:
        """Mark the request as a long poll: `wake` is called when its memory is needed by others."""
        self._park(is_poll=True)
        with self._parking.poll(self.weight, lambda: self._end_poll(wake)):
            yield

    @property
    def is_needed(self) -> bool:
        """Whether others need its memory: it has to be answered with what has been found so far."""
        return self._is_needed

    def end(self) -> None:
        """Release everything that the request holds."""
        state, self._state = self._state, _State.ENDED
        if state is _State.PARKED:
            self._parking.leave(self.weight, was_woken=self._is_needed)
        elif state is _State.RUNS:
            self._stop_running()

    def _park(self, *, is_poll: bool) -> None:
        if self._state is _State.RUNS:
            self._state = _State.PARKED
            self._parking.enter(self.weight, is_poll=is_poll)
            self._stop_running()

    def _end_poll(self, wake: Callable[[], None]) -> None:
        self._is_needed = True
        wake()

    def _stop_running(self) -> None:
        if self._ended_running is not None:
            self._ended_running(self.weight)


class Parked(Generic[_T]):
    """Awaits the work of a request, and parks the request when the work first waits for something.

    Yielding the loop to others between two steps (NextStep) is not such a wait.
    """

    __slots__ = ("_share", "_work")

    def __init__(self, work: Awaitable[_T], share: Share) -> None:
        """Keep the work; it starts when this object is awaited."""
        self._work = work
        self._share = share

    def __await__(self) -> Generator[Any, None, _T]:
        """Advance the work step by step, as the event loop does with a coroutine."""
        steps = self._work.__await__()
        raised: BaseException | None = None
        while True:
            try:
                awaited = next(steps) if raised is None else steps.throw(raised)
            except StopIteration as end:
                result: _T = end.value
                return result
            finally:
                raised = None  # its traceback refers to this frame: no cycle
            if awaited is not None and not isinstance(awaited, NextStep):
                self._share.park()
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - the work's own
                raised = error


class _Waiting(NamedTuple):
    """A request that has not started, in the order in which they start."""

    clock: int  # what its connection's clock shows after this request
    number: int  # breaks ties: the first to arrive is served first
    size: int
    weight: int
    begins: Future[None]


class Admission:
    """Decides which requests run and which wait."""

    def __init__(
        self, bytes_max: int, waiting_bytes_max: int, parking: Parking | None = None
    ) -> None:
        """Start without requests.

        Args:
            bytes_max: what all running requests together may take.
            waiting_bytes_max: how many bytes of requests may wait to be started.
            parking: the budget of requests that wait for something else; None: a separate one,
                for requests that are never parked.
        """
        self._bytes_max = bytes_max
        self._waiting_bytes_max = waiting_bytes_max
        self._parking = Parking(bytes_max) if parking is None else parking
        self._parking.when_less = self._begin_some
        self._running = 0
        self._waiting_bytes = 0
        self._waiting: list[_Waiting] = []  # a heap
        self._passed: list[tuple[int, _Waiting]] = []  # a heap by weight: the parking has no space
        self._clocks = FairClocks()
        self._number = 0

    @asynccontextmanager
    async def turn(self, owner: object, size: int, weight: int) -> AsyncIterator[Share]:
        """Wait until a request of `size` bytes that takes `weight` may be served.

        A request that is larger than the whole budget runs alone.

        Args:
            owner: the connection; None: one that has not asked for anything before.
            size: its bytes.
            weight: the bytes of the objects that it is decoded to.

        Raises:
            PeerError: too many bytes wait, and this request is the largest of them.
        """
        if self._waiting or not self._fits(weight):
            await self._wait(owner, size, weight)
        else:
            self._begin(weight, self._clocks.advance(owner, weight))
        share = Share(weight, self._parking, self._stopped_running)
        try:
            yield share
        finally:
            share.end()

    def short(self, weight: int) -> Share:
        """Serve a request too small to wait for its turn: it counts only while it is parked."""
        return Share(weight, self._parking)

    def _fits(self, weight: int) -> bool:
        is_let = self._running == 0 or self._running + weight <= self._bytes_max
        return is_let and self._parking.has_room_for(weight)

    def _begin(self, weight: int, clock: int) -> None:
        self._running += weight
        self._clocks.reach(clock)

    def _stopped_running(self, weight: int) -> None:
        self._running -= weight
        self._begin_some()

    async def _wait(self, owner: object, size: int, weight: int) -> None:
        """Wait for the request's turn; its weight is taken when the turn comes."""
        self._number += 1
        begins = get_running_loop().create_future()
        clock = self._clocks.advance(owner, weight)
        heappush(self._waiting, _Waiting(clock, self._number, size, weight, begins))
        self._waiting_bytes += size
        try:
            if self._waiting_bytes > self._waiting_bytes_max:
                self._refuse_largest()
            self._begin_some()
            await begins
        except BaseException:
            # The request was cancelled. If its turn came at the same time, the next one may start.
            if begins.done() and not begins.cancelled() and begins.exception() is None:
                self._running -= weight
            begins.cancel()
            self._begin_some()
            raise
        finally:
            self._waiting_bytes -= size

    def _refuse_largest(self) -> None:
        """Refuse the largest waiting request, not the newest one."""
        waiting = (*self._waiting, *(each for _, each in self._passed))
        largest = max((each for each in waiting if not each.begins.done()), key=_size)
        text = f"more than {self._waiting_bytes_max} bytes of long requests wait"
        largest.begins.set_exception(PeerError(text))

    def _begin_some(self) -> None:
        while self._passed and self._parking.has_room_for(self._passed[0][0]):
            heappush(self._waiting, heappop(self._passed)[1])
        while self._waiting:
            first = self._waiting[0]
            if not first.begins.done():
                if not self._parking.has_room_for(first.weight):
                    heappush(self._passed, (first.weight, first))
                elif self._fits(first.weight):
                    self._begin(first.weight, first.clock)
                    first.begins.set_result(None)
                else:
                    return
            heappop(self._waiting)


def _size(waiting: _Waiting) -> int:
    return waiting.size
