"""Waits for an event that may take too long."""

import asyncio
from contextlib import suppress


async def is_set_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait until an event is set, for some seconds at most; return whether it is.

    None: however long it takes.
    """
    if event.is_set():
        return True
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
