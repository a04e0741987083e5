"""Long work leaves turns of the loop to others."""

import asyncio

import pytest

from broker.core.steps import in_steps


@pytest.mark.parametrize(("count", "turns"), [(0, 0), (2, 0), (3, 1), (7, 2)])
def test_others_have_a_turn_after_so_many(count: int, turns: int) -> None:
    had = 0

    async def work() -> list[int]:
        return [each async for each in in_steps(range(count), 3)]

    async def beside() -> list[int]:
        nonlocal had
        working = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        while not working.done():
            had += 1
            await asyncio.sleep(0)
        return working.result()

    assert asyncio.run(beside()) == list(range(count))
    assert had == turns
