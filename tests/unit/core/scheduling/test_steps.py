"""Long work yields the loop to others, one step per turn, however many tasks wait."""

import asyncio
from collections.abc import Awaitable, Callable, Generator

import pytest

from broker.core.scheduling.steps import complete_in_steps, in_parts, in_steps, next_step


async def steps_of(work: Callable[[], Awaitable[object]], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often other tasks ran."""
    steps = 0

    async def count() -> None:
        nonlocal steps
        steps += 1
        await next_step()

    monkeypatch.setattr("broker.core.scheduling.steps.next_step", count)
    await work()
    return steps


@pytest.mark.parametrize(("count", "turns"), [(0, 0), (2, 0), (3, 1), (7, 2)])
def test_other_tasks_run_after_every_few_elements(
    count: int, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        assert [each async for each in in_steps(range(count), 3)] == list(range(count))

    assert asyncio.run(steps_of(work, monkeypatch)) == turns


@pytest.mark.parametrize(
    ("count", "parts"), [(0, []), (2, [2]), (3, [3]), (4, [3, 1]), (6, [3, 3])]
)
def test_parts_are_full_except_the_last_and_other_tasks_run_between_them(
    count: int, parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        found = [each async for each in in_parts(iter(range(count)), 3)]
        assert [len(each) for each in found] == parts
        assert [each for part in found for each in part] == list(range(count))

    assert asyncio.run(steps_of(work, monkeypatch)) == max(len(parts) - 1, 0)


def test_other_tasks_run_between_the_slices_of_a_generator_whose_result_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slices() -> Generator[None, None, str]:
        yield
        yield
        return "result"

    async def work() -> None:
        assert await complete_in_steps(slices()) == "result"

    assert asyncio.run(steps_of(work, monkeypatch)) == 2


def test_one_turn_of_the_loop_runs_one_step_of_all_waiting_tasks() -> None:
    made: list[tuple[int, int]] = []  # the turn, and the owner of the step
    turn = 0

    async def work(number: int) -> None:
        for _ in range(5):
            await next_step()
            made.append((turn, number))

    async def everybody() -> None:
        nonlocal turn
        working = [asyncio.ensure_future(work(number)) for number in range(10)]
        while not all(each.done() for each in working):
            await asyncio.sleep(0)
            turn += 1

    asyncio.run(everybody())

    turns = [at for at, _ in made]
    assert len(set(turns)) == len(turns) == 50
    assert [number for _, number in made] == [*range(10)] * 5


def test_the_step_of_a_cancelled_task_goes_to_the_next() -> None:
    async def two() -> None:
        gone, left = (asyncio.ensure_future(next_step()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait_for(left, 10)

    asyncio.run(two())


def test_steps_may_be_awaited_in_successive_event_loops() -> None:
    for _ in range(2):
        asyncio.run(next_step())
