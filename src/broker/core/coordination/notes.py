"""Writes the notes of coordinators to the log: reasons of rebalances, fencing, expiry, aborts.

The number of lines in a second is limited, whatever clients do; suppressed ones are counted, and
reported in the next second with a line.
"""

import logging
from collections.abc import Iterable

from broker.model.clock import Clock
from broker.model.limits import NOTES_PER_SECOND_MAX

logger = logging.getLogger(__name__)
_SECOND_MS = 1_000


class Notes:
    """The notes of one kind of coordinator."""

    def __init__(self, clock: Clock) -> None:
        """Begin a second without lines."""
        self._clock = clock
        self._second_ms = clock.monotonic_ms()
        self._written = 0
        self._left_out = 0

    def log(self, notes: Iterable[str]) -> None:
        """Write notes, up to the limit of this second."""
        for note in notes:
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._second_ms >= _SECOND_MS:
                self._begin_second(now_ms)
            if self._written < NOTES_PER_SECOND_MAX:
                self._written += 1
                logger.info("%s", note)
            else:
                self._left_out += 1

    def _begin_second(self, now_ms: int) -> None:
        if self._left_out:
            logger.info("notes left out count=%d: there were too many in a second", self._left_out)
        self._second_ms, self._written, self._left_out = now_ms, 0, 0
