"""The two pages of metrics, made once for all who ask within a second."""

import asyncio

from broker.core.metrics.collect import Collector
from broker.core.metrics.limits import LINES_PER_STEP, PAGE_SECONDS
from broker.core.metrics.registry import METRICS
from broker.core.metrics.text import END, family
from broker.core.scheduling.steps import in_parts
from broker.model.long_page import LongPage


class Pages:
    """Renders the pages; those who ask at the same time wait for the same rendering."""

    def __init__(self, collector: Collector) -> None:
        """Begin without pages."""
        self._collector = collector
        self._made: dict[tuple[bool, bool], asyncio.Task[LongPage]] = {}

    async def page(self, *, is_all: bool, is_open: bool) -> LongPage:
        """Return a page, which was done at most PAGE_SECONDS ago."""
        loop, key = asyncio.get_running_loop(), (is_all, is_open)
        made = self._made.get(key)
        if made is None:
            made = loop.create_task(self._render(is_all=is_all, is_open=is_open))
            self._made[key] = made
            made.add_done_callback(lambda _: loop.call_later(PAGE_SECONDS, self._made.pop, key))
        return await asyncio.shield(made)  # one who leaves does not end it for the others

    async def _render(self, *, is_all: bool, is_open: bool) -> LongPage:
        values = await self._collector.collect(is_all=is_all)
        lines = (
            line
            for metric in METRICS.values()
            if is_all or metric.is_small
            # (To free all values at the end would be one long step.)
            for line in family(metric, values.pop(metric.name, ()), is_open=is_open)
        )
        parts = [_encoded(part) async for part in in_parts(lines, LINES_PER_STEP)]
        if is_open:
            parts.append(_encoded([END]))
        return LongPage(tuple(parts))


def _encoded(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()
