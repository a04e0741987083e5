"""Which closed segments are due to be looked at again, and how fast. Pure: facts and times in.

A segment is due when it was last looked at `interval_ms` ago, never, or in what is the future by
the clock of now. Those that waited longest come first, so that what a restart has forgotten to be
damaged, and is marked as never looked at, is found first.
"""

from collections.abc import Iterable
from typing import NamedTuple

NEVER_MS = 0  # when a segment was last looked at that nobody has looked at, or that is damaged
OFF_MS = -1  # interval: nothing is ever due


class Closed(NamedTuple):
    """A closed segment."""

    folder: str
    base_offset: int


def due(checked: Iterable[tuple[Closed, int]], now_ms: int, interval_ms: int) -> list[Closed]:
    """The segments that are due, given when each was looked at last."""
    if interval_ms == OFF_MS:
        return []
    waiting = [
        (checked_ms, segment)
        for segment, checked_ms in checked
        if not 0 <= now_ms - checked_ms < interval_ms
    ]
    return [segment for _, segment in sorted(waiting)]


def pause_seconds(size: int, seconds: float, bytes_per_second: int) -> float:
    """How long to wait after so many bytes in so much time to be no faster than a rate."""
    return max(size / bytes_per_second - seconds, 0.0)
