"""Answers shared by concurrent requests: computed once, and never older than the request."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from itertools import count
from random import Random

import pytest

from broker.core.scheduling.response_cache import ResponseCache
from broker.core.scheduling.steps import next_step


class State:
    """A number that is its own revision, and answers with its value at their beginning."""

    def __init__(self, bytes_max: int = 1 << 20) -> None:
        self.number = 0
        self.made = 0
        self.making = 0
        self.making_max = 0
        self.answers = ResponseCache(lambda: self.number, bytes_max)

    async def make(self, size: int = 8, steps: int = 3) -> bytes:
        self.made += 1
        self.making += 1
        self.making_max = max(self.making_max, self.making)
        number = self.number
        for _ in range(steps):
            await next_step()
        self.making -= 1
        return number.to_bytes(size, "big")

    async def ask(self, key: Hashable = "all", size: int = 8) -> int:
        return int.from_bytes(await self.answers.get(key, lambda: self.make(size)), "big")


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def run_to_completion() -> None:
        await work()

    asyncio.run(run_to_completion())


def test_concurrent_requests_share_one_answer() -> None:
    state = State()

    async def work() -> None:
        assert await asyncio.gather(*(state.ask() for _ in range(100))) == [0] * 100

    run(work)
    assert state.made == 1


def test_an_answer_is_kept_until_the_state_changes() -> None:
    state = State()

    async def work() -> None:
        assert [await state.ask() for _ in range(3)] == [0, 0, 0]
        state.number = 1
        assert [await state.ask() for _ in range(3)] == [1, 1, 1]

    run(work)
    assert state.made == 2


def test_a_request_after_a_change_gets_no_answer_computed_before_it() -> None:
    state = State()

    async def work() -> None:
        before = asyncio.ensure_future(state.ask())
        while not state.making:
            await asyncio.sleep(0)
        state.number = 1
        after = [asyncio.ensure_future(state.ask()) for _ in range(10)]
        assert await asyncio.gather(before, *after) == [0, *[1] * 10]

    run(work)
    assert state.made == 2


@pytest.mark.parametrize("seed", range(20))
def test_no_answer_is_older_than_its_request_however_often_the_state_changes(
    seed: int,
) -> None:
    state = State()
    random = Random(seed)

    async def ask(key: str) -> None:
        asked_at = state.number
        assert await state.ask(key) >= asked_at

    async def work() -> None:
        asking = []
        for _ in range(200):
            keys = random.choices("ab", k=random.randrange(4))
            asking += [asyncio.ensure_future(ask(key)) for key in keys]
            state.number += random.random() < 0.3
            await asyncio.sleep(0)
        await asyncio.gather(*asking)

    run(work)
    assert state.making_max == 1
    assert state.made < 100


def test_kept_answers_are_limited_and_the_least_recently_used_is_evicted() -> None:
    state = State(bytes_max=20)

    async def work() -> None:
        for key in ("a", "b", "a", "c"):  # c evicts b
            await state.ask(key)
        assert state.made == 3
        await state.ask("a")
        assert state.made == 3
        await state.ask("b")
        assert state.made == 4
        for made in (5, 6):  # larger than the whole limit
            await state.ask("large", size=21)
            assert state.made == made

    run(work)


def test_a_cancelled_request_does_not_cancel_the_others() -> None:
    state = State()

    async def work() -> None:
        gone, left = (asyncio.ensure_future(state.ask()) for _ in range(2))
        while not state.making:
            await asyncio.sleep(0)
        gone.cancel()
        assert await left == 0
        assert gone.cancelled()

    run(work)
    assert state.made == 1


def test_a_failure_reaches_all_requests_and_the_next_one_tries_again() -> None:
    state = State()
    numbers = count()

    async def fail() -> bytes:
        await next_step()
        raise LookupError(next(numbers))

    async def work() -> None:
        for number in range(2):
            asking = [asyncio.ensure_future(state.answers.get("all", fail)) for _ in range(3)]
            found = await asyncio.gather(*asking, return_exceptions=True)
            assert [str(each) for each in found] == [str(number)] * 3
        assert await state.ask() == 0

    run(work)
