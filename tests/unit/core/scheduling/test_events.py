"""Waits for an event."""

import asyncio

from broker.core.scheduling.events import is_set_within


def test_a_wait_ends_when_the_event_is_set() -> None:
    async def scenario() -> None:
        event = asyncio.Event()
        waiting = asyncio.ensure_future(is_set_within(event, None))
        await asyncio.sleep(0)
        assert not waiting.done()
        event.set()
        assert await waiting

    asyncio.run(scenario())


def test_a_wait_ends_after_its_time() -> None:
    async def scenario() -> None:
        assert not await is_set_within(asyncio.Event(), 0.001)

    asyncio.run(scenario())


def test_an_event_that_is_set_counts_also_when_there_is_no_time() -> None:
    async def scenario() -> None:
        event = asyncio.Event()
        event.set()
        assert await is_set_within(event, -1)

    asyncio.run(scenario())
