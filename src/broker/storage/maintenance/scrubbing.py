"""Plans the scrub: which closed segments are due for a check, and at what rate. Pure functions.

A segment is due when it was last checked `interval_ms` ago, never, or at a time that is in the
future by the present clock. The longest unchecked come first, so that damage that was lost over a
restart is found first: such segments are marked as never checked.
"""

from collections.abc import Iterable
from typing import NamedTuple

NEVER_MS = 0  # the last check of a segment that was never checked, or that is damaged
OFF_MS = -1  # interval: nothing is ever due


class Closed(NamedTuple):
    """A closed segment."""

    folder: str
    base_offset: int


def due(checked: Iterable[tuple[Closed, int]], now_ms: int, interval_ms: int) -> list[Closed]:
    """Return the segments that are due, given the time of each one's last check."""
    if interval_ms == OFF_MS:
        return []
    waiting = [
        (checked_ms, segment)
        for segment, checked_ms in checked
        if not 0 <= now_ms - checked_ms < interval_ms
    ]
    return [segment for _, segment in sorted(waiting)]


def pause_seconds(size: int, seconds: float, bytes_per_second: int) -> float:
    """Return how long to wait after `size` bytes in `seconds`, to stay below a rate."""
    return max(size / bytes_per_second - seconds, 0.0)
