"""Long work on the loop, in steps: others have their turn between them."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

_T = TypeVar("_T")


async def in_steps(items: Iterable[_T], per_step: int) -> AsyncIterator[_T]:
    """Hand out items; after so many of them others have a turn of the loop."""
    for place, item in enumerate(items, 1):
        yield item
        if place % per_step == 0:
            await asyncio.sleep(0)
