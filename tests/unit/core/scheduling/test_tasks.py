"""Work that outlives its requester, within a limit of bytes."""

import asyncio

import pytest

from broker.core.scheduling.tasks import Tasks


class Work:
    """Work that ends when the test lets it."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.outcome = ""

    async def run(self) -> str:
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.outcome = "cancelled"
            raise
        self.outcome = "done"
        return self.outcome


async def orphaned(tasks: Tasks, size: int) -> Work:
    """Return work of this size whose requester is gone."""
    work = Work()
    requester = asyncio.ensure_future(tasks.run_to_completion(work.run(), size))
    await asyncio.sleep(0)
    requester.cancel()
    with pytest.raises(asyncio.CancelledError):
        await requester
    return work


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_work_is_completed_without_its_requester() -> None:
    async def scenario() -> None:
        tasks = Tasks(100)
        work = await orphaned(tasks, 100)
        work.may_end.set()
        await settle()

        assert work.outcome == "done"

    asyncio.run(scenario())


def test_work_beyond_the_limit_ends_with_its_requester() -> None:
    async def scenario() -> None:
        tasks = Tasks(100)
        first, second = await orphaned(tasks, 60), await orphaned(tasks, 60)
        await settle()
        assert (first.outcome, second.outcome) == ("", "cancelled")

        first.may_end.set()
        await settle()
        third = await orphaned(tasks, 60)
        third.may_end.set()
        await settle()

        assert (first.outcome, third.outcome) == ("done", "done")

    asyncio.run(scenario())


def test_the_limit_does_not_apply_to_work_whose_requester_waits() -> None:
    async def scenario() -> None:
        tasks = Tasks(100)
        work = Work()
        requester = asyncio.ensure_future(tasks.run_to_completion(work.run(), 1_000))
        await asyncio.sleep(0)
        work.may_end.set()

        assert await requester == "done"

    asyncio.run(scenario())


def test_a_stop_ends_all_work() -> None:
    async def scenario() -> None:
        tasks = Tasks(100)
        works = [await orphaned(tasks, 10) for _ in range(3)]

        await tasks.stop()
        await tasks.stop()

        assert [work.outcome for work in works] == ["cancelled"] * 3

    asyncio.run(scenario())
