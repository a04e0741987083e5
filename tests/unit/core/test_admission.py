"""Requests that become many objects: who is under way together, who waits, who gives up."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.core.admission import Admission
from broker.model.errors import PeerError


class Turns:
    """Requests by name: each is under way until it is told to end."""

    def __init__(self) -> None:
        """Let them take ten together, and as much wait."""
        self.admission = Admission(bytes_max=10, waiting_bytes_max=10)
        self.under_way: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, weight: int, size: int = 1) -> None:
        """Let a request come."""
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._serve(name, size, weight))
        await settle()

    async def end(self, name: str) -> None:
        """Let one end."""
        self._ends[name].set()
        await settle()

    async def _serve(self, name: str, size: int, weight: int) -> None:
        async with self.admission.turn(size, weight):
            self.under_way.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.under_way.remove(name)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def played(scenario: Callable[[Turns], Awaitable[None]]) -> None:
    async def play() -> None:
        turns = Turns()
        await scenario(turns)
        for task in turns.tasks.values():
            task.cancel()
        await asyncio.gather(*turns.tasks.values(), return_exceptions=True)

    asyncio.run(play())


def test_as_many_are_under_way_as_fit_and_the_others_follow_in_order() -> None:
    async def scenario(turns: Turns) -> None:
        for name, weight in (("a", 5), ("b", 5), ("c", 6), ("d", 1)):
            await turns.ask(name, weight)
        assert turns.under_way == ["a", "b"]

        await turns.end("a")
        assert turns.under_way == ["b"]
        await turns.end("b")
        assert turns.under_way == ["c", "d"]

    played(scenario)


def test_one_that_is_larger_than_all_may_be_is_served_alone() -> None:
    async def scenario(turns: Turns) -> None:
        await turns.ask("huge", 1_000)
        await turns.ask("small", 1)
        assert turns.under_way == ["huge"]

        await turns.end("huge")
        assert turns.under_way == ["small"]

    played(scenario)


def test_one_more_than_may_wait_is_refused() -> None:
    async def scenario(turns: Turns) -> None:
        await turns.ask("a", 10)
        await turns.ask("b", 10, size=10)
        await turns.ask("c", 10)

        with pytest.raises(PeerError, match="more than 10 bytes of long requests wait"):
            await turns.tasks["c"]
        await turns.end("a")
        assert turns.under_way == ["b"]
        await turns.ask("d", 10, size=10)
        assert not turns.tasks["d"].done()

    played(scenario)


@pytest.mark.parametrize("gone", ["a", "b"])
def test_who_goes_leaves_its_place_to_the_next(gone: str) -> None:
    async def scenario(turns: Turns) -> None:
        for name in "abc":
            await turns.ask(name, 10)

        turns.tasks[gone].cancel()
        await settle()
        if gone == "b":
            await turns.end("a")

        assert turns.under_way == ["b" if gone == "a" else "c"]

    played(scenario)


def test_who_goes_as_its_turn_comes_leaves_it_to_the_next() -> None:
    async def scenario(turns: Turns) -> None:
        for name in "abc":
            await turns.ask(name, 10)

        turns.tasks["a"].cancel()
        await asyncio.sleep(0)  # its turn is given to b, which does not know yet
        turns.tasks["b"].cancel()
        await settle()

        assert turns.under_way == ["c"]

    played(scenario)
