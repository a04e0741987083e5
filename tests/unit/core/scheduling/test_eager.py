"""Coroutines that run at once up to their first wait."""

import asyncio
from collections.abc import Awaitable

import pytest

from broker.core.scheduling.eager import run_to_first_wait


def test_work_without_a_wait_needs_no_loop() -> None:
    async def work() -> int:
        return 5

    assert run_to_first_wait(work)() == 5


def test_an_error_before_the_first_wait_is_raised_at_once() -> None:
    async def work() -> int:
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        run_to_first_wait(work)()


@pytest.mark.parametrize("waits", [1, 3])
def test_work_that_waits_is_begun_at_once_and_continues_when_it_is_awaited(waits: int) -> None:
    done: list[int] = []

    async def work(turn: asyncio.Event) -> str:
        for number in range(waits):
            done.append(number)
            await turn.wait()
            await asyncio.sleep(0)
        return "answer"

    async def scenario() -> None:
        turn = asyncio.Event()
        rest = run_to_first_wait(work)(turn)
        assert done == [0]
        assert isinstance(rest, Awaitable)
        asyncio.get_running_loop().call_soon(turn.set)
        assert await rest == "answer"
        assert done == list(range(waits))

    asyncio.run(scenario())


def test_what_has_ended_before_the_rest_is_awaited_is_not_missed() -> None:
    async def scenario() -> None:
        waited: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def work() -> int:
            return await waited + 1

        rest = run_to_first_wait(work)()
        waited.set_result(1)
        assert isinstance(rest, Awaitable)
        assert await rest == 2

    asyncio.run(scenario())


def test_a_cancelled_request_cancels_its_work_at_its_wait() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("cleaned up")
            raise

    async def scenario() -> None:
        rest = run_to_first_wait(work)()
        assert isinstance(rest, Awaitable)
        task = asyncio.ensure_future(rest)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert seen == ["cancelled", "cleaned up"]
