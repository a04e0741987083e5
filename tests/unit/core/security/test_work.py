"""Computations of logins in their thread: whose turn it is, and what is refused."""

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event
from typing import Self

import pytest

from broker.core.security.sasl.outcome import Done, Outcome, Refused, Work
from broker.core.security.work import LoginWork

NO_ROOM = Refused("too many logins wait")


class Held:
    """Login work whose thread is busy until it is let go; it notes in which order it ran."""

    def __init__(self, waiting_max: int = 100) -> None:
        self.work = LoginWork(waiting_max)
        self.free = Event()
        self.ran: list[str] = []

    async def __aenter__(self) -> Self:
        begun = Event()

        def wait() -> Outcome:
            begun.set()
            self.free.wait()
            return Done(b"", "first")

        self.first = asyncio.ensure_future(self.work.outcome(Work(wait), "first"))
        while not begun.is_set():
            await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.free.set()
        await self.first
        self.work.stop()

    async def add(self, name: str, address: str) -> "asyncio.Task[Outcome]":
        def run() -> Outcome:
            self.ran.append(name)
            return Done(b"", name)

        task = asyncio.create_task(self.work.outcome(Work(run), address))
        await asyncio.sleep(0)
        return task


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    asyncio.run(main())


def test_addresses_take_turns() -> None:
    async def test() -> None:
        async with Held() as held:
            added = [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c")]
            tasks = [await held.add(*each) for each in added]
            held.free.set()
            outcomes = await asyncio.gather(*tasks)
        assert held.ran == ["a1", "b1", "c1", "a2", "b2", "a3"]
        assert outcomes == [Done(b"", name) for name, _ in added]

    run(test)


def test_addresses_of_one_network_of_ipv6_have_one_turn() -> None:
    async def test() -> None:
        async with Held() as held:
            tasks = [await held.add(f"a{number}", f"2001:db8::{number}") for number in range(2)]
            tasks.append(await held.add("b", "2001:db8:0:1::"))
            held.free.set()
            await asyncio.gather(*tasks)
        assert held.ran == ["a0", "b", "a1"]

    run(test)


def test_the_last_of_the_address_that_has_most_is_refused() -> None:
    async def test() -> None:
        async with Held(waiting_max=3) as held:
            most = [await held.add(f"a{number}", "a") for number in range(3)]
            other = await held.add("b", "b")
            own = await held.add("a3", "a")
            held.free.set()
            outcomes = await asyncio.gather(*most, other, own)
        assert [each == NO_ROOM for each in outcomes] == [False, False, True, False, True]

    run(test)


def test_a_newcomer_is_refused_if_others_have_as_much() -> None:
    async def test() -> None:
        async with Held(waiting_max=2) as held:
            tasks = [await held.add(address, address) for address in "abc"]
            held.free.set()
            outcomes = await asyncio.gather(*tasks)
        assert [each == NO_ROOM for each in outcomes] == [False, False, True]

    run(test)


def test_what_nobody_waits_for_is_not_computed_and_makes_room() -> None:
    async def test() -> None:
        async with Held(waiting_max=2) as held:
            left = [await held.add(f"a{number}", "a") for number in range(2)]
            for each in left:
                each.cancel()
            await asyncio.wait(left)
            tasks = [await held.add(f"b{number}", "a") for number in range(2)]
            held.free.set()
            await asyncio.gather(*tasks)
        assert held.ran == ["b0", "b1"]

    run(test)


def test_what_fails_is_raised_where_it_is_awaited_and_the_next_one_runs() -> None:
    async def test() -> None:
        def fail() -> Outcome:
            raise ZeroDivisionError

        async with Held() as held:
            failed = asyncio.create_task(held.work.outcome(Work(fail), "a"))
            await asyncio.sleep(0)
            last = await held.add("a", "a")
            held.free.set()
            with pytest.raises(ZeroDivisionError):
                await failed
            assert await last == Done(b"", "a")

    run(test)


def test_what_has_not_begun_is_dropped_at_the_end() -> None:
    async def test() -> None:
        async with Held() as held:
            waiting = await held.add("a", "a")
            stopping = asyncio.create_task(asyncio.to_thread(held.work.stop))
            with pytest.raises(asyncio.CancelledError):
                await waiting
            held.free.set()
            await stopping
        assert held.ran == []

    run(test)


def test_what_needs_no_thread_is_returned_at_once() -> None:
    async def test() -> None:
        async with Held() as held:
            assert await held.work.outcome(NO_ROOM, "a") is NO_ROOM

    run(test)
