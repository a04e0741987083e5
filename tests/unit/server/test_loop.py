"""The event loop: how long callbacks run before the sockets are polled again."""

import asyncio
import os
from collections.abc import Iterator
from functools import partial

import pytest

from broker.model.limits import PYTHON_SHARE_US
from broker.server.loop import Loop

MANY = 100
STEP_US = PYTHON_SHARE_US // 5
FIRST, LAST = 4, 6  # this many of them fill a turn


class Clock:
    """A clock that stands still unless something works."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.now = 0

    def __call__(self) -> int:
        """Return the time."""
        return self.now

    def work(self) -> None:
        """Work for one step."""
        self.now += STEP_US * 1_000


@pytest.fixture
def clock() -> Clock:
    """The clock that the loop uses."""
    return Clock()


@pytest.fixture
def loop(clock: Clock) -> Iterator[Loop]:
    """A loop for one test."""
    loop = Loop()
    loop.now_ns = clock
    yield loop
    loop.close()


class Sockets:
    """A descriptor that is always ready, and the number of callbacks run at each poll."""

    def __init__(self, loop: Loop, done: list[int]) -> None:
        """Be polled in each turn."""
        self.looks: list[int] = []
        self._done = done
        self._loop = loop
        self._read, self._write = os.pipe()
        os.write(self._write, b"x")
        loop.add_reader(self._read, self._look)

    def _look(self) -> None:
        self.looks.append(len(self._done))
        if len(self._done) >= MANY:
            self._loop.remove_reader(self._read)
            self._loop.stop()

    def close(self) -> None:
        """Stop being polled."""
        os.close(self._read)
        os.close(self._write)


def steps_between_looks(loop: Loop, done: list[int]) -> list[int]:
    """Run until all is done; return how much was done between two polls of the sockets."""
    sockets = Sockets(loop, done)
    loop.run_forever()
    sockets.close()
    return [after - before for before, after in zip(sockets.looks, sockets.looks[1:], strict=False)]


def test_callbacks_yield_to_the_sockets_when_their_share_is_used_up(
    loop: Loop, clock: Clock
) -> None:
    done: list[int] = []

    def step(number: int) -> None:
        clock.work()
        done.append(number)

    for number in range(MANY):
        loop.call_soon(step, number)

    assert max(steps_between_looks(loop, done)) <= LAST
    assert done == list(range(MANY)), "they keep their order"


def test_the_callbacks_of_one_event_yield_too(loop: Loop, clock: Clock) -> None:
    done: list[int] = []
    future = loop.create_future()

    def step(number: int, _: object) -> None:
        clock.work()
        done.append(number)

    for number in range(MANY):
        future.add_done_callback(partial(step, number))
    loop.call_soon(future.set_result, None)

    assert max(steps_between_looks(loop, done)) <= LAST


def test_the_steps_of_tasks_yield_too(loop: Loop, clock: Clock) -> None:
    done: list[int] = []

    async def work() -> None:
        for number in range(10):
            clock.work()
            done.append(number)
            await asyncio.sleep(0)

    tasks = [loop.create_task(work()) for _ in range(MANY)]
    assert max(steps_between_looks(loop, done)) <= LAST
    loop.run_until_complete(asyncio.gather(*tasks))


def test_short_callbacks_share_a_turn(loop: Loop) -> None:
    done: list[int] = []
    for number in range(MANY):
        loop.call_soon(done.append, number)

    assert len(steps_between_looks(loop, done)) <= 2


def test_call_next_does_not_wait_for_queued_callbacks(loop: Loop, clock: Clock) -> None:
    done: list[int] = []
    seen: list[int] = []

    def step(number: int) -> None:
        clock.work()
        done.append(number)
        if number == 0:
            loop.call_next(lambda: seen.append(len(done)))

    for number in range(MANY):
        loop.call_soon(step, number)
    steps_between_looks(loop, done)

    assert seen[0] <= 2 * LAST


def test_a_cancelled_callback_is_not_called(loop: Loop) -> None:
    called: list[str] = []
    loop.call_soon(called.append, "cancelled").cancel()
    loop.call_soon(called.append, "called")

    loop.run_until_complete(asyncio.sleep(0))

    assert called == ["called"]


def test_a_failing_callback_does_not_stop_others(loop: Loop) -> None:
    called: list[str] = []
    reported: list[object] = []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    error = KeyError("the test says so")

    def fail() -> None:
        raise error

    loop.call_soon(fail)
    loop.call_soon(called.append, "called")
    loop.run_until_complete(asyncio.sleep(0))

    assert called == ["called"]
    assert reported == [error]
